"""Any Markdown as a preamble and titled sections; every word of it is in one of them.

Headings down to level 3 begin a section, deeper ones become lines of text: ``#### Rare cases`` is kept as
``Rare cases:``. A document that has fewer than two sections with text that way is split one level deeper at a time.
What a heading is says CommonMark: none in code fences, HTML comments, quotes and lists. A document's only level-1
heading, when it comes first, is its name: it stays in the preamble.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING

from intraskill.method.skill.skill import fenced_lines, open_fence

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

DEEPEST = 3
_LOWEST = 6


@dataclass(frozen=True, slots=True)
class Section:
    """One section of a document.

    Attributes:
        level: of its heading, 1 to 6.
        title: one line, made distinct with its parent's title where a document repeats it.
        body: text up to the next heading that begins a section; ``""`` for a heading that only groups others.
    """

    level: int
    title: str
    body: str


def split_sections(markdown: str) -> tuple[str, tuple[Section, ...]]:
    """Return the preamble and the sections of a document, in order; all of its text is in one of them."""
    headings = _headings(markdown)
    splits = (_split(markdown, headings, deepest) for deepest in range(DEEPEST, _LOWEST + 1))
    first = best = next(splits)
    for deeper in splits if _units(first) < 2 else ():
        best = max(best, deeper, key=_units)  # of equals the first, which is the least deep
        if _units(best) > 1:
            break
    return best


def _units(split: tuple[str, tuple[Section, ...]]) -> int:
    return sum(bool(section.body) for section in split[1])


def _split(markdown: str, headings: dict[int, tuple[int, int, str]], deepest: int) -> tuple[str, tuple[Section, ...]]:
    before: list[str] = []
    parts: list[tuple[int, str, list[str]]] = []
    lines = markdown.split("\n")
    index = 0
    while index < len(lines):
        level, after, title = headings.get(index, (0, index + 1, ""))
        if 1 <= level <= deepest:
            parts.append((level, title, []))
        else:
            (parts[-1][2] if parts else before).append(f"{title.rstrip(':')}:" if level else lines[index])
        index = after
    preamble = "\n".join(before).strip()
    if parts and parts[0][0] == 1 and sum(level == 1 for level, _, _ in parts) == 1:
        _, title, text = parts.pop(0)
        preamble = "\n\n".join(part for part in (preamble, f"# {title}", "\n".join(text).strip()) if part)
    return preamble, tuple(_distinct((level, title, "\n".join(text).strip()) for level, title, text in parts))


@cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark").enable("table").disable("inline")


def _headings(markdown: str) -> dict[int, tuple[int, int, str]]:
    """Return line → (level, line after it, title) of every heading; a title underlined with one dash is none."""
    tokens = _parser().parse(markdown)
    rows: dict[int, tuple[int, int, str]] = {}
    for token, inside in zip(tokens, tokens[1:], strict=False):
        if token.type != "heading_open" or token.level or token.map is None:
            continue
        start, end = token.map
        underline = markdown.split("\n")[end - 1].strip()
        if token.markup.startswith("#") or (end - start == 2 and underline != "-"):
            rows[start] = (int(token.tag[1]), end, _plain(inside.content))
    return rows


def _plain(title: str) -> str:
    """Return a heading without outer blanks and without marks that wrap it whole."""
    text = " ".join(title.split())
    for mark in ("**", "__", "*", "_", "`"):
        inner = text[len(mark) : -len(mark)].strip()
        if len(text) > 2 * len(mark) and text.startswith(mark) and text.endswith(mark) and mark not in inner:
            return inner or "Untitled"
    return text or "Untitled"


def _distinct(sections: Iterable[tuple[int, str, str]]) -> Iterator[Section]:
    given = list(sections)
    times = Counter(title for _, title, body in given if body)
    parents: dict[int, str] = {}
    for level, title, body in given:
        above = [parents[upper] for upper in sorted(parents) if upper < level]
        parents = {upper: name for upper, name in parents.items() if upper < level} | {level: title}
        yield Section(level, f"{above[-1]}: {title}" if times[title] > 1 and above else title, body)


def with_groups(sections: Sequence[Section]) -> tuple[Section, ...]:
    """Put the title of a heading that only groups others before the titles of those right below it."""
    named: list[Section] = []
    above: list[Section] = []
    for section in sections:
        above = [other for other in above if other.level < section.level]
        parent = above[-1] if above else None
        if parent and not parent.body and not section.title.startswith(f"{parent.title}: "):
            section = replace(section, title=f"{parent.title}: {section.title}")
        named.append(section)
        above.append(section)
    return tuple(named)


def childless(sections: Sequence[Section]) -> tuple[str, ...]:
    """Return the titles of headings that have neither text nor sections below them."""
    pairs = zip_longest(sections, sections[1:])
    return tuple(one.title for one, after in pairs if not one.body and (after is None or after.level <= one.level))


def storable(text: str) -> tuple[str, bool]:
    """Return text that a chunk can hold, and whether a code fence had to be closed at its end.

    A line such as ``### x`` that is no heading, as in an HTML comment, is set in by one blank.
    """
    lines = [f" {line}" if line.startswith("### ") and not fenced else line for line, fenced in fenced_lines(text)]
    fence = open_fence(text)
    return "\n".join([*lines, fence] if fence else lines).strip(), bool(fence)
