"""Serve a shop to other people's trainers over HTTP."""

from intraskill.environments.serve.server import SERVED_DIALECTS, ServeSettings, ShopServer

__all__ = ["SERVED_DIALECTS", "ServeSettings", "ShopServer"]
