"""JSON that a person gave row by row: each row under a name by which it is found again, ``line 3``."""

import json
import math
from collections.abc import Callable
from typing import Any, TypeVar

from intraskill.method.errors import IntraSkillError

T = TypeVar("T")


def lines_of(text: str) -> list[str]:
    r"""Split JSON lines at ``\n`` only: strings may hold U+2028, U+2029 and U+0085, where ``splitlines`` would cut."""
    return text.removesuffix("\n").split("\n") if text else []


def value_of(text: str) -> Any:
    """Return one JSON value, without what no record can hold: NaN, an infinity, half a surrogate pair.

    Raises:
        ValueError: for these, for what is nested too deeply, and for text that is no JSON.
    """
    try:
        value = json.loads(text, parse_constant=_number, parse_float=_number)
        if "\\u" in text:  # only an escape can write half a pair
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a string holds half a surrogate pair") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def _number(text: str) -> float:
    if not math.isfinite(found := float(text)):
        raise ValueError(f"{text} is no finite number")
    return found


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
    found: list[T] = []
    wrong: list[str] = []
    for name, line in named:
        try:
            found.append(read(name, value_of(line)))
        except (ValueError, IntraSkillError) as error:
            wrong.append(f"{name}: {error}")
    return found, wrong


def object_of(row: Any) -> dict[str, Any]:
    """Return a row that is a JSON object.

    Raises:
        ValueError: for any other one.
    """
    if not isinstance(row, dict):
        raise ValueError(f"a JSON object is needed, got {type(row).__name__}")
    return row
