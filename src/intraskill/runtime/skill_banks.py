"""JSON skill banks and patch lists as raw chunks; what is not understood is counted, never dropped in silence.

An entry is an object with a text; `docs/skill_files.md` lists the keys. Entries stand in a list, under names, or under
categories such as ``general_skills`` and ``task_specific_skills``.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TITLES = ("title", "name", "skill_name")
CONDITIONS = ("when_to_apply", "applies_when", "when_to_use", "when", "condition", "trigger")
TEXTS = ("principle", "content", "instruction", "instructions", "procedure", "steps", "description", "text", "body")
CHECKS = ("verify", "check")
ADVICE = ("how_to_avoid", "fix")
MISTAKES = ("avoid", "mistake")
REASONS = ("why_it_happens", "why", "reason", "rationale")
LABELS = ("skill_id", "mistake_id", "id", "category")
"""Keys that name an entry and say nothing to a policy."""
OPERATIONS = ("op", "operation", "action")
PATCH_TEXTS = ("content", "new_text", "new_content", "text", "replacement")
PATCH_PLACES = ("section", "target_section", "target", "title", "heading")
_REMOVES = ("delete", "remove", "drop")
_ADDS = (
    "add",
    "insert",
    "append",
    "create",
    "update",
    "upsert",
    "modify",
    "edit",
    "replace",
    "rewrite",
    "merge",
    "split",
)
_TITLE_WORDS = 8


@dataclass(frozen=True, slots=True)
class Raw:
    """A chunk before any check.

    Attributes:
        title: one line.
        body: its text.
        origin: where it stood, in words.
    """

    title: str
    body: str
    origin: str


@dataclass
class Reading:
    """What a file gave.

    Attributes:
        raws: chunks before any check, in order.
        skipped: (what, why) for every part that became no chunk.
        unknown: keys that are not understood, with their number.
    """

    raws: list[Raw] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)


def read_bank(data: Any) -> Reading:
    """Read a skill bank: a list or an object of entries, or categories of them."""
    reading = Reading()
    _walk(data, (), reading)
    return reading


def is_patch_list(data: Any) -> bool:
    """Return whether JSON data is a list of patches: objects that name an operation."""
    rows = patch_rows(data)
    return bool(rows) and all(any(verb in _operation(row) for verb in (*_ADDS, *_REMOVES)) for row in rows)


def _operation(row: Any) -> str:
    return str(_first(row, OPERATIONS) or "").lower()


def patch_rows(data: Any) -> list[Any]:
    """Return the patches of a list, or of an object's ``patches`` or ``edits``; nested ``edits`` one by one."""
    if isinstance(data, Mapping):
        data = next((data[key] for key in ("patches", "edits") if isinstance(data.get(key), list)), None)
    rows: list[Any] = []
    for row in data if isinstance(data, list) else []:
        inner = row.get("edits") if isinstance(row, Mapping) else None
        rows += inner if isinstance(inner, list) else [row]
    return rows


def read_patches(data: Any, document: str | None) -> Reading:
    """Read a list of patches: beside the document that they were merged into, or alone.

    Args:
        data: JSON.
        document: the Markdown that they belong to; a patch whose text stands there is done, another one was not
            applied and is left out. ``None``: every patch with a text becomes a chunk.
    """
    reading = Reading()
    text = None if document is None else _words(document)
    for number, row in enumerate(patch_rows(data), start=1):
        operation = _operation(row)
        content, place = _prose(_first(row, PATCH_TEXTS)), _prose(_first(row, PATCH_PLACES))
        what = f"patch {number} ({operation}{f' of {place!r}' if place else ''})"
        known = {*OPERATIONS, *PATCH_TEXTS, *PATCH_PLACES, *REASONS, *LABELS, *CONDITIONS, "support", "prevalence"}
        reading.unknown.update(key for key in row if key not in known)
        if any(word in operation for word in _REMOVES):
            reading.skipped.append((what, "it takes text away, and so adds none"))
        elif not content:
            reading.skipped.append((what, "it holds no text"))
        elif text is None:
            when = _prose(_first(row, CONDITIONS))
            body = "\n".join(line for line in (f"Applies when: {when}" if when else "", content) if line)
            reading.raws.append(Raw(place or _title_of(content), body, what))
        elif _words(content) in text:
            reading.skipped.append((what, "its text stands in SKILL.md or a reference already"))
        else:
            reading.skipped.append((what, "its text is not in SKILL.md: it was not applied there, or was merged away"))
    return reading


