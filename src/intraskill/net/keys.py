"""The key of a server: read from the environment at each use, and taken out of whatever the server quotes."""

import base64
import os
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

_SHORTEST_SECRET = 8
"""A shorter key is a dummy such as EMPTY, which may be a word of an answer."""


def key_in(variable: str) -> str:
    """Return the key that an environment variable holds; empty without any.

    Raises:
        ValueError: when it cannot be sent in a header; the key is not shown.
    """
    key = _held(variable)
    if key and not (key.isascii() and key.isprintable()):
        raise ValueError(f"the variable {variable} holds characters that no key has; set it again")
    return key


def scrub(text: str, variable: str) -> str:
    """Return a text with ``…`` in place of the key: as it is, escaped as in JSON or in an address, or in base64.

    A text is cut after this, never before: half a key would be recognised no more.
    """
    key = _held(variable)
    return _pattern(key).sub("…", text) if len(key) >= _SHORTEST_SECRET else text


def scrubbed(data: Any, variable: str) -> Any:
    """Return JSON data with every text in it scrubbed."""
    if isinstance(data, str):
        return scrub(data, variable)
    if isinstance(data, Mapping):
        return {scrub(name, variable): scrubbed(value, variable) for name, value in data.items()}
    if isinstance(data, Sequence):
        return [scrubbed(item, variable) for item in data]
    return data


def _held(variable: str) -> str:
    return os.environ.get(variable, "").strip() if variable else ""


@lru_cache(maxsize=8)
def _pattern(key: str) -> re.Pattern[str]:
    written = "".join(_written(run) for run in re.findall(r"\\+|[^\\]", key))
    return re.compile("|".join([written, *_in_base64(key)]))


def _written(run: str) -> str:
    """Return the pattern of one letter, or of backslashes in a row; none of them looks at a place twice."""
    code, times = ord(run[0]), len(run)
    plain = rf"\\{{{times},{4 * times}}}+" if run[0] == "\\" else rf"\\{{0,3}}+{re.escape(run)}"
    coded = rf"\\{{1,3}}+(?i:u{code:04x}|x{code:02x})|%(?i:{code:02x})"
    return f"(?:{plain}|(?:{coded}){{{times}}})"


def _in_base64(key: str) -> list[str]:
    """Return the patterns of a key inside base64, where it may begin at each of the three bytes of a group.

    The letters at both ends mix the key with its neighbours, so any letter may stand there.
    """
    patterns = []
    for shift in range(3):
        raw = bytes(shift) + key.encode(errors="replace")
        inner = base64.b64encode(raw).decode().rstrip("=")[(0, 2, 3)[shift] : -1 if len(raw) % 3 else None]
        letters = "".join({"+": r"[+-]", "/": r"(?:\\?/|_)"}.get(letter, letter) for letter in inner)
        patterns.append(
            f"{'[A-Za-z0-9+/_-]' if shift else ''}{letters}{'[A-Za-z0-9+/_-]={0,2}' if len(raw) % 3 else ''}"
        )
    return patterns
