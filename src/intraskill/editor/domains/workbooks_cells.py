"""Cells of a workbook: ranges, and when two cells count as equal.

As in the public benchmark: numbers, and texts that read as one, are equal after rounding; a date is its day, a time its
hour and minute; an empty cell equals an empty text; otherwise kinds must agree, so the text "yes" is never true. Only
values are compared, never formats, and a formula counts by the value that was saved with it.
"""

import io
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

from intraskill.method.errors import ArtifactError

FIRST_DAY = datetime(1899, 12, 30)  # noqa: DTZ001 - workbooks know no time zones
MOST_CELLS = 1_000_000
MOST_BYTES = 256 << 20
"""Of a workbook once unpacked: a few kilobytes can hold gigabytes of zeros."""
_CORNER = r"\$?([A-Za-z]{1,3})\$?(\d+)"
_RANGE = re.compile(rf"(?:(?P<sheet>'(?:[^']|'')+'|[^'!,]+)!)?{_CORNER}(?::{_CORNER})?")
_BETWEEN = re.compile(r",(?=(?:[^']*'[^']*')*[^']*$)")
Cells = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CellRange:
    """A rectangle of cells.

    Attributes:
        sheet: its sheet; empty = the first one.
        bounds: such as ``A1:B5``.
    """

    sheet: str
    bounds: str


def read_ranges(position: Any) -> tuple[CellRange, ...]:
    """Return the ranges of a text such as ``Sheet1!A1:B5`` or ``'My sheet'!A1,'Other'!B2:C3``.

    Raises:
        ValueError: when it is no such text.
    """
    from openpyxl.utils import range_boundaries

    if not isinstance(position, str) or not position.strip():
        raise ValueError("answer_position must be a range such as Sheet1!A1:B5")
    found = []
    for part in _BETWEEN.split(position):
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"answer_position {position!r} is no range such as Sheet1!A1:B5")
        sheet = (match["sheet"] or "").strip()
        sheet = sheet[1:-1].replace("''", "'") if sheet.startswith("'") else sheet
        first, last = match[2] + match[3], (match[4] or match[2]) + (match[5] or match[3])
        left, top, right, bottom = range_boundaries(f"{first}:{last}")
        if not (left <= right and top <= bottom and (right - left + 1) * (bottom - top + 1) <= MOST_CELLS):
            raise ValueError(f"answer_position {position!r} names its corners the wrong way round, or is too large")
        found.append(CellRange(sheet, f"{first}:{last}".upper()))
    return tuple(found)


def cells_of(content: bytes, ranges: Sequence[CellRange], name: str) -> dict[str, Any]:
    """Return address → value of every cell in some ranges.

    Args:
        content: a workbook.
        ranges: what to read.
        name: the workbook's name, for messages.

    Raises:
        ArtifactError: when it is no workbook, or has no such sheet.
    """
    book = opened(content, name)
    found: dict[str, Any] = {}
    for one in ranges:
        sheet = one.sheet or book.sheetnames[0]
        if sheet not in book.sheetnames:
            raise ArtifactError(f"{name} has no sheet {sheet!r}; its sheets are {', '.join(book.sheetnames)}")
        for row in book[sheet][one.bounds] if ":" in one.bounds else ((book[sheet][one.bounds],),):
            for cell in row if isinstance(row, tuple) else (row,):
                found[f"{sheet}!{cell.coordinate}"] = cell.value
    return found


def opened(content: bytes, name: str) -> Any:
    """Return a workbook with values in the place of formulas.

    Raises:
        ArtifactError: when it is none.
    """
    from openpyxl import load_workbook
    from openpyxl.utils.exceptions import InvalidFileException

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as packed:
            size = sum(part.file_size for part in packed.infolist())
        if size > MOST_BYTES:
            raise ValueError(f"it unpacks to {size >> 20} MiB, more than {MOST_BYTES >> 20}")
        return load_workbook(io.BytesIO(content), data_only=True)
    except (InvalidFileException, zipfile.BadZipFile, KeyError, ValueError, TypeError, OSError, EOFError) as error:
        raise ArtifactError(f"{name} is no workbook ({type(error).__name__}: {error})") from error


def different(expected: Cells, found: Cells, decimals: int) -> list[str]:
    """Return the addresses whose values differ."""
    return [place for place in expected if not same(expected[place], found.get(place), decimals)]


def same(first: Any, second: Any, decimals: int) -> bool:
    """Return whether two cells count as equal.

    Args:
        first: a cell's value.
        second: another one's.
        decimals: digits after the point to which numbers are rounded.
    """
    return plain(first, decimals) == plain(second, decimals)


def plain(value: Any, decimals: int) -> tuple[str, Any]:
    """Return the kind and the comparable value of a cell."""
    if value is None or value == "":
        return "empty", None
    if isinstance(value, str):
        number = _number(value)
        if number is None:
            return "text", value
        value = number
    if isinstance(value, datetime):
        return "number", float(round((value.replace(tzinfo=None) - FIRST_DAY) / timedelta(days=1)))
    if isinstance(value, date):
        return "number", float((datetime(value.year, value.month, value.day) - FIRST_DAY).days)  # noqa: DTZ001
    if isinstance(value, time):
        return "time", (value.hour, value.minute)
    if isinstance(value, int | float):
        return "number", round(float(value), decimals) + 0.0
    return type(value).__name__, str(value)


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def preview(content: bytes, name: str, rows: int, columns: int = 12) -> str:
    """Return the first rows of every sheet as a worker sees them.

    Raises:
        ArtifactError: when it is no workbook.
    """
    parts = []
    for sheet in opened(content, name).worksheets:
        parts.append(f"Sheet {sheet.title!r}, used range {sheet.dimensions}:")
        for row in sheet.iter_rows(max_row=min(rows, sheet.max_row), max_col=min(columns, sheet.max_column)):
            parts.append(" | ".join("" if cell.value is None else str(cell.value) for cell in row))
    return "\n".join(parts)
