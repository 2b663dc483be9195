"""How one option of the configuration is declared; free of heavy imports."""

import difflib
from collections.abc import Iterable
from dataclasses import field
from typing import Any


def option(default: Any, doc: str, interval: str = "", choices: tuple[str, ...] = ()) -> Any:
    """Declare a field: default, meaning with unit, and its range in interval notation such as ``(0, 1]``."""
    metadata = {"doc": doc, "interval": interval, "choices": choices}
    if isinstance(default, list | dict):
        return field(default_factory=lambda: type(default)(default), metadata=metadata)
    return field(default=default, metadata=metadata)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'NAME'?`` for a misspelt name, and nothing when no known one is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""
