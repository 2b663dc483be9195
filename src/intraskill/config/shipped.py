"""Where the files are that the package ships."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
POLICIES = PACKAGE / "policies"
_INSTALLED, _CHECKOUT = PACKAGE / "configs", PACKAGE.parents[1] / "configs"
CONFIGS = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
"""Experiments and draft skills: inside an installed package, at the top of a checkout."""
