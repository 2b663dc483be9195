"""The one door to the terminal: whatever is printed goes through here, and no text of others is ever run as markup.

A control character or a mark that turns the direction of writing is shown as an escape, and so is what the encoding of
the output lacks; the signs of our own tables have a spelling for that case.
"""

import codecs
import io
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from intraskill.config.quoting import escape, shown
from intraskill.report.sheet import Column, Sheet, as_csv, as_latex, as_markdown, markdown

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

FORMATS = ("table", "md", "csv", "latex")
_PIPE_WIDTH = 160
"""Columns where there is no terminal and COLUMNS says nothing."""
_NARROWEST = 10
"""Columns that a name keeps."""
_LONGEST_WORD = 16
"""Columns that a word keeps; a longer one is broken."""
_ERRORS = "intraskill"
_SPELLING = {
    "–": "-", "−": "-", "—": "-", "…": "...", "±": "+-", "×": "x", "·": "-", "→": "->", "≤": "<=", "≥": ">=", "│": "|",
    "∅": "none", "α": "alpha", "β": "beta", "σ": "sigma", "ρ": "rho", "κ": "kappa", "Δ": "Delta", "δ": "delta",
    "\u0302": "", "‘": "'", "’": "'", "“": '"', "”": '"', "\xa0": " ", "Π": "Pi",
}  # fmt: skip


def _spelt(error: UnicodeError) -> tuple[str, int]:
    """Spell what an encoding lacks."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_SPELLING.get(letter, escape(letter)) for letter in letters), error.end


codecs.register_error(_ERRORS, _spelt)


def open_screen() -> None:
    """Make the standard streams take every letter; closed ones become nowhere."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_ERRORS)


class Screen:
    """A stream that shows what is written to it, for a dialogue.

    Args:
        stream: where it goes; the standard output when left out.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write a text without its powers."""
        return (self._stream or sys.stdout).write(shown(text))

    def flush(self) -> None:
        """Pass on what is held back."""
        (self._stream or sys.stdout).flush()


def say(text: str, *, error: bool = False, flush: bool = False) -> None:
    """Print whole lines, never wrapped: paths and commands in them can be copied."""
    stream = sys.stderr if error else sys.stdout
    stream.write(f"{shown(text)}\n")
    if error or flush:
        stream.flush()


def say_document(text: str) -> None:
    """Print a document: as it is for a program, and `shown` on a terminal."""
    sys.stdout.write(f"{shown(text) if sys.stdout.isatty() else text}\n")


def say_json(data: Any, *, indent: int = 1) -> None:
    """Print data as JSON, with escapes for what the output cannot carry."""
    text = json.dumps(data, indent=indent, ensure_ascii=False)
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        shown(text).encode(encoding)
    except UnicodeEncodeError:
        text = json.dumps(data, indent=indent)
    say(text)


@dataclass(frozen=True, slots=True)
class Line:
    """A text that is never wrapped, such as a path or a command."""

    text: str


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph.

    Attributes:
        text: what it says.
        head: bold words before it.
    """

    text: str
    head: str = ""


Block = Sheet | Line | Prose


@dataclass(frozen=True, slots=True)
class Look:
    """How tables are printed.

    Attributes:
        form: one of `FORMATS`.
        wide: every column at its full width, however wide the terminal.
        remedy: says how to see the columns that fell away.
    """

    form: str = "table"
    wide: bool = False
    remedy: str = "--wide shows them"


def print_blocks(blocks: Iterable[Block], look: Look | None = None) -> None:
    """Print tables and what is said about them.

    CSV and LaTeX go alone to the standard output, for another program; the words then go to the standard error.
    """
    look = look or Look()
    if look.form == "table":
        console, width = _console(), _width()
        for block in blocks:
            _print_block(console, block, width, look)
        return
    first = True
    for block in blocks:
        if look.form != "md" and not isinstance(block, Sheet):
            say(_words(block), error=True)
            continue
        say(("" if first else "\n") + _formed(block, look.form).rstrip("\n"))
        first = False


def _words(block: Line | Prose) -> str:
    return f"{block.head} {block.text}" if isinstance(block, Prose) and block.head else block.text


def _formed(block: Block, form: str) -> str:
    if isinstance(block, Sheet):
        if form == "md":
            return f"**{markdown(block.title)}**\n\n{as_markdown(block)}"
        return as_csv(block) if form == "csv" else as_latex(block)
    head = f"**{markdown(block.head)}** " if isinstance(block, Prose) and block.head else ""
    return head + (markdown(block.text) if isinstance(block, Prose) else f"    {block.text}")


def _width() -> int:
    """Return the columns of the terminal, or what COLUMNS says."""
    return max(20, shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns)


def error_console() -> "Console":
    """Return a console on the standard error, for a display that moves; it knows no markup."""
    return _console(sys.stderr)


def _console(stream: TextIO | None = None) -> "Console":
    from rich.console import Console

    return Console(file=stream or sys.stdout, highlight=False, markup=False, emoji=False)


def _legible(text: str) -> str:
    """Return a text as the output will carry it, so that it can be measured."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return shown(text).encode(encoding, _ERRORS).decode(encoding)


