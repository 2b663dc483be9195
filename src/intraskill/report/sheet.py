"""A table as data, and as Markdown, CSV and LaTeX; `intraskill.report.screen` fits it to a terminal."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

Number = float | int | None


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        name: its heading.
        priority: where not all fit, those with the smallest numbers stay; 0 always stays.
        right: aligned to the right.
        wraps: its cells are words, which may take several lines.
        parts: headings of the numbers that a cell stands for, in CSV; empty for text.
    """

    name: str
    priority: int = 0
    right: bool = False
    wraps: bool = False
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """A text and the numbers it was made of.

    Attributes:
        text: as people read it.
        values: one number per part of the column; empty when nothing was measured.
        style: colour on a terminal, in words of rich.
    """

    text: str
    values: tuple[Number, ...] = ()
    style: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table; the first column names the rows."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]


def sheet(title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell | str]]) -> Sheet:
    """Return a table; a cell that is a plain text has no numbers."""
    cells = tuple(tuple(cell if isinstance(cell, Cell) else Cell(cell) for cell in row) for row in rows)
    return Sheet(title, tuple(columns), cells)


def number(value: Number, pattern: str = "{:,}", missing: str = "") -> Cell:
    """Return a cell of one number."""
    return Cell(missing) if value is None else Cell(pattern.format(value), (value,))


def as_csv(table: Sheet) -> str:
    """Return CSV: numbers unrounded, a column per number, and no text that a spreadsheet would run as a formula."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([_inert(name) for column in table.columns for name in column.parts or (column.name,)])
    for row in table.rows:
        writer.writerow(
            [value for column, cell in zip(table.columns, row, strict=True) for value in _values(column, cell)]
        )
    return out.getvalue()


def _values(column: Column, cell: Cell) -> Sequence[object]:
    if not column.parts:
        return cell.values if len(cell.values) == 1 else (_inert(cell.text),)
    return [*cell.values, *[None] * (len(column.parts) - len(cell.values))]


def _inert(text: str) -> str:
    text = " ".join(text.split("\n"))
    return f"'{text}" if text.lstrip().startswith(tuple("=+-@＝＋－＠")) or text.startswith(("\t", "\r")) else text


_MARKDOWN = re.compile(r"([\\`*_<\[\]|])")


def markdown(text: str) -> str:
    """Return a text that Markdown shows as it is, on one line."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.splitlines()))


def as_markdown(table: Sheet) -> str:
    """Return a Markdown table, without its title."""
    lines = [[column.name for column in table.columns]]
    lines += [[cell.text for cell in row] for row in table.rows]
    head, *body = [f"| {' | '.join(map(markdown, line))} |" for line in lines]
    rule = "|" + "|".join("---:" if column.right else "---" for column in table.columns) + "|"
    return "\n".join([head, rule, *body]) + "\n"


_LATEX = {sign: f"\\{sign}" for sign in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "\n": " ",
    "–": "--",
    "…": r"\dots{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "→": r"$\to$",
    "≤": r"$\le$",
    "α": r"$\alpha$",
    "β": r"$\beta$",
    "σ": r"$\sigma$",
    "∅": r"$\emptyset$",
}


def latex(text: str) -> str:
    """Return a text as LaTeX sets it; other scripts need a class that knows them."""
    return "".join(_LATEX.get(letter, letter) for letter in text)


def as_latex(table: Sheet) -> str:
    """Return a ``tabular``, with its title as a comment."""
    kinds = "".join("r" if column.right else "l" for column in table.columns)
    lines = [[column.name for column in table.columns]]
    lines += [[cell.text for cell in row] for row in table.rows]
    # A row that begins with [ would be read as the length that \\ takes.
    head, *body = [" & ".join("{}" * text.startswith("[") + latex(text) for text in line) + r" \\" for line in lines]
    title = "% " + " ".join(table.title.splitlines())
    return (
        "\n".join(
            [title, rf"\begin{{tabular}}{{{kinds}}}", r"\hline", head, r"\hline", *body, r"\hline", r"\end{tabular}"]
        )
        + "\n"
    )
