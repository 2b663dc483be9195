"""The embedded shop: deterministic, in process, no download."""

from intraskill.environments.shopworld.stock import Settings
from intraskill.environments.shopworld.world import Shop, ShopWorld

__all__ = ["Settings", "Shop", "ShopWorld"]
