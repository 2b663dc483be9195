"""Skills from elsewhere, as a draft for the gate: every part becomes a chunk or is listed with the reason why not.

A text from outside may speak as its author likes, but neither give an answer away nor command the policy.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from intraskill.method.errors import ArtifactError, SkillFormatError, counted
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.agent_skill import SKILL_FILE
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.agent_skill import Reading, read_document, read_reading
from intraskill.store.bundles import ARCHIVES, Bundle, bundle_of
from intraskill.store.user_files import read_user_json

TITLES = ("title", "name", "skill_name")
CONDITIONS = ("when_to_apply", "applies_when", "when_to_use", "when", "condition", "trigger")
TEXTS = ("principle", "content", "instruction", "instructions", "procedure", "steps", "description", "text", "body")
CHECKS = ("verify", "check")
_ADVICE = ("how_to_avoid", "fix")
_MISTAKES = ("avoid", "mistake")
REASONS = ("why_it_happens", "why", "reason", "rationale")
_LABELS = ("skill_id", "mistake_id", "id", "category")
"""Keys that name an entry and say nothing to a policy."""
_OPERATIONS = ("op", "operation", "action")
_PATCH_TEXTS = ("content", "new_text", "new_content", "text", "replacement")
_PATCH_PLACES = ("section", "target_section", "target", "title", "heading")
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
class ImportReading:
    """What a file gave.

    Attributes:
        raws: chunks before any check, in order.
        skipped: (what, why) for every part that became no chunk.
        unknown: keys that are not understood, with their number.
    """

    raws: list[Raw] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unknown: Counter[str] = field(default_factory=Counter)


def _read_bank(data: Any) -> ImportReading:
    """Read a skill bank: a list or an object of entries, or categories of them."""
    reading = ImportReading()
    _walk(data, (), reading)
    return reading


def _is_patch_list(data: Any) -> bool:
    """Return whether JSON data is a list of patches: objects that name an operation."""
    rows = _patch_rows(data)
    return bool(rows) and all(any(verb in _operation(row) for verb in (*_ADDS, *_REMOVES)) for row in rows)


def _operation(row: Any) -> str:
    return str(_first(row, _OPERATIONS) or "").lower()


def _patch_rows(data: Any) -> list[Any]:
    """Return the patches of a list, or of an object's ``patches`` or ``edits``; nested ``edits`` one by one."""
    if isinstance(data, Mapping):
        data = next((data[key] for key in ("patches", "edits") if isinstance(data.get(key), list)), None)
    rows: list[Any] = []
    for row in data if isinstance(data, list) else []:
        inner = row.get("edits") if isinstance(row, Mapping) else None
        rows += inner if isinstance(inner, list) else [row]
    return rows


def _read_patches(data: Any, document: str | None) -> ImportReading:
    """Read a list of patches: beside the document that they were merged into, or alone.

    Args:
        data: JSON.
        document: the Markdown that they belong to; a patch whose text stands there is done, another one was not
            applied and is left out. ``None``: every patch with a text becomes a chunk.
    """
    reading = ImportReading()
    text = None if document is None else _words(document)
    for number, row in enumerate(_patch_rows(data), start=1):
        operation = _operation(row)
        content, place = _prose(_first(row, _PATCH_TEXTS)), _prose(_first(row, _PATCH_PLACES))
        what = f"patch {number} ({operation}{f' of {place!r}' if place else ''})"
        known = {*_OPERATIONS, *_PATCH_TEXTS, *_PATCH_PLACES, *REASONS, *_LABELS, *CONDITIONS, "support", "prevalence"}
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


def _walk(data: Any, path: tuple[str, ...], reading: ImportReading) -> None:
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
    named = any(isinstance(data.get(key), str) for key in (*TITLES, *TEXTS, *_ADVICE, *_MISTAKES))
    return named and not any(map(_holds_entries, data.values()))


def _holds_entries(value: Any) -> bool:
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return any(isinstance(item, Mapping) for item in inside)


def _named(value: Any, name: str) -> Any:
    """Give an entry that stands under its name that name."""
    if isinstance(value, Mapping) and _is_entry(value) and not any(key in value for key in TITLES):
        return {"title": name.replace("_", " "), **value}
    return value


def _entry(data: Mapping[str, Any], path: tuple[str, ...], reading: ImportReading) -> None:
    known = {*TITLES, *CONDITIONS, *TEXTS, *CHECKS, *_ADVICE, *_MISTAKES, *REASONS, *_LABELS}
    reading.unknown.update(str(key) for key in data if key not in known)
    texts = [text for key in TEXTS if (text := _prose(data.get(key)))]
    avoid = [text for key in _MISTAKES if (text := _prose(data.get(key)))]
    advice = [text for key in _ADVICE if (text := _prose(data.get(key)))]
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


