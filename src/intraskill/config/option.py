"""How one option is declared, and what may stand in its place: type, range, choices and name; free of heavy imports."""

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

from intraskill.method.errors import ConfigError
from intraskill.method.option import option as option


def options(section: Any, prefix: str = "") -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Yield dotted name, value and metadata of every leaf of a config instance."""
    for item in fields(section):
        value = getattr(section, item.name)
        if is_dataclass(value):
            yield from options(value, f"{prefix}{item.name}.")
        else:
            yield f"{prefix}{item.name}", value, dict(item.metadata)


def check_values(section: Any, prefix: str = "") -> None:
    """Look at each value of a config instance by itself.

    Raises:
        ConfigError: for the first one that is none of its choices, or out of range.
    """
    for name, value, metadata in options(section, prefix):
        if metadata["choices"] and value not in metadata["choices"]:
            hint = nearest(str(value), metadata["choices"])
            raise ConfigError(f"{name}={value} is not one of {', '.join(metadata['choices'])}{hint}")
        if value is not None and metadata["interval"] and not inside(float(value), metadata["interval"]):
            raise ConfigError(f"{name}={value} is outside {metadata['interval']}: {metadata['doc']}")


def inside(value: float, interval: str) -> bool:
    """Return whether a number lies in an interval such as ``(0, 1]``; NaN lies in none."""
    low, high = (float(side) for side in interval[1:-1].split(","))
    above = value >= low if interval[0] == "[" else value > low
    return above and (value <= high if interval[-1] == "]" else value < high)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return ``, did you mean 'NAME'?`` for a misspelt name, and nothing when no known one is near."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f", did you mean {close[0]!r}?" if close else ""


def there_are(word: str, known: Iterable[str], there: str = "There are") -> str:
    """Return how the sentence about an unknown name ends: with the nearest one, and with all that there are."""
    names = list(known)
    return f"{nearest(word, names) or '.'} {there}: {', '.join(names) or 'none'}"


def fits(value: object, kind: Any) -> bool:
    """Return whether a value is exactly of a type, or of one of a union: a bool is no int, an int is a float too."""
    kinds = members(kind)
    return type(value) in kinds or (float in kinds and type(value) is int)


def members(kind: Any) -> tuple[Any, ...]:
    """Return the types of a union, or the one type."""
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def named(kind: Any) -> str:
    """Return the types that a value may have, in words: ``int or null``."""
    return " or ".join("null" if one is NoneType else one.__name__ for one in members(kind))
