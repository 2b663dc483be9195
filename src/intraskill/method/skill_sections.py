"""Any Markdown as a preamble and titled sections: headings of levels 1 to 3 start one, deeper ones become text.

A chunk's text holds no headings, so ``#### Rare cases`` is kept as ``Rare cases:``. Headings inside code fences are
text. A document's only level-1 heading, when it comes first, is its name: it stays in the preamble.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from intraskill.method.skill import fenced_lines

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
