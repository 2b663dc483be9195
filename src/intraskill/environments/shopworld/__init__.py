"""The embedded shop: deterministic, in process, no download."""

from intraskill.environments.shopworld.world import Settings, Shop, ShopWorld

__all__ = ["Settings", "Shop", "ShopWorld"]
