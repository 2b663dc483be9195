"""``python -m intraskill``."""

import sys

from intraskill.cli import main

sys.exit(main())
