"""JSON lines: those that this project wrote, and rows that a person gave, each under a name such as ``line 3``."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from intraskill.method.errors import IntraSkillError

T = TypeVar("T")


def lines_of(text: str) -> list[str]:
    r"""Split JSON lines at ``\n`` only: strings may hold U+2028, U+2029 and U+0085, where ``splitlines`` would cut."""
    return text.removesuffix("\n").split("\n") if text else []


def rows_of(text: str) -> list[Any]:
    """Return one JSON value per line, of a file that this project wrote itself.

    Raises:
        ValueError: naming the line that is no JSON.
    """
    rows = []
    for number, line in enumerate(lines_of(text), start=1):
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"line {number}, is not valid JSON ({error})") from error
    return rows


def value_of(text: str) -> Any:
    """Return one JSON value, without what no record can hold or no reader would agree on.

    Raises:
        ValueError: for text that is no JSON, and for a key that stands twice in one object, NaN, an infinity, a number
            beyond any float, half a surrogate pair, and what is nested too deeply.
    """
    try:
        text.encode()
        value = json.loads(
            text, object_pairs_hook=without_duplicates, parse_constant=_number, parse_float=_number, parse_int=_integer
        )
        if "\\u" in text:  # an escape can write half a pair too
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half a surrogate pair") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def without_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dict.

    Raises:
        ValueError: for a key that stands twice.
    """
    if len(unique := dict(pairs)) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return unique


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"{text[:40]} is no finite number")
    return number


def _integer(text: str) -> int:
    _number(text)
    return int(text)


def each_row(text: str, read: Callable[[str, Any], T]) -> tuple[list[T], list[str]]:
    """Return what ``read`` makes of every row, and why other rows cannot be used, both in their order.

    Args:
        text: JSON lines, where blank ones are passed over; or one JSON array, whose rows are called ``entry 1``, ….
        read: is given a row's name and value; raises a ValueError, or an error of ours, for one that it cannot use.
    """
    named = [(f"line {i}", line) for i, line in enumerate(lines_of(text), 1) if line.strip()]
    if text.lstrip().startswith("["):
        try:
            named = [(f"entry {i}", json.dumps(row)) for i, row in enumerate(value_of(text), 1)]
        except ValueError as error:
            return [], [f"the JSON array: {error}"]
    read_rows: list[T] = []
    wrong: list[str] = []
    for name, line in named:
        try:
            read_rows.append(read(name, value_of(line)))
        except (ValueError, IntraSkillError) as error:
            wrong.append(f"{name}: {error}")
    return read_rows, wrong


def object_of(row: Any) -> dict[str, Any]:
    """Return a row that is a JSON object.

    Raises:
        ValueError: for any other one.
    """
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is needed, got {type(row).__name__}")
    return row
