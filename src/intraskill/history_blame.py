"""Who wrote which line of a skill: the first edit, along the chain of REWRITE, MERGE and SPLIT, whose text holds it."""

from dataclasses import dataclass
from difflib import SequenceMatcher

from intraskill.history import History, Measured, TriedEdit, Version
from intraskill.method.errors import ArtifactError
from intraskill.method.skill import Chunk, ChunkId


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a line came into the skill.

    Attributes:
        round_index: t.
        edit: the edit whose text first held it; ``None`` in the preamble, which no gate tests.
        chunk_id: chunk of that edit; ``""`` in the preamble.
    """

    round_index: int
    edit: TriedEdit | None = None
    chunk_id: ChunkId = ""


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a version's document.

    Attributes:
        number: from 1.
        text: without its line feed.
        chunk_id: chunk of the version that holds it, ``""`` for the preamble.
        origin: where it came from. A blank line goes with the line after it.
    """

    number: int
    text: str
    chunk_id: ChunkId
    origin: Origin


def blame(history: History, version: Version) -> tuple[Line, ...]:
    """Return every line of `Skill.to_markdown` once, in order."""
    preamble = version.skill.preamble.split("\n") if version.skill.preamble else []
    rows = [(text, "", origin) for text, origin in zip(preamble, _preamble(history, version), strict=True)]
    for chunk in version.skill.chunks:
        lines, origins = _text(chunk), _origins(history, version, chunk)
        if rows:
            rows.append(("", chunk.id, origins[0]))
        rows += [(text, chunk.id, origin) for text, origin in zip(lines, origins, strict=True)]
    return tuple(Line(number, *row) for number, row in enumerate(rows or [("", "", Origin(0))], start=1))


def origin_of(history: History, version: Version, chunk_id: ChunkId) -> TriedEdit:
    """Return the edit that put a chunk of a version there; for one that left and came back, the later one.

    Raises:
        ArtifactError: when no edit accounts for it.
    """
    for one in reversed(history.until(version)):
        made = [tried for tried in one.edits if chunk_id in tried.edit.added_ids]
        earlier = history.before(one)
        if earlier is None or chunk_id not in earlier.skill.ids:
            if made:
                return made[0]
            break
    raise ArtifactError(f"no edit of {history.root} put chunk {chunk_id} into {version.directory / 'skill.md'}")


def last_measured(history: History, version: Version, chunk_id: ChunkId) -> Measured | None:
    """Return the newest measurement of a chunk up to a version, or ``None``."""
    found = (one.measured.get(chunk_id) for one in reversed(history.until(version)))
    return next((measured for measured in found if measured is not None), None)


def _text(chunk: Chunk) -> list[str]:
    return chunk.render().split("\n")


def _origins(history: History, version: Version, chunk: Chunk) -> list[Origin]:
    """Return the origin of every line of a chunk: its parents' where they hold the line, first parent first."""
    made = origin_of(history, version, chunk.id)
    lines = _text(chunk)
    new = Origin(made.round_index, made, chunk.id)
    found: list[Origin | None] = [None] * len(lines)
    earlier = next((one for one in reversed(history.versions) if one.round_index < made.round_index), None)
    for parent_id in made.edit.removes if earlier else ():
        assert earlier is not None
        parent = history.chunks[parent_id]
        inherited = _origins(history, earlier, parent)
        for old_start, new_start, size in _same(_text(parent), lines):
            for step in range(size):
                found[new_start + step] = found[new_start + step] or inherited[old_start + step]
    return _blank_with_next(lines, [origin or new for origin in found])


def _preamble(history: History, version: Version) -> list[Origin]:
    """Follow the preamble through the versions; a line that changed is of the round that changed it."""
    lines: list[str] = []
    found: list[Origin] = []
    for one in history.until(version):
        text = one.skill.preamble.split("\n") if one.skill.preamble else []
        fresh = [Origin(one.round_index)] * len(text)
        for old_start, new_start, size in _same(lines, text):
            fresh[new_start : new_start + size] = found[old_start : old_start + size]
        lines, found = text, fresh
    return found


def _same(old: list[str], new: list[str]) -> list[tuple[int, int, int]]:
    blocks = SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks()
    return [(block.a, block.b, block.size) for block in blocks]


def _blank_with_next(lines: list[str], origins: list[Origin]) -> list[Origin]:
    for place in reversed(range(len(lines) - 1)):
        if not lines[place].strip():
            origins[place] = origins[place + 1]
    return origins
