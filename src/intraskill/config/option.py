"""How one option of the configuration is declared and looked up; free of heavy imports."""

import difflib
from collections.abc import Iterable

from intraskill.method.option import option as option


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'NAME'?`` for a misspelt name, and nothing when no known one is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""
