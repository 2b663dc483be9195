"""Any Markdown as a preamble and titled sections: headings of levels 1 to 3 start one, deeper ones become text.

A chunk's text holds no headings, so ``#### Rare cases`` is kept as ``Rare cases:``. Headings inside code fences are
text. A document's only level-1 heading, when it comes first, is its name: it stays in the preamble.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from intraskill.method.errors import SkillFormatError, offenders
from intraskill.method.randomness import content_hash

ChunkId: TypeAlias = str
Visible: TypeAlias = frozenset[ChunkId]
BARE: Visible = frozenset()

_HEADING = "### "
_FENCE = re.compile(r"^ {0,3}(`{3,}(?=[^`]*$)|~{3,})")  # a line such as ```x``` is inline code, not a fence


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
    *_, (_, still_open) = fenced_lines(f"{text}\n")
    if still_open:
        raise SkillFormatError(f"{where} has a code fence that is never closed; close it")


def fenced_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each line and whether it lies inside (or opens or closes) a code fence."""
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if fence:
            yield line, True
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        else:
            fence = mark[1] if mark else ""
            yield line, bool(mark)


DEEPEST = 3
_ATX = re.compile(r"^ {0,3}(#{1,6})(?:[ \t]+(.*?))??(?:[ \t]+#+)?[ \t]*$")
_UNDERLINE = re.compile(r"^ {0,3}(=+|-{2,})[ \t]*$")
_NO_TITLE = re.compile(r"^(?: {4}|\t| {0,3}(?:[-*+>|#]|\d+[.)] ))")


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document.

    Attributes:
        level: of its heading, 1 to 3.
        title: one line, made distinct with its parent's title where a document repeats it.
        body: text up to the next heading of levels 1 to 3; ``""`` for a heading that only groups others.
    """

    level: int
    title: str
    body: str


def split_sections(markdown: str) -> tuple[str, tuple[Section, ...]]:
    """Return the preamble and the sections of a document, in order; all of its text is in one of them."""
    before: list[str] = []
    found: list[tuple[int, str, list[str]]] = []
    for level, line in _headings(markdown):
        if level:
            found.append((level, line, []))
        else:
            (found[-1][2] if found else before).append(line)
    preamble = "\n".join(before).strip()
    ones = sum(level == 1 for level, _, _ in found)
    if found and found[0][0] == 1 and ones == 1:
        _, title, lines = found.pop(0)
        preamble = "\n\n".join(part for part in (preamble, f"# {title}", "\n".join(lines).strip()) if part)
    return preamble, tuple(_distinct((level, title, "\n".join(lines).strip()) for level, title, lines in found))


def _headings(markdown: str) -> Iterator[tuple[int, str]]:
    """Yield (level, title) of a heading and (0, line) of a line of text."""
    lines = list(fenced_lines(markdown))
    skip = False
    for index, (line, fenced) in enumerate(lines):
        if skip:
            skip = False
            continue
        following, fenced_too = lines[index + 1] if index + 1 < len(lines) else ("", True)
        atx, under = _ATX.match(line), _UNDERLINE.match(following)
        if not fenced and atx and len(atx[1]) <= DEEPEST:
            yield len(atx[1]), _plain(atx[2] or "")
        elif not fenced and atx:
            yield 0, f"{_plain(atx[2] or '').rstrip(':')}:"
        elif under and not (fenced or fenced_too) and _starts_alone(lines, index):
            skip = True
            yield (1 if under[1][0] == "=" else 2), _plain(line)
        else:
            yield 0, line


def _starts_alone(lines: list[tuple[str, bool]], index: int) -> bool:
    """Whether a line can be an underlined title: one line of text after a blank line or the start."""
    line = lines[index][0]
    before = lines[index - 1][0] if index else ""
    return bool(line.strip()) and not _NO_TITLE.match(line) and not before.strip()


def _plain(title: str) -> str:
    """Return a heading without outer blanks and without marks that wrap it whole."""
    text = " ".join(title.split())
    wrapped = re.fullmatch(r"(\*\*|__|\*|_|`)(.+)\1", text)
    return (wrapped[2].strip() if wrapped else text) or "Untitled"


def _distinct(sections: Iterable[tuple[int, str, str]]) -> Iterator[Section]:
    given = list(sections)
    times = Counter(title for _, title, body in given if body)
    parents: dict[int, str] = {}
    for level, title, body in given:
        above = [parents[upper] for upper in sorted(parents) if upper < level]
        parents = {upper: name for upper, name in parents.items() if upper < level} | {level: title}
        yield Section(level, f"{above[-1]}: {title}" if times[title] > 1 and above else title, body)