def _walk(data: Any, path: tuple[str, ...], reading: Reading) -> None:
    where = "/".join(path) or "the file"
    if isinstance(data, str):
        reading.raws.append(Raw(_title_of(data), data.strip(), where))
    elif isinstance(data, Sequence):
        for number, item in enumerate(data, start=1):
            _walk(item, (*path[:-1], f"{path[-1] if path else 'entry'} {number}"), reading)
    elif isinstance(data, Mapping) and _is_entry(data):
        _entry(data, path, reading)
    elif isinstance(data, Mapping):
        named = all(isinstance(value, str) for value in data.values())
        for key, value in data.items():
            if named:
                reading.raws.append(Raw(" ".join(str(key).split()), value.strip(), f"{where}/{key}"))
            elif isinstance(value, Mapping | list):
                _walk(_named(value, str(key)), (*path, str(key)), reading)
            else:
                reading.unknown[str(key)] += 1
    else:
        reading.skipped.append((where, f"it is {data!r}, not an entry"))


def _is_entry(data: Mapping[str, Any]) -> bool:
    """Whether an object is one entry, and not a bank with a name and a description of its own."""
    named = any(isinstance(data.get(key), str) for key in (*TITLES, *TEXTS, *ADVICE, *MISTAKES))
    return named and not any(map(_holds_entries, data.values()))


def _holds_entries(value: Any) -> bool:
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(isinstance(item, Mapping) for item in inside)


def _named(value: Any, name: str) -> Any:
    """Give an entry that stands under its name that name."""
    if isinstance(value, Mapping) and _is_entry(value) and not any(key in value for key in TITLES):
        return {"title": name.replace("_", " "), **value}
    return value


def _entry(data: Mapping[str, Any], path: tuple[str, ...], reading: Reading) -> None:
    known = {*TITLES, *CONDITIONS, *TEXTS, *CHECKS, *ADVICE, *MISTAKES, *REASONS, *LABELS}
    reading.unknown.update(str(key) for key in data if key not in known)
    texts = [text for key in TEXTS if (text := _prose(data.get(key)))]
    avoid = [text for key in MISTAKES if (text := _prose(data.get(key)))]
    advice = [text for key in ADVICE if (text := _prose(data.get(key)))]
    if advice and texts and not avoid:  # a mistake's description says what not to do
        texts, avoid = [], texts
    parts = [
        ("Applies when", [_condition(data, path)]),
        ("Procedure", [*texts, *advice]),
        ("Verify", [_prose(_first(data, CHECKS))]),
        ("Avoid", avoid),
        ("Why", [_prose(_first(data, REASONS))]),
    ]
    lines = [
        f"{label}:{'' if text.startswith(chr(10)) else ' '}{text}"
        for label, several in parts
        for text in several
        if text
    ]
    title = _prose(_first(data, TITLES)) or _title_of((avoid or texts or advice or [""])[0])
    if not [*texts, *advice, *avoid]:
        reading.skipped.append((f"{'/'.join(path)} ({title or 'untitled'})", "it holds no text"))
        return
    reading.raws.append(Raw(" ".join(title.split()), "\n".join(lines), "/".join(path) or "the file"))


def _condition(data: Mapping[str, Any], path: tuple[str, ...]) -> str:
    when = _prose(_first(data, CONDITIONS))
    inside = path[:-1] if len(path) > 1 else ()
    category = path[-1].rstrip("0123456789 ").replace("_", " ") if inside and "task" in inside[0] else ""
    return "; ".join(part for part in (f"{category} tasks" if category else "", when) if part)


def _first(data: Any, keys: Sequence[str]) -> Any:
    return next((data[key] for key in keys if isinstance(data, Mapping) and data.get(key)), None)


def _prose(value: Any) -> str:
    """Return a text, or a list of texts as a numbered list."""
    if isinstance(value, list):
        items = [str(item).strip() for item in value if str(item).strip()]
        return "".join(f"\n{number}. {item}" for number, item in enumerate(items, start=1)) if items else ""
    return value.strip() if isinstance(value, str) else ""


def _title_of(text: str) -> str:
    words = text.split()
    return " ".join(words[:_TITLE_WORDS]).strip(" .,;:#*") + ("…" if len(words) > _TITLE_WORDS else "")


def _words(text: str) -> str:
    return " ".join(text.split())
