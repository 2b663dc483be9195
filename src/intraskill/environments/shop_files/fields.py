"""One field of a row at a time, whatever shape the file gave it: text, lists, prices, category paths, option axes."""

import json
import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from intraskill.environments.persona import structure_of as structure_of
from intraskill.environments.persona import text_of as text_of
from intraskill.environments.shopworld.catalogue import OptionValue
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.store.json_rows import each_row, lines_of
from intraskill.store.user_files import MOST_ROWS, read_user_text


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
        text = read_user_text(Path(path), where=f"{what}={path}", most=MOST_ROWS).strip()
    except ArtifactError as error:
        raise ConfigError(str(error)) from error
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


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_COMMAS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")

Axes = dict[str, dict[str, float | None]]


class UnusableError(ValueError):
    """A row or an instruction cannot be used; the message is the reason that the user reads."""


def texts_of(value: object) -> tuple[str, ...]:
    """Return the non-blank texts of a list, of a list written as text, or of one text, in order."""
    value = structure_of(value)
    items = value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else [value]
    return tuple(filter(None, map(text_of, items)))


def prices_of(value: object) -> tuple[float, float] | None:
    """Return (lowest, highest) of a price given as number, list or text such as ``$1,234.50 to $1,500``.

    Nothing, an unreadable text and 0 (which the files use for "unknown") give ``None``.
    """
    if value is None or value == "":
        return None
    found = [price for price in _prices(structure_of(value)) if price > 0 and math.isfinite(price)]
    return (min(found), max(found)) if found else None


def _prices(value: object) -> Iterable[float]:
    if isinstance(value, bool) or value is None:
        return []
    if isinstance(value, int | float):
        return [float(value)]
    if isinstance(value, str):
        return [float(number) for number in _NUMBER.findall(_COMMAS.sub("", value))]
    if isinstance(value, list | tuple):
        return [price for item in value for price in _prices(item)]
    return []


def category_of(value: object) -> tuple[str, ...]:
    r"""Split a category path at the first of ``›``, ``>``, ``\``, ``/`` that it holds; a list is taken as it is.

    One separator only: names such as "Wigs/Extensions" hold the others.
    """
    value = structure_of(value)
    if isinstance(value, list | tuple):
        return texts_of(value)
    text = text_of(value).replace("»", "›")
    separator = next((mark for mark in "›>\\/" if mark in text), None)
    return tuple(filter(None, map(text_of, text.split(separator)))) if separator else texts_of(text)


def axes_of(value: object) -> Axes:
    """Return axis → value → its price; axes without values are no axes, and a repeated value keeps its first price.

    Raises:
        UnusableError: when the field is neither an object nor nothing.
    """
    value = structure_of(value)
    if not isinstance(value, dict):
        if isinstance(value, list) and value or text_of(value):
            raise UnusableError(f"options are a {type(value).__name__}, not an object of axes")
        return {}
    axes: Axes = {}
    for name, content in value.items():
        # An action reads "axis=value", so the first "=" must end the axis.
        axis = text_of(name).replace("=", ":") or "option"
        values = axes.setdefault(axis, {})
        for option, price in _values(structure_of(content)):
            if values.get(option) is None and option:
                values[option] = price
    return {axis: values for axis, values in axes.items() if values}


def _values(content: Any) -> Iterable[tuple[str, float | None]]:
    if isinstance(content, dict):
        content = [content] if "value" in content else [{"value": k, "price": v} for k, v in content.items()]
    for item in content if isinstance(content, list | tuple) else [content]:
        if isinstance(item, dict):
            found = prices_of(item.get("price")) or prices_of(item.get("price_string"))
            yield text_of(item.get("value")), found[1] if found else None
        else:
            yield text_of(item), None


def variants(axes: Axes, pricing: tuple[float, float] | None) -> tuple[dict[str, tuple[OptionValue, ...]], float]:
    """Return the option axes with at most one that varies the price, and the base price.

    Where the file gives a range and no price for some variant, the base price is the upper end: what such a variant
    costs is not known, and only a budget above the whole range is verifiably kept.

    Raises:
        UnusableError: for several axes that vary the price, axes that contradict each other, or no price at all.
    """
    priced = {axis: {p for p in values.values() if p is not None} for axis, values in axes.items()}
    constant = {price for prices in priced.values() if len(prices) == 1 for price in prices}
    keep = [axis for axis, prices in priced.items() if len(prices) > 1 or (prices and None in axes[axis].values())]
    if len(keep) > 1 or (len(constant) > 1 and not any(len(priced[axis]) > 1 for axis in keep)):
        raise UnusableError(f"several axes set the price: {', '.join(axis for axis in priced if priced[axis])}")
    complete = bool(keep) and None not in axes[keep[0]].values()
    if complete:
        pricing = pricing or (min(priced[keep[0]]), max(priced[keep[0]]))
    elif not keep and constant:
        pricing = (max(constant), max(constant))
    if pricing is None:
        raise UnusableError("no price can be read")
    shown = {
        axis: tuple(OptionValue(value, price if axis in keep else None) for value, price in values.items())
        for axis, values in axes.items()
    }
    return shown, pricing[0] if complete else pricing[1]
