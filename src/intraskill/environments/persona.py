"""A persona document in any of its written forms, as the text that a policy reads: one line per section.

Sections stand at the top level whatever object they were nested in. Values of a list are joined by ``"; "``, because
the values themselves are full of ``", "``. Keys that begin with ``_`` or name the reason of the annotation tell the
answer and are left out, and so is every other key that `leaks` forbids.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from intraskill.environments.leaks import is_identifier_key, is_private_key

_NOTHING = frozenset({"", "null", "none", "nan", "n/a"})


def persona_text(value: object) -> str | None:
    """Return the persona as text, or ``None`` when there is none.

    Args:
        value: an object, a JSON text, the text of a Python literal, or plain text.
    """
    found = structure_of(value)
    if isinstance(found, str):
        lines = [text_of(line) for line in found.splitlines() if not _private(_key_of(line))]
        return "\n".join(filter(None, lines)) or None
    sections: dict[str, list[str]] = {}
    for section, text in _sections("", found):
        sections.setdefault(section, []).append(text)
    lines = [
        f"{name}: {'; '.join(dict.fromkeys(texts))}" if name else "; ".join(texts) for name, texts in sections.items()
    ]
    return "\n".join(lines) or None


_FIELD = re.compile(r"([^:：=,，;；|\n]+)[:：=]")
_VALUE = re.compile(r"[^,，;；|\n]*[,，;；|]?")


def without_identifiers(value: object) -> tuple[Any, tuple[str, ...]]:
    """Return a persona without its identifier fields, and the names of those; see `is_identifier_key`.

    Args:
        value: in any of the forms that `persona_text` reads. One without such a field comes back as it is.
    """
    structure = structure_of(value)
    kept, names = _cut(structure) if isinstance(structure, str) else _pruned(structure)
    return (kept, names) if names else (value, ())


def _pruned(value: object) -> tuple[object, tuple[str, ...]]:
    if isinstance(value, Mapping):
        names = tuple(text_of(key) for key in value if is_identifier_key(text_of(key)))
        inner = {key: without_identifiers(item) for key, item in value.items() if text_of(key) not in names}
        return {key: item for key, (item, _) in inner.items()}, names + sum((more for _, more in inner.values()), ())
    if isinstance(value, list | tuple):
        items = [without_identifiers(item) for item in value]
        return [item for item, _ in items], sum((more for _, more in items), ())
    return value, ()


def _cut(text: str) -> tuple[str, tuple[str, ...]]:
    """Cut ``identifier: value,`` out of a text, alone on its line or among other fields."""
    kept, names, end = "", list[str](), 0
    for written in _FIELD.finditer(text):
        value = _VALUE.match(text, written.end())
        if written.start() >= end and value and is_identifier_key(written[1]):
            kept += text[end : written.start()]
            names.append(text_of(written[1]))
            end = value.end()
    return kept + text[end:], tuple(names)


def text_of(value: object) -> str:
    """Return one line of text; ``""`` for anything that stands for nothing."""
    if isinstance(value, dict | list | tuple):
        return " ".join(filter(None, map(text_of, value.values() if isinstance(value, dict) else value)))
    text = " ".join((value if isinstance(value, str) else str(value)).split())
    return "" if len(text) < 5 and text.casefold() in _NOTHING else text


def structure_of(value: object) -> object:
    """Return the list or object that a text holds as JSON or as a Python literal; anything else unchanged."""
    if not isinstance(value, str) or value.strip()[:1] not in ("{", "["):
        return value
    for parse in (json.loads, ast.literal_eval):
        try:
            found: object = parse(value.strip())
        except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
            continue
        if isinstance(found, dict | list):
            return found
    return value


def _key_of(line: str) -> str:
    return line.replace("：", ":").strip().partition(":")[0]


def _private(key: str) -> bool:
    return key.startswith("_") or is_private_key(key)


def _sections(section: str, value: object) -> Iterator[tuple[str, str]]:
    """Yield (section, text); an object inside an object is a section of its own name."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            name, inner = text_of(key), structure_of(inner)
            if _private(name):
                continue
            if isinstance(inner, Mapping) or not section:
                yield from _sections(name, inner)
            elif text := _flat(inner):
                yield section, f"{name}: {text}"
    elif isinstance(value, list | tuple):
        yield from ((section, text) for item in value if (text := _flat(item)))
    elif text := text_of(value):
        yield section, text


def _flat(value: object) -> str:
    """One line for anything inside a section."""
    if isinstance(value, Mapping):
        pairs = [(text_of(key), _flat(inner)) for key, inner in value.items()]
        return ", ".join(f"{key}: {text}" for key, text in pairs if text and not _private(key))
    if isinstance(value, list | tuple):
        return " | ".join(filter(None, map(_flat, value)))
    return text_of(value)
