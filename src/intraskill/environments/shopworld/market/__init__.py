"""The market: generated shops in English and Chinese with the texts, traps and personas of a real one."""

from intraskill.environments.shopworld.market.generate import PRESETS, generate

__all__ = ["PRESETS", "generate"]
