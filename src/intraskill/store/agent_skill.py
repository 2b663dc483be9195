"""An Agent Skills folder on disk: front matter through YAML, body, references, and the side file of chunk ids."""

import codecs
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from intraskill.method.errors import ArtifactError, SkillFormatError, counted, offenders
from intraskill.method.skill.agent_skill import SKILL_FILE, read_body, reference
from intraskill.method.skill.skill import DEEPEST, Chunk, Skill, parse_skill, split_sections
from intraskill.store.run_directory import read_json, read_text

CHUNKS_FILE = "chunks.json"
CHUNKS_FORMAT = "intraskill-chunks-1"
_MARK = "---"


@dataclass(frozen=True, slots=True)
class Document:
    """A Markdown file with its front matter taken off.

    Attributes:
        front: its keys; empty without a front matter.
        body: the Markdown after it.
    """

    front: dict[str, Any]
    body: str


def read_document(path: Path) -> Document:
    """Read a Markdown file.

    Raises:
        ArtifactError: when it cannot be read.
        SkillFormatError: for a front matter that is not closed, or is not a YAML mapping.
    """
    return split_document(_decoded(path), str(path))


def split_document(text: str, where: str = "SKILL.md") -> Document:
    """Take the front matter off a Markdown text; only a text whose first line is ``---`` has one.

    Raises:
        SkillFormatError: when it is not closed, or is not a YAML mapping.
    """
    lines, body = _front_and_body(text, where)
    try:
        front = yaml.safe_load(lines)
    except yaml.YAMLError as error:
        raise SkillFormatError(f"{where}: the front matter is not YAML ({' '.join(str(error).split())})") from error
    if front is None:
        front = {}
    if not isinstance(front, dict):
        raise SkillFormatError(f"{where}: the front matter is a {type(front).__name__}, not keys and values")
    return Document({str(key): value for key, value in front.items()}, body)


def _front_and_body(text: str, where: str) -> tuple[str, str]:
    """Return the lines between the marks of a front matter, empty without one, and the Markdown after them."""
    first, *rest = text.replace("\r\n", "\n").split("\n")
    if first.rstrip() != _MARK:
        return "", "\n".join([first, *rest])
    end = next((index for index, line in enumerate(rest) if line.rstrip() == _MARK), None)
    if end is None:
        raise SkillFormatError(f"{where}: the front matter opens with --- in line 1 and is never closed; close it")
    return "\n".join(rest[:end]), "\n".join(rest[end + 1 :])


def read_skill(path: Path) -> Skill:
    """Read a skill as a person keeps it: Markdown with headings, or an Agent Skills folder that holds ``SKILL.md``.

    A document whose only headings below the title are ``###`` is read as this project writes it. In any other one each
    section of level 1 to 3 that has text is a chunk. A byte-order mark, CRLF and a front matter are taken off; what the
    front matter says is no text of the skill, so its YAML need not even be valid.

    Raises:
        ArtifactError: when there is no such file, or it is not UTF-8.
        SkillFormatError: for a document without any chunk: a skill that shows nothing is no treatment.
    """
    file = _file_in(path) if path.is_dir() else path
    _, body = _front_and_body(_decoded(file), str(file))
    preamble, sections = split_sections(body)
    levels = {section.level for section in sections}
    if levels <= {DEEPEST}:
        skill = parse_skill(body)
    else:
        skill = Skill(preamble, tuple(Chunk(part.title, part.body) for part in sections if part.body))
    if not skill.chunks:
        raise SkillFormatError(
            f"{file} holds no chunk, so it would show nothing. A chunk is a section with a heading (#, ## or ###) and "
            f"text below it; this document has {counted(len(sections), 'section')}, {counted(len(body), 'character')}"
        )
    return skill


def _file_in(folder: Path) -> Path:
    """Return the skill of a folder, whatever the case of its name."""
    files = [path for path in sorted(folder.iterdir()) if path.name.casefold() == SKILL_FILE.casefold()]
    if not files:
        raise ArtifactError(f"{folder} holds no {SKILL_FILE}; give a Markdown file, or a folder with one of that name")
    return files[0]


def _decoded(file: Path) -> str:
    """Return a text file without its byte-order mark."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{file} cannot be read ({error})") from error
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ArtifactError(f"{file} cannot be read: it is UTF-16; save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArtifactError(f"{file} cannot be read: it is not UTF-8 ({error}); save it as UTF-8") from error


def is_export(folder: Path) -> bool:
    """Return whether a folder is an export of this project."""
    if not ((folder / SKILL_FILE).is_file() and (folder / CHUNKS_FILE).is_file()):
        return False
    side = read_json(folder / CHUNKS_FILE)
    return isinstance(side, dict) and side.get("format") == CHUNKS_FORMAT


def read_export(folder: Path) -> tuple[Skill, dict[str, Any]]:
    """Read an export of this project back: the skill as it now stands there, and ``chunks.json``.

    Raises:
        ArtifactError: when a file is missing or ``chunks.json`` is not one of ours.
        SkillFormatError: when the text is no skill.
    """
    side = read_json(folder / CHUNKS_FILE)
    try:
        moved = {row["id"]: row["file"] for row in side["chunks"] if row["file"] != SKILL_FILE}
    except (KeyError, TypeError) as error:
        raise ArtifactError(f"{folder / CHUNKS_FILE} does not list chunks with id and file; export again") from error
    if astray := [path for key, path in moved.items() if path != reference(key) or "/" in key or "\\" in key]:
        raise ArtifactError(
            f"{folder / CHUNKS_FILE} names files outside references/, {offenders(astray)}; export again"
        )
    references = {path: read_text(folder / path) for path in moved.values() if (folder / path).is_file()}
    return read_body(read_document(folder / SKILL_FILE).body, references, moved.keys()), side