_FRONT_KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
_ACCEPTED = "a SKILL.md, a folder or archive (.skill, .zip) that holds one, or a JSON skill bank or patch list"


@dataclass
class Imported:
    """What became of a source.

    Attributes:
        kind: what it was taken for.
        skill: the chunks that passed, with the preamble.
        parts: parts found: preamble, sections, entries or patches.
        skipped: (what, why) for every part that is not in ``skill``.
        notes: what else a reader should know, in sentences.
    """

    kind: str
    skill: Skill
    parts: int = 0
    skipped: list[tuple[str, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return the report, one line each."""
        kept = f"{counted(self.parts, 'part')}, {counted(len(self.skill.chunks), 'chunk')}"
        head = f"{self.kind}: {kept}, {len(self.skipped)} left out"
        return [head, *(f"  left out: {what}: {why}" for what, why in self.skipped), *self.notes]


def import_skill(source: Path, leak_filter: LeakFilter) -> Imported:
    """Read a skill from elsewhere.

    Args:
        source: a ``SKILL.md`` or another Markdown file, an Agent Skills folder or archive (of this project, of a
            Trace2Skill pipeline, or plain), or a JSON file.
        leak_filter: what no chunk may hold.

    Raises:
        ArtifactError: when nothing of the kind is there, or a file cannot be read.
        SkillFormatError: for a broken front matter.
    """
    path = _located(source)
    if path.suffix.lower() == ".json":
        data = read_user_json(path)
        reading = _read_patches(data, None) if _is_patch_list(data) else _read_bank(data)
        return _screened("patch list" if _is_patch_list(data) else "skill bank", "", reading, leak_filter)
    document = read_reading(path)
    if document.side is not None:
        return _export(document, document.side, leak_filter)
    return _document(path, document, leak_filter)


def _located(source: Path) -> Path:
    """Return the folder of a ``SKILL.md``, the archive, the Markdown file or the JSON file that ``source`` names."""
    if source.is_file() and source.suffix.lower() in (".md", ".markdown", ".json", *ARCHIVES):
        return source.parent if source.name == SKILL_FILE else source
    if source.is_dir():
        if bundle_of(source).skill_file:
            return source
        for found in (sorted(source.glob(f"*/{SKILL_FILE}")), sorted(source.glob("*.json"))):
            if len(found) == 1:
                return found[0].parent if found[0].name == SKILL_FILE else found[0]
    raise ArtifactError(f"{source} is no skill that can be imported; give {_ACCEPTED}")


def _export(document: Reading, side: Mapping[str, Any], leak_filter: LeakFilter) -> Imported:
    """Import an export of this project: the skill itself, unless someone edited the files since."""
    skill = document.skill
    raws = [Raw(chunk.title, chunk.body, "export") for chunk in skill.chunks]
    found = _screened("export of intraskill", skill.preamble, ImportReading(raws), leak_filter)
    before, now = {row["id"] for row in side["chunks"]}, set(skill.ids)
    if skill.hash == side.get("skill"):
        found.notes.append(f"The text is the exported one, skill {skill.hash}.")
    else:
        found.notes.append(
            f"The text was edited since its export: {len(before & now)} chunks are the same, {len(now - before)} new, "
            f"{len(before - now)} gone; what the export says of contributions holds for the same ones only."
        )
    return found


def _document(path: Path, document: Reading, leak_filter: LeakFilter) -> Imported:
    """Import any Markdown skill; beside a ``SKILL.md`` also its references, read with the patches it came from."""
    preamble, name = document.preamble, str(document.front.get("name") or path.stem)
    raws = [Raw(section.title, section.body, "SKILL.md") for section in document.sections]
    if not raws and preamble:
        preamble, raws = "", [Raw(name, preamble, "the whole body")]
    bundle = bundle_of(path) if document.others else Bundle(path, (), lambda _: b"")
    names = [PurePosixPath(name) for name in document.others]
    references = {
        str(name): read_document(bundle.text(str(name)), bundle.where(str(name)))
        for name in names
        if name.parts[:-1] == ("references",) and name.suffix == ".md"
    }
    patches = {
        str(name): data
        for name in names
        if len(name.parts) == 1 and name.suffix == ".json" and _is_patch_list(data := _json(bundle, str(name)))
    }
    for origin, reference in references.items():
        raws += _reference(origin, reference)
    reading = ImportReading(raws)
    whole = "\n".join([document.body, *(reference.body for reference in references.values())])
    for patch_file, data in patches.items():
        found = _read_patches(data, whole)
        reading.skipped += [(f"{patch_file}, {what}", why) for what, why in found.skipped]
        reading.unknown.update(found.unknown)
    kind = "Trace2Skill output" if patches else "Agent Skills folder" if document.front else "Markdown document"
    imported = _screened(kind, preamble, reading, leak_filter)
    imported.notes += [note for read in (document, *references.values()) for note in read.notes]
    imported.notes += _front_notes(document.front)
    if unread := [name for name in document.others if name not in {*references, *patches}]:
        imported.notes.append(f"Files that were not read, {len(unread)}: {', '.join(unread[:10])}.")
    return imported


def _json(bundle: Bundle, name: str) -> Any:
    try:
        return json.loads(bundle.text(name))
    except (ValueError, RecursionError):
        return None  # it is listed among the files that were not read


def _reference(origin: str, document: Reading) -> list[Raw]:
    head = document.preamble.removeprefix("# ").partition("\n")
    titled = document.preamble.startswith("# ")
    stem = PurePosixPath(origin).stem.replace("-", " ")
    title, text = (head[0], head[2].strip()) if titled else (stem, document.preamble)
    own = [Raw(title, text, origin)] if text else []
    return own + [Raw(section.title, section.body, origin) for section in document.sections]


def _front_notes(front: dict[str, Any]) -> list[str]:
    notes = []
    if front.get("description"):
        notes.append("The description is not part of the skill: it says when an agent opens it; no policy reads it.")
    if unknown := Counter(key for key in front if key not in _FRONT_KEYS):
        notes.append(_unknown_words("front matter", unknown))
    return notes


def _unknown_words(where: str, unknown: Counter[str]) -> str:
    listed = ", ".join(f"{key} ({times})" for key, times in sorted(unknown.items()))
    return f"Keys of the {where} that are not understood and were not read, {sum(unknown.values())}: {listed}."


def _screened(kind: str, preamble: str, reading: ImportReading, leak_filter: LeakFilter) -> Imported:
    """Build the skill of what passes structure and leak filter, in order; list the rest."""
    skipped: list[tuple[str, str]] = list(reading.skipped)
    parts = len(reading.raws) + len(skipped) + bool(preamble)
    kept: list[Chunk] = []
    for raw in reading.raws:
        if not raw.body:
            skipped.append((f"{raw.title!r} in {raw.origin}", "a heading without text of its own"))
            continue
        chunk, why = _checked(raw.title, raw.body, kept, leak_filter)
        if chunk is None:
            skipped.append((f"{raw.title!r} in {raw.origin}", why))
        else:
            kept.append(chunk)
    skill = Skill(preamble, tuple(kept))
    leaks, _ = leak_filter.inspect_persons(Skill(preamble))
    if refused := (*leaks, *map(str, leak_filter.commands(preamble))):
        skipped.append(("the preamble", "; ".join(refused)))
        skill = replace(skill, preamble="")
    imported = Imported(kind, skill, parts, skipped, list(leak_filter.inspect_persons(skill)[1]))
    imported.notes += [_unknown_words("file", reading.unknown)] if reading.unknown else []
    return imported


def _checked(title: str, body: str, kept: Sequence[Chunk], leak_filter: LeakFilter) -> tuple[Chunk | None, str]:
    """Return the chunk, or ``None`` and the reason."""
    try:
        chunk = Chunk(" ".join(title.split()), body.replace("\r\n", "\n").strip())
    except SkillFormatError as error:
        return None, f"structure: {error}"
    if twin := next((other for other in kept if other.id == chunk.id), None):
        return None, f"the same text as {twin.title!r}"
    leaks, _ = leak_filter.inspect_persons_edit((chunk,), Skill("", tuple(kept)))
    if refused := (*leaks, *leak_filter.commands(f"{chunk.title}\n{chunk.body}")):
        return None, "; ".join(map(str, refused))
    return chunk, ""


def report_json(imported: Imported, source: Path) -> str:
    """Return the report as JSON, for scripts."""
    rows = {
        "source": source.name,
        "kind": imported.kind,
        "parts": imported.parts,
        "chunks": [{"id": chunk.id, "title": chunk.title} for chunk in imported.skill.chunks],
        "skipped": [{"what": what, "why": why} for what, why in imported.skipped],
        "notes": imported.notes,
    }
    return json.dumps(rows, ensure_ascii=False, indent=1) + "\n"
