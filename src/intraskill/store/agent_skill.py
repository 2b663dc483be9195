"""An Agent Skills folder on disk: front matter through YAML, body, references, and the side file of chunk ids."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

from intraskill.method.errors import ArtifactError, SkillFormatError, offenders
from intraskill.method.skill.agent_skill import SKILL_FILE, read_body, reference
from intraskill.method.skill.skill import Skill
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
    return split_document(read_text(path).removeprefix("\ufeff"), str(path))


def split_document(text: str, where: str = "SKILL.md") -> Document:
    """Take the front matter off a Markdown text; only a text whose first line is ``---`` has one.

    Raises:
        SkillFormatError: when it is not closed, or is not a YAML mapping.
    """
    first, *rest = text.replace("\r\n", "\n").split("\n")
    if first.rstrip() != _MARK:
        return Document({}, "\n".join([first, *rest]))
    end = next((index for index, line in enumerate(rest) if line.rstrip() == _MARK), None)
    if end is None:
        raise SkillFormatError(f"{where}: the front matter opens with --- in line 1 and is never closed; close it")
    try:
        front = yaml.safe_load("\n".join(rest[:end]))
    except yaml.YAMLError as error:
        raise SkillFormatError(f"{where}: the front matter is not YAML ({' '.join(str(error).split())})") from error
    if front is None:
        front = {}
    if not isinstance(front, dict):
        raise SkillFormatError(f"{where}: the front matter is a {type(front).__name__}, not keys and values")
    return Document({str(key): value for key, value in front.items()}, "\n".join(rest[end + 1 :]))


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
