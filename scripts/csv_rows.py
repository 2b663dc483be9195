"""Rows of a measurement as a CSV file: one writer for every script, so that equal rows give equal bytes."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


def with_others(path: Path, rows: Sequence[Mapping[str, Any]], *columns: str) -> list[Mapping[str, Any]]:
    """Return the rows of a file that have other values in ``columns`` than any of ``rows``, and then ``rows``."""
    mine = {tuple(row[column] for column in columns) for row in rows}
    kept: list[Mapping[str, Any]] = []
    if path.exists():
        with path.open(newline="", encoding="utf-8") as file:
            kept = [row for row in csv.DictReader(file) if tuple(row[column] for column in columns) not in mine]
    return [*kept, *rows]


def write_csv(path: Path, rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> None:
    """Write rows under ``columns``, by default those of the first row; a row with another column is an error."""
    names = list(rows[0] if columns is None else columns)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
