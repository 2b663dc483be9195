"""The skill document: a preamble and chunks under ``###`` headings, and the way to its text and back."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from intraskill.method.errors import SkillFormatError, offenders
from intraskill.method.randomness import content_hash

ChunkId: TypeAlias = str
Visible: TypeAlias = frozenset[ChunkId]
BARE: Visible = frozenset()

_HEADING = "### "
_FENCE = re.compile(r"^((?: {0,8}(?:[-*+]|\d{1,9}[.)]) {1,4}){0,2}) {0,3}(`{3,}(?=[^`]*$)|~{3,})")
"""A fence, also as the first line of a list's item; a line such as ```x``` is inline code."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """One atomic unit of intervention: shown or hidden as a whole (method §1.2).

    Raises:
        SkillFormatError: if the text could not survive the file format (empty or multi-line title, surrounding
            blanks, a ``###`` heading or an unclosed code fence in the body).
    """

    title: str
    body: str

    def __post_init__(self) -> None:
        if not self.title or self.title != self.title.strip() or len(self.title.splitlines()) > 1:
            raise SkillFormatError(f"a chunk title must be one non-empty line without outer blanks, got {self.title!r}")
        _check_text(f"the body of chunk {self.title!r}", self.body)

    @property
    def id(self) -> ChunkId:
        """A readable slug and a hash of title and body, such as ``query-words-3fa91c02``."""
        return _chunk_id(self.title, self.body)

    def render(self) -> str:
        """Return the chunk's section of the document."""
        return f"{_HEADING}{self.title}\n\n{self.body}".rstrip()


@dataclass(frozen=True, slots=True)
class Skill:
    """The skill S_t: a preamble and ordered chunks.

    Raises:
        SkillFormatError: if two chunks have the same text, or the preamble could not survive the file format.
    """

    preamble: str
    chunks: tuple[Chunk, ...] = ()

    def __post_init__(self) -> None:
        _check_text("the preamble", self.preamble)
        if repeated := sorted(chunk_id for chunk_id, times in Counter(self.ids).items() if times > 1):
            raise SkillFormatError(f"chunks with the same text, {offenders(repeated)}; remove the repeats")

    @property
    def ids(self) -> tuple[ChunkId, ...]:
        """Chunk ids in document order, (J,)."""
        return tuple(chunk.id for chunk in self.chunks)

    @property
    def hash(self) -> str:
        """Content hash of the whole document."""
        return content_hash(self.preamble, [(chunk.title, chunk.body) for chunk in self.chunks])

    def render(self, visible: Visible | None = None) -> str:
        """Return the Markdown that a policy sees: exactly the ``visible`` chunks, in document order.

        ``None`` shows all of them. Showing nothing renders as the empty string, preamble included: a skill-free
        context and an assisted context whose draw shows no chunk are the same text (method §5).

        Raises:
            SkillFormatError: if ``visible`` names a chunk that is not in this skill.
        """
        shown = frozenset(self.ids) if visible is None else visible
        if unknown := sorted(shown - set(self.ids)):
            raise SkillFormatError(f"the skill has no such chunks, {offenders(unknown)}")
        if not shown:
            return ""
        return _join(self.preamble, [chunk for chunk in self.chunks if chunk.id in shown])

    def to_markdown(self) -> str:
        """Return the document as stored on disk: the preamble survives even without chunks."""
        return _join(self.preamble, self.chunks) + "\n"


def parse_skill(markdown: str) -> Skill:
    """Read a skill back from `Skill.to_markdown` or `Skill.render`; headings in code fences are text.

    Raises:
        SkillFormatError: for a duplicate or malformed chunk.
    """
    sections: list[list[str]] = [[]]
    for line, fenced in fenced_lines(markdown.replace("\r\n", "\n")):
        if line.startswith(_HEADING) and not fenced:
            sections.append([line.removeprefix(_HEADING).strip()])
        else:
            sections[-1].append(line)
    preamble, *rest = sections
    chunks = tuple(Chunk(title, "\n".join(body).strip()) for title, *body in rest)
    return Skill("\n".join(preamble).strip(), chunks)


@lru_cache(maxsize=4096)
def _chunk_id(title: str, body: str) -> ChunkId:
    slug = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:32].strip("-") or "chunk"
    return f"{slug}-{content_hash(title, body)[:8]}"


def _join(preamble: str, chunks: tuple[Chunk, ...] | list[Chunk]) -> str:
    parts = [preamble, *(chunk.render() for chunk in chunks)]
    return "\n\n".join(part for part in parts if part)


def _check_text(where: str, text: str) -> None:
    """Refuse text that would not come back from the file as it went in."""
    if text != text.strip() or "\r" in text:
        raise SkillFormatError(f"{where} has outer blanks or carriage returns; strip it")
    if any(line.startswith(_HEADING) and not fenced for line, fenced in fenced_lines(text)):
        raise SkillFormatError(f"{where} holds a '### ' heading, which starts a chunk; split the chunk there")
    if open_fence(text):
        raise SkillFormatError(f"{where} has a code fence that is never closed; close it")


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it lies inside (or opens or closes) a code fence."""
    yield from ((line, fenced) for line, fenced, _ in _fences(text))


def open_fence(text: str) -> str:
    """Return the mark of the code fence that a text leaves open, ``""`` when it leaves none."""
    *_, (_, _, fence) = _fences(text)
    return fence


def _fences(text: str) -> Iterator[tuple[str, bool, str]]:
    """Yield each line, whether it belongs to a code fence, and the mark of the fence that is open after it."""
    fence, deepest = "", 0
    for line in text.split("\n"):
        if fence:
            mark = line.lstrip(" ")
            if mark.startswith(fence) and not mark.rstrip().strip(fence[0]) and line.find(fence) <= deepest:
                fence = ""
            yield line, True, fence
        elif opens := _FENCE.match(line):
            fence = opens[2]
            deepest = 3 + (opens.start(2) if opens[1] else 0)
            yield line, True, fence
        else:
            yield line, False, ""
