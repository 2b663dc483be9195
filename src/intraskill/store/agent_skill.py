"""A skill as a person keeps it, and the Agent Skills folder that an export writes."""

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import yaml  # type: ignore[import-untyped]

from intraskill.config.quoting import shown
from intraskill.method.errors import ArtifactError, SkillFormatError, counted, offenders
from intraskill.method.skill.agent_skill import SKILL_FILE, read_body, reference
from intraskill.method.skill.skill import Chunk, Skill, parse_skill
from intraskill.store.bundles import ARCHIVES, Bundle, bundle_of, is_archive
from intraskill.store.run_directory import is_sealed
from intraskill.store.sections import DEEPEST, Section, childless, split_sections, storable, with_groups
from intraskill.store.user_files import read_user_text

CHUNKS_FILE = "chunks.json"
CHUNKS_FORMAT = "intraskill-chunks-1"
_MARK = "---"
_KEY = re.compile(r"^[\w\"'][^:\n]*:(?:\s|$)", re.MULTILINE)
_PLAIN_VALUE = re.compile(r"^([ ]*[\w-]+: +)([^\s\"'|>\[{&*!#].*(?:: | #).*)$", re.MULTILINE)
Say: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file with its front matter taken off.

    Attributes:
        front: its keys; empty without a front matter.
        body: the Markdown after it.
    """

    front: dict[str, Any]
    body: str


def split_document(text: str, where: str = "SKILL.md") -> Document:
    """Take the front matter off a Markdown text; only a text whose first line is ``---`` has one.

    A value with a colon, which YAML wants in quotes, is taken as it stands.

    Raises:
        SkillFormatError: when it is not closed, or is not a YAML mapping.
    """
    lines, body = _front_and_body(text, where)
    try:
        front = _yaml(lines)
    except yaml.YAMLError as error:
        raise SkillFormatError(f"{where}: the front matter is not YAML ({' '.join(str(error).split())})") from error
    if front is None:
        front = {}
    if not isinstance(front, dict):
        raise SkillFormatError(f"{where}: the front matter is a {type(front).__name__}, not keys and values")
    return Document({str(key): value for key, value in front.items()}, body)


def _yaml(lines: str) -> Any:
    try:
        return yaml.safe_load(lines)
    except (yaml.YAMLError, ValueError, RecursionError):  # a ValueError for a date such as 2025-13-45
        quoted = _PLAIN_VALUE.sub(lambda row: row[1] + "'" + row[2].rstrip().replace("'", "''") + "'", lines)
        try:
            return yaml.safe_load(quoted)
        except (ValueError, RecursionError) as error:
            raise yaml.YAMLError(str(error)) from error


def _front_and_body(text: str, where: str) -> tuple[str, str]:
    """Return the lines between the marks of a front matter, empty without one, and the Markdown after them."""
    first, *rest = text.lstrip("\n").split("\n")
    if first.rstrip() != _MARK:
        return "", text
    end = next((index for index, line in enumerate(rest) if line.rstrip() == _MARK), None)
    if end is None:
        raise SkillFormatError(f"{where}: the front matter opens with --- in line 1 and is never closed; close it")
    return "\n".join(rest[:end]), "\n".join(rest[end + 1 :])


def _document(text: str, where: str) -> tuple[Document, list[str]]:
    """Return a document, and what to say of its front matter: one that cannot be read costs no text of the skill."""
    rule = text.lstrip("\n").startswith(_MARK) and not _KEY.search(text.lstrip("\n").split(f"\n{_MARK}")[0])
    try:
        return split_document(text, where), []
    except SkillFormatError as error:
        if rule:  # a line across the page, with text below it
            return Document({}, text), []
        _, body = _front_and_body(text, where)
        return Document({}, body), [f"{error}; its keys were not read, and no policy sees them"]


@dataclass(frozen=True)
class Reading:
    """A person's document as it was read: every line of it is in one of these, or named in a note.

    Attributes:
        where: the file, for messages.
        front: keys of its front matter; no policy sees them.
        body: its Markdown after the front matter.
        preamble: text before the first section; every policy that sees a chunk sees it.
        sections: in order; those without text group others.
        notes: what a person should know of how it was read, one sentence each.
        others: files beside it.
        stored: the skill, where the text is in the form that this project writes.
        side: ``chunks.json`` of an export.
    """

    where: str
    front: dict[str, Any]
    body: str
    preamble: str
    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    stored: Skill | None = None
    side: dict[str, Any] | None = field(default=None, repr=False)

    def said(self) -> list[str]:
        """Return all that a person should know of what no policy will see, one sentence each."""
        lines = list(self.notes)
        if (lonely := childless(self.sections)) and self.stored is None:
            lines.append(f"{self.where}: headings with no text below them, {offenders(lonely, 9)}, are no chunks")
        if self.others:
            beside = counted(len(self.others), "file")
            lines.append(
                f"{self.where}: {beside} beside it, {offenders(self.others, 9)}; no policy sees them. Put into the "
                "skill what it must know"
            )
        return lines

    @property
    def parsed(self) -> Skill:
        """A chunk per section that has text, and maybe none.

        Raises:
            SkillFormatError: for two chunks with the same text.
        """
        parts = (Chunk(section.title, section.body) for section in self.sections if section.body)
        try:
            return self.stored or Skill(self.preamble, tuple(parts))
        except SkillFormatError as error:
            raise SkillFormatError(f"{self.where}: {error}") from error

    @property
    def skill(self) -> Skill:
        """The skill that is parsed.

        Raises:
            SkillFormatError: also for a document without any chunk: a skill that shows nothing is no treatment.
        """
        skill = self.parsed
        if not skill.chunks:
            raise SkillFormatError(
                f"{self.where} holds no chunk, so it would show nothing. A chunk is a section with a heading (#, ## or "
                f"###) and text below it; this document has {counted(len(self.sections), 'section')}, "
                f"{counted(len(self.preamble), 'character')} before them. Put a heading over each piece of advice"
            )
        return skill


def read_document(text: str, where: str) -> Reading:
    """Read a Markdown text.

    A document whose only headings below the title are ``###`` is read as this project writes it. In any other one each
    section that has text is a chunk (`intraskill.store.sections`); a heading that only groups others goes before the
    titles of the sections right below it.

    Raises:
        SkillFormatError: for a front matter that is never closed.
    """
    document, notes = _document(text, where)
    preamble, sections = split_sections(document.body)
    preamble, cut = storable(preamble)
    unclosed = ["the text before the first heading"] * cut
    kept: list[Section] = []
    for section in with_groups(sections):
        body, cut = storable(section.body)
        unclosed += [f"section {section.title!r}"] * cut
        kept.append(Section(section.level, section.title, body))
    if unclosed:
        notes.append(
            f"{where}: a code fence is never closed, {offenders(unclosed)}; it ends with the section, and headings in "
            "it are text. Close it where the code ends"
        )
    return Reading(
        where,
        document.front,
        document.body,
        preamble,
        tuple(kept),
        tuple(notes),
        stored=_stored(document.body, sections),
    )


def _stored(body: str, sections: tuple[Section, ...]) -> Skill | None:
    """Return the skill of a text that is in the form of this project, ``None`` for another one."""
    if {section.level for section in sections} != {DEEPEST}:
        return None
    try:
        skill = parse_skill(body)
    except SkillFormatError:
        return None
    return skill if len(skill.chunks) == len(sections) else None


def read_reading(path: Path) -> Reading:
    """Read a skill as a person keeps it: Markdown, a folder or archive that holds ``SKILL.md``, or our own export.

    Raises:
        ArtifactError: when there is none, or it cannot be read as text in UTF-8.
        SkillFormatError: for a front matter that is never closed.
    """
    if path.name == SKILL_FILE and path.is_file():
        path = path.parent
    if not (path.is_dir() or is_archive(path)):
        text = read_user_text(path)
        if is_sealed(path.parent):  # a round of a run wrote it
            return _ours(str(path), {}, parse_skill(text))
        return read_document(text, str(path))
    bundle = bundle_of(path)
    if (name := bundle.skill_file) is None:
        inside = [other for other in bundle.files if other.lower().endswith(ARCHIVES)]
        more = f"; there is another archive in it, {offenders(inside)}: unpack that first" if inside else ""
        raise ArtifactError(
            f"{path} holds no {SKILL_FILE}; give a Markdown file, or a folder or archive with one of that name{more}"
        )
    if is_export(bundle):
        skill, side = read_export(bundle)
        front = split_document(bundle.text(name), bundle.where(name)).front
        return replace(_ours(str(path), front, skill), side=side)
    reading = read_document(bundle.text(name), bundle.where(name))
    return replace(reading, others=tuple(other for other in bundle.files if other != name))


def _ours(where: str, front: dict[str, Any], skill: Skill) -> Reading:
    """Return what this project wrote."""
    sections = tuple(Section(DEEPEST, chunk.title, chunk.body) for chunk in skill.chunks)
    return Reading(where, front, skill.to_markdown(), skill.preamble, sections, stored=skill)


def to_stderr(line: str) -> None:
    """Write a note for the person at the command line."""
    sys.stderr.write(shown(f"{line}\n"))


def read_skill(path: Path, say: Say = to_stderr) -> Skill:
    """Return the skill that `read_reading` reads.

    Args:
        path: Markdown, a folder or an archive.
        say: is told every note.

    Raises:
        ArtifactError: when there is none, or it cannot be read.
        SkillFormatError: for a document without any chunk, or with two of the same text.
    """
    reading = read_reading(path)
    skill = reading.skill
    for note in reading.said():
        say(note)
    return skill


def is_export(at: Path | Bundle) -> bool:
    """Return whether a folder or archive is an export of this project."""
    bundle = bundle_of(at) if isinstance(at, Path) else at
    if SKILL_FILE not in bundle.files or CHUNKS_FILE not in bundle.files:
        return False
    side = _side(bundle)
    return isinstance(side, dict) and side.get("format") == CHUNKS_FORMAT


def _side(bundle: Bundle) -> Any:
    try:
        return json.loads(bundle.text(CHUNKS_FILE))
    except (ValueError, RecursionError) as error:
        raise ArtifactError(f"{bundle.where(CHUNKS_FILE)} is not valid JSON ({error}); export again") from error


def read_export(at: Path | Bundle) -> tuple[Skill, dict[str, Any]]:
    """Read an export of this project back: the skill as it now stands there, and ``chunks.json``.

    Raises:
        ArtifactError: when a file is missing or ``chunks.json`` is not one of ours.
        SkillFormatError: when the text is no skill.
    """
    bundle = bundle_of(at) if isinstance(at, Path) else at
    side = _side(bundle)
    try:
        moved = {row["id"]: row["file"] for row in side["chunks"] if row["file"] != SKILL_FILE}
    except (KeyError, TypeError) as error:
        raise ArtifactError(
            f"{bundle.where(CHUNKS_FILE)} does not list chunks with id and file; export again"
        ) from error
    if astray := [path for key, path in moved.items() if path != reference(key) or "/" in key or "\\" in key]:
        raise ArtifactError(
            f"{bundle.where(CHUNKS_FILE)} names files outside references/, {offenders(astray)}; export again"
        )
    references = {path: bundle.text(path) for path in moved.values() if path in bundle.files}
    body = split_document(bundle.text(SKILL_FILE), bundle.where(SKILL_FILE)).body
    return read_body(body, references, moved.keys()), side
