"""Where the files are that the package ships."""

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
CONFIGS = PACKAGE / "configs"
POLICIES = PACKAGE / "policies"
