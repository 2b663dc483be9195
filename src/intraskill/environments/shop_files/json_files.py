"""A JSON or JSON-lines file of the user's, plain or gzipped, read whole; everything wrong with it is one clear error.

The content decides what a file is, never its name.
"""

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

from intraskill.method.errors import ConfigError
from intraskill.method.json_rows import each_row, lines_of

_GZIP_MAGIC = b"\x1f\x8b"


def read_rows(path: str | Path, what: str) -> list[Any]:
    """Return the rows of a JSON list or of a JSON-lines file.

    Args:
        path: the file.
        what: how messages name it, such as ``path``.

    Raises:
        ConfigError: for a missing, empty, corrupt or truncated file, or one that holds no list of rows.
    """
    text = _text(path, what)
    rows = _whole(text, path, what) if text.startswith("[") else _lines(text, path, what)
    if not rows:
        raise ConfigError(f"{what}={path} holds an empty list; give a file with at least one row")
    return list(rows)


def read_mapping(path: str | Path, what: str) -> dict[str, Any]:
    """Return the one JSON object that a file holds.

    Raises:
        ConfigError: for a missing, empty, corrupt or truncated file, or one that holds no object.
    """
    found = _whole(_text(path, what), path, what)
    if not isinstance(found, dict) or not found:
        raise ConfigError(f"{what}={path} holds {_kind(found)}; give a JSON object that maps product ids to entries")
    return found


def _text(path: str | Path, what: str) -> str:
    try:
        data = Path(path).read_bytes()
        if data.startswith(_GZIP_MAGIC):
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig").strip()
    except OSError as error:  # BadGzipFile is one as well
        raise ConfigError(
            f"{what}={path} cannot be read ({error}); give the path of a JSON or JSON-lines file"
        ) from error
    except (EOFError, zlib.error) as error:
        raise ConfigError(f"{what}={path} is a truncated or corrupt gzip file ({error}); fetch it again") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what}={path} is not UTF-8 text ({error}); give a JSON or JSON-lines file") from error
    if not text:
        raise ConfigError(f"{what}={path} is empty; give a file with at least one row")
    return text


def _whole(text: str, path: str | Path, what: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise ConfigError(f"{what}={path} is truncated or no JSON ({error}); fetch it again") from error


def _lines(text: str, path: str | Path, what: str) -> list[Any]:
    lines = lines_of(text)
    try:
        first = json.loads(lines[0])
    except json.JSONDecodeError:
        found = _whole(text, path, what)  # one object over many lines, or no JSON at all: the error says which
        raise ConfigError(f"{what}={path} holds {_kind(found)}, not a list of rows; {_REMEDY}") from None
    if not isinstance(first, dict) or (
        len(lines) == 1 and all(isinstance(value, dict | list) for value in first.values())
    ):
        raise ConfigError(f"{what}={path} holds {_kind(first)}, not a list of rows; {_REMEDY}")
    rows, wrong = each_row(text, lambda _, row: row)
    if wrong:
        line, _, why = wrong[0].partition(": ")
        raise ConfigError(f"{what}={path} is broken in {line} of {len(lines)} ({why}); fetch it again")
    return rows


_REMEDY = "give a JSON list or one JSON object per line"


def _kind(value: object) -> str:
    if isinstance(value, dict):
        return f"one JSON object with {len(value)} keys ({', '.join(list(value)[:3])}{', …' if len(value) > 3 else ''})"
    return f"a JSON {type(value).__name__}"
