"""Skills from elsewhere, as a draft for the gate: every part becomes a chunk or is listed with the reason why not.

A text from outside has no privilege: each chunk, and the preamble, passes the firewall as a proposal would.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from intraskill.method.agent_skill import SKILL_FILE
from intraskill.method.errors import ArtifactError, SkillFormatError, counted
from intraskill.method.firewall import Firewall
from intraskill.method.skill import Chunk, Skill
from intraskill.method.skill_sections import split_sections
from intraskill.runtime.agent_skill import is_export, read_document, read_export
from intraskill.runtime.run_directory import read_json, read_text
from intraskill.runtime.skill_banks import Raw, Reading, is_patch_list, read_bank, read_patches

FRONT_KEYS = ("name", "description", "license", "compatibility", "allowed-tools", "metadata")
ACCEPTED = "a SKILL.md, a folder that holds one, or a JSON skill bank or patch list"


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


def import_skill(source: Path, firewall: Firewall) -> Imported:
    """Read a skill from elsewhere.

    Args:
        source: a ``SKILL.md`` or another Markdown file, an Agent Skills folder (of this project, of a Trace2Skill
            pipeline, or plain), or a JSON file.
        firewall: what no chunk may hold.

    Raises:
        ArtifactError: when nothing of the kind is there, or a file cannot be read.
        SkillFormatError: for a broken front matter.
    """
    path = _located(source)
    if path.is_dir():
        return _export(path, firewall) if is_export(path) else _folder(path, firewall)
    if path.suffix.lower() == ".json":
        data = read_json(path)
        reading = read_patches(data, None) if is_patch_list(data) else read_bank(data)
        return _screened("patch list" if is_patch_list(data) else "skill bank", "", reading, firewall)
    return _folder(path.parent, firewall, path)


def _located(source: Path) -> Path:
    """Return the folder of a ``SKILL.md``, the Markdown file or the JSON file that ``source`` names."""
    if source.is_file() and source.suffix.lower() in (".md", ".markdown", ".json"):
        return source.parent if source.name == SKILL_FILE else source
    if source.is_dir():
        if (source / SKILL_FILE).is_file():
            return source
        for found in (sorted(source.glob(f"*/{SKILL_FILE}")), sorted(source.glob("*.json"))):
            if len(found) == 1:
                return found[0].parent if found[0].name == SKILL_FILE else found[0]
    raise ArtifactError(f"{source} is no skill that can be imported; give {ACCEPTED}")


def _export(folder: Path, firewall: Firewall) -> Imported:
    """Import an export of this project: the skill itself, unless someone edited the files since."""
    skill, side = read_export(folder)
    raws = [Raw(chunk.title, chunk.body, "export") for chunk in skill.chunks]
    found = _screened("export of intraskill", skill.preamble, Reading(raws), firewall)
    before, now = {row["id"] for row in side["chunks"]}, set(skill.ids)
    if skill.hash == side.get("skill"):
        found.notes.append(f"The text is the exported one, skill {skill.hash}.")
    else:
        found.notes.append(
            f"The text was edited since its export: {len(before & now)} chunks are the same, {len(now - before)} new, "
            f"{len(before - now)} gone; what the export says of contributions holds for the same ones only."
        )
    return found


def _folder(folder: Path, firewall: Firewall, file: Path | None = None) -> Imported:
    """Import any Markdown skill; beside a ``SKILL.md`` also its references, read with the patches it came from."""
    document = read_document(file or folder / SKILL_FILE)
    preamble, sections = split_sections(document.body)
    name = str(document.front.get("name") or folder.name)
    if not sections and preamble:
        preamble, raws = "", [Raw(name, preamble, "the whole body")]
    else:
        raws = [Raw(section.title, section.body, "SKILL.md") for section in sections]
    references = [] if file else sorted((folder / "references").glob("*.md"))
    for path in references:
        raws += _reference(path)
    patches = [] if file else [path for path in sorted(folder.glob("*.json")) if is_patch_list(read_json(path))]
    reading = Reading(raws)
    whole = "\n".join([document.body, *map(read_text, references)])
    for path in patches:
        found = read_patches(read_json(path), whole)
        reading.skipped += [(f"{path.name}, {what}", why) for what, why in found.skipped]
        reading.unknown.update(found.unknown)
    kind = "Trace2Skill output" if patches else "Agent Skills folder" if document.front else "Markdown document"
    imported = _screened(kind, preamble, reading, firewall)
    imported.notes += _front_notes(document.front)
    imported.notes += [] if file else _others(folder, {*references, *patches, folder / SKILL_FILE})
    return imported


def _reference(path: Path) -> list[Raw]:
    preamble, sections = split_sections(read_document(path).body)
    origin = f"references/{path.name}"
    head = preamble.removeprefix("# ").partition("\n")
    titled = preamble.startswith("# ")
    title, text = (head[0], head[2].strip()) if titled else (path.stem.replace("-", " "), preamble)
    own = [Raw(title, text, origin)] if text else []
    return own + [Raw(section.title, section.body, origin) for section in sections]


def _front_notes(front: dict[str, Any]) -> list[str]:
    notes = []
    if front.get("description"):
        notes.append("The description is not part of the skill: it says when an agent opens it; no policy reads it.")
    if unknown := Counter(key for key in front if key not in FRONT_KEYS):
        notes.append(_unknown_words("front matter", unknown))
    return notes


def _others(folder: Path, read: set[Path]) -> list[str]:
    names = [str(p.relative_to(folder)) for p in sorted(folder.rglob("*")) if p.is_file() and p not in read]
    return [f"Files that were not read, {len(names)}: {', '.join(names[:10])}."] if names else []


def _unknown_words(where: str, unknown: Counter[str]) -> str:
    listed = ", ".join(f"{key} ({times})" for key, times in sorted(unknown.items()))
    return f"Keys of the {where} that are not understood and were not read, {sum(unknown.values())}: {listed}."


def _screened(kind: str, preamble: str, reading: Reading, firewall: Firewall) -> Imported:
    """Build the skill of what passes structure and firewall, in order; list the rest."""
    skipped: list[tuple[str, str]] = list(reading.skipped)
    parts = len(reading.raws) + len(skipped) + bool(preamble)
    kept: list[Chunk] = []
    for raw in reading.raws:
        if not raw.body:
            skipped.append((f"{raw.title!r} in {raw.origin}", "a heading without text of its own"))
            continue
        chunk, why = _checked(raw.title, raw.body, kept, firewall)
        if chunk is None:
            skipped.append((f"{raw.title!r} in {raw.origin}", why))
        else:
            kept.append(chunk)
    skill = Skill(preamble, tuple(kept))
    if rejections := firewall.inspect_preamble(skill):
        skipped.append(("the preamble", "; ".join(map(str, rejections))))
        skill = replace(skill, preamble="")
    imported = Imported(kind, skill, parts, skipped)
    imported.notes += [_unknown_words("file", reading.unknown)] if reading.unknown else []
    return imported


def _checked(title: str, body: str, kept: Sequence[Chunk], firewall: Firewall) -> tuple[Chunk | None, str]:
    """Return the chunk, or ``None`` and the reason."""
    try:
        chunk = Chunk(" ".join(title.split()), body.replace("\r\n", "\n").strip())
    except SkillFormatError as error:
        return None, f"structure: {error}"
    if twin := next((other for other in kept if other.id == chunk.id), None):
        return None, f"the same text as {twin.title!r}"
    if rejections := firewall.inspect_edit((chunk,), Skill("", tuple(kept))):
        return None, "; ".join(map(str, rejections))
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
