"""Fixtures that every test may use."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
# Generated worlds are kept between test runs, but beside the checkout and not among the user's own files.
os.environ.setdefault("INTRASKILL_CACHE", str(Path(__file__).parents[1] / ".pytest_cache" / "worlds"))

# Output has the width of a pipe unless a test says otherwise; readline, which pytest loads, sets COLUMNS for workers.
os.environ.pop("COLUMNS", None)


@pytest.fixture
def golden() -> Callable[[str, str], None]:
    """Compare text with ``tests/golden/NAME``; `make golden` writes the file instead."""

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if os.environ.get("INTRASKILL_WRITE_GOLDEN"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert text == path.read_text(encoding="utf-8"), f"{path} differs; if the change is meant, run: make golden"

    return compare
