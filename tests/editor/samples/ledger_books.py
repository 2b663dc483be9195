"""Writes four small tasks in the form of SpreadsheetBench: add a total under a column, on two workbooks each."""

import json
from pathlib import Path

from openpyxl import Workbook

IDS = ("total-1", "total-2", "total-3", "total-4")


def book(path: Path, rows: list[list[object]]) -> None:
    made = Workbook()
    made.active.title = "Ledger"
    for row in rows:
        made.active.append(row)
    made.save(path)


def write_tasks(folder: Path) -> Path:
    rows = []
    for place, name in enumerate(IDS, 1):
        inside = folder / "spreadsheet" / name
        inside.mkdir(parents=True)
        for number in (1, 2):
            values = [place * number + i / 4 for i in range(3)]
            table = [["item", "price"], *(["x", value] for value in values)]
            book(inside / f"{number}_{name}_input.xlsx", table)
            book(inside / f"{number}_{name}_answer.xlsx", [*table, ["sum", sum(values)]])
        rows.append(
            {
                "id": name,
                "instruction": f"Write the sum of the prices of ledger {place} below them.",
                "spreadsheet_path": f"spreadsheet/{name}",
                "instruction_type": "Cell-Level Manipulation",
                "answer_position": "'Ledger'!B5",
            }
        )
    path = folder / "dataset.json"
    path.write_text(json.dumps(rows, indent=1))
    return path
