"""The embedded shop: deterministic, in process, no download."""

from intraskill.environments.shopworld.world import ShopWorld

__all__ = ["ShopWorld"]
