"""From a model's text to JSON: what may stand around one value is taken off, the value itself is never repaired."""

import json
import re
from typing import Any

from intraskill.method.thoughts import without_thought

_FENCE = re.compile(r"\A```(?:json|JSON)?[ \t]*\n(?P<body>(?:(?!```).)*)\n?```\Z", re.DOTALL)


def parse(text: str) -> tuple[Any, bool]:
    """Return the JSON value of an answer, and whether a leading think block or a fence around all of it was taken off.

    Raises:
        ValueError: saying what is no JSON: also a key that stands twice, NaN, and half a surrogate pair.
    """
    body = without_thought(text).strip()
    if fenced := _FENCE.match(body):
        body = fenced["body"].strip()
    try:
        value = json.loads(body, object_pairs_hook=_once, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        near = body[max(0, error.pos - 20) : error.pos + 20]
        raise ValueError(f"it is not one JSON value ({error.msg} at character {error.pos}, near {near!r})") from None
    except UnicodeEncodeError:
        raise ValueError("a string holds half a surrogate pair") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value, body != text.strip()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for i, (name, _) in enumerate(pairs) if name in dict(pairs[:i]))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