def _one_line(text: str) -> str:
    return _legible("".join(escape(letter) if letter in "\n\t" else letter for letter in text))


def _print_block(console: "Console", block: Block, width: int, look: Look) -> None:
    from rich.text import Text

    if isinstance(block, Line):
        console.print(Text(_legible(block.text)), soft_wrap=True)
    elif isinstance(block, Prose):
        head = Text(_legible(block.head) + " " * bool(block.head), "bold")
        pipe = not (console.is_terminal or os.environ.get("COLUMNS"))  # for a program whole paragraphs are lines
        words = head + Text(_legible(block.text))
        console.print(words, soft_wrap=True) if pipe else console.print(words, width=width, overflow="fold")
    else:
        _print_sheet(console, block, width, look)


def _print_sheet(console: "Console", table: Sheet, width: int, look: Look) -> None:
    from rich.table import Table
    from rich.text import Text

    widths = [_widths(table, index) for index in range(len(table.columns))]
    kept = range(len(widths)) if look.wide else fitting(table.columns, widths, width)
    drawn = Table(title=Text(_legible(table.title)), title_justify="left")
    for index in kept:
        column = table.columns[index]
        firm = not column.wraps and index > 0 and sum(widths[i][0] + 3 for i in kept) < width
        drawn.add_column(
            Text(_legible(column.name)),
            justify="right" if column.right else "left",
            overflow="fold",
            no_wrap=firm or look.wide,
            min_width=None if look.wide else min(widths[index][0], width),
        )
    for row in table.rows:
        drawn.add_row(*(Text(_one_line(row[index].text), row[index].style) for index in kept))
    full = sum(most for _, most in widths) + 3 * len(widths) + 1
    console.width = max(width, full) if look.wide else width
    console.print(drawn, crop=False)
    if gone := [" ".join(column.name.split("\n")) for index, column in enumerate(table.columns) if index not in kept]:
        said = f"{width} columns are too few for: {', '.join(gone)}; {look.remedy}."
        console.print(Text(_legible(said)), overflow="fold")


def _widths(table: Sheet, index: int) -> tuple[int, int]:
    """Return the least and the full width of a column, in cells of the terminal."""
    from rich.cells import cell_len

    heading = max(map(cell_len, _legible(table.columns[index].name).split("\n")))
    cells = [cell_len(_one_line(row[index].text)) for row in table.rows]
    full = max([heading, *cells])
    if index == 0:
        return min(full, _NARROWEST), full
    if not table.columns[index].wraps:
        return full, full
    words = [word for row in table.rows for word in _one_line(row[index].text).split()]
    return min(full, _LONGEST_WORD, max(map(cell_len, words), default=0)), full


def fitting(columns: Sequence[Column], widths: Sequence[tuple[int, int]], width: int) -> list[int]:
    """Return which columns stay: all of priority 0, then by rising priority whatever still has its least width.

    Args:
        columns: of the table.
        widths: least and full width of each, in cells.
        width: of the terminal; three cells a column, and one more, are lines and blanks.
    """
    room, kept = width - 1, []
    for index in sorted(range(len(columns)), key=lambda index: columns[index].priority):
        needed = widths[index][0] + 3
        if columns[index].priority == 0 or needed <= room:
            kept.append(index)
            room -= needed
    return sorted(kept)


def styled(*parts: str | tuple[str, str]) -> "Text":
    """Return a text of parts, each plain or with a style; none of them is markup or moves the cursor."""
    from rich.text import Text

    pairs = [(part, "") if isinstance(part, str) else part for part in parts]
    return Text.assemble(*((shown(text), style) for text, style in pairs))


def print_lines(lines: "Iterable[Text]") -> None:
    """Print lines with colours on a terminal, plain and whole elsewhere."""
    console = _console()
    for line in lines:
        console.print(line, soft_wrap=True)
