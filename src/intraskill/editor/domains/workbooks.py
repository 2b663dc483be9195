"""Workbook tasks: a worker writes a program, the program runs on every test workbook, cells are compared.

In the form of SpreadsheetBench. Nothing runs unless ``execute`` is on; what is run and how is in
`intraskill.editor.execution`.
"""

import io
import math
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.domain import Answer, Job, Query, Workbench
from intraskill.editor.domains.task_streams import SPLIT, Attempts, TaskDomain, first_skill
from intraskill.editor.execution import Confines, program_of, run_program
from intraskill.editor.judges import GRADINGS
from intraskill.editor.setup import evidence_limits
from intraskill.editor.workers import EndpointWorker, WorkerReply
from intraskill.editor.workers_options import client_of, existing, instruction, read_options, read_rows
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.randomness import content_hash
from intraskill.store.artifacts import ATTEMPTS
from intraskill.store.run_directory import file_hash

_FIRST_DAY = datetime(1899, 12, 30)  # noqa: DTZ001 - workbooks know no time zones
_MOST_CELLS = 1_000_000
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
        if not (left <= right and top <= bottom and (right - left + 1) * (bottom - top + 1) <= _MOST_CELLS):
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
        return "number", float(round((value.replace(tzinfo=None) - _FIRST_DAY) / timedelta(days=1)))
    if isinstance(value, date):
        return "number", float((datetime(value.year, value.month, value.day) - _FIRST_DAY).days)  # noqa: DTZ001
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


WHERE = "editor.options"
KNOWN: dict[str, Any] = SPLIT | {
    "path": "",
    "skill": "",
    "trajectories": "",
    "per_stream": 16,
    "execute": False,
    "seconds": 30,
    "memory_mb": 1024,
    "decimals": 2,
    "grading": "all",
    "preview_rows": 6,
    "language": "en",
    "worker": None,
}
_NEEDED = ("id", "instruction", "spreadsheet_path", "answer_position")
_PRELUDE = "INPUT, OUTPUT = 'input.xlsx', 'output.xlsx'\n"
_CASE = r"(\d+)_{}_(?:input|init)\.xlsx"
_ANSWERS = (("_input.xlsx", "_answer.xlsx"), ("_init.xlsx", "_golden.xlsx"))


@dataclass(frozen=True, slots=True)
class Case:
    """One test of a task: what a program gets, and the workbook with the right cells."""

    given: Path
    expected: Path


@dataclass(frozen=True)
class CellVerifier:
    """Compares cells; an `intraskill.editor.domain.Verifier`.

    Attributes:
        decimals: digits to which numbers are rounded.
        grading: ``all`` = 1 when every test workbook is right, else 0; ``share`` = share of those that are.
    """

    decimals: int = 2
    grading: str = "all"

    @property
    def version(self) -> str:
        """Hash of the rule."""
        return content_hash("cells-1", self.decimals, self.grading)

    def score(self, query: Query, answer: Answer) -> float:
        """Return the grade of what the programs wrote.

        Raises:
            ArtifactError: when a workbook with the right cells cannot be read, or lacks the range.
        """
        right = [
            cells is not None and not different(_expected_cells(case, query.facts["ranges"]), cells, self.decimals)
            for case, cells in zip(query.facts["cases"], answer.facts["cells"], strict=True)
        ]
        return float(all(right)) if self.grading == "all" else sum(right) / len(right)


@dataclass(frozen=True)
class Runner:
    """Runs an answer's program on every test workbook of its task.

    Attributes:
        confines: limits of one run.
        decimals: digits to which numbers are rounded in what is said of differences.
    """

    confines: Confines
    decimals: int

    def __call__(self, job: Job, text: str) -> Answer:
        """Return the cells that the program wrote, ``None`` where it wrote none, and what happened in each run."""
        code, ranges = program_of(text), job.query.facts["ranges"]
        cells: list[Cells | None] = []
        turns = []
        for number, case in enumerate(job.query.facts["cases"], 1):
            found, feedback = self._case(code, case, ranges)
            cells.append(found)
            shown = code if number == 1 else "the same program"
            turns.append({"page": f"workbook {number}", "action": shown, "feedback": feedback, "tool": "python"})
        return Answer(text, {"cells": cells, "turns": turns})

    def _case(self, code: str, case: Case, ranges: tuple[CellRange, ...]) -> tuple[Cells | None, str]:
        ran = run_program(_PRELUDE + code, {"input.xlsx": case.given.read_bytes()}, ("output.xlsx",), self.confines)
        if ran.trouble:
            return None, ran.trouble
        expected = _expected_cells(case, ranges)
        try:
            found = cells_of(ran.outputs["output.xlsx"], ranges, "what it wrote")
        except ArtifactError as error:
            return None, str(error)
        wrong = different(expected, found, self.decimals)
        if not wrong:
            return found, "executed"
        return found, f"{len(wrong)} of {len(expected)} cells are wrong, the first is {wrong[0]}"


@lru_cache(maxsize=256)
def _expected_cells(case: Case, ranges: tuple[CellRange, ...]) -> Cells:
    """Return the right cells of a test.

    Raises:
        ArtifactError: when the workbook cannot be read, or lacks the range.
    """
    return cells_of(case.expected.read_bytes(), ranges, case.expected.name)


def workbooks(config: Config, root: Path) -> Workbench:
    """Return workbook tasks, an LLM that writes programs and a comparison of cells; see docs/skill_alpha.md.

    Raises:
        ConfigError: for an option that is none, or unless ``execute`` is on.
        ArtifactError: for a file that is missing or tasks that cannot be used.
    """
    options = read_options(config.editor.options, KNOWN, WHERE)
    _check(options)
    told = instruction("editor_workbooks", options["language"], seconds=options["seconds"])
    confines = Confines(options["seconds"], options["memory_mb"])
    client = client_of(options["worker"], root / "llm_worker", f"{WHERE}.worker")
    runner = Runner(confines, options["decimals"])
    worker = EndpointWorker(client, WorkerReply(told, runner), ("workbooks", told, _PRELUDE, repr(confines)))
    verifier = CellVerifier(options["decimals"], options["grading"])
    path = existing(Path(), options["path"], f"{WHERE}.path")
    rows = read_tasks(path, options["preview_rows"])
    recorded, skill = (
        existing(Path(), options[name], f"{WHERE}.{name}") if options[name] else None
        for name in ("trajectories", "skill")
    )
    domain = TaskDomain(
        "workbooks",
        {query.id: query for query, _ in rows},
        content_hash([mark for _, mark in rows]),
        Attempts(recorded, ATTEMPTS.path(root), worker, verifier, options["seed"]),
        evidence_limits(config),
        first_skill(skill),
        {query.id: query.facts["instruction"] for query, _ in rows},
        options["per_stream"],
        {name: options[name] for name in SPLIT},
    )
    return Workbench(domain, worker, verifier, (client,))


def read_tasks(path: Path, rows: int) -> list[tuple[Query, str]]:
    """Read every task of a file, and the hash of each with its workbooks.

    Args:
        path: a JSON array, or JSON lines.
        rows: rows of each sheet that a worker is shown.

    Raises:
        ArtifactError: naming the tasks that cannot be used.
    """
    return list(read_rows(path, lambda row: _task(row, path.parent, rows), lambda task: task[0].id).values())


def _task(row: Mapping[str, Any], folder: Path, rows: int) -> tuple[Query, str]:
    if lacking := [name for name in _NEEDED if not str(row.get(name) or "").strip()]:
        raise ValueError(f"{', '.join(lacking)} is missing or empty")
    own, ranges = str(row["id"]), read_ranges(row["answer_position"])
    cases = _cases(existing(folder, row["spreadsheet_path"], "spreadsheet_path"), own)
    shown = preview(cases[0].given.read_bytes(), cases[0].given.name, rows)
    kind = f"\nKind of task: {row['instruction_type']}" if row.get("instruction_type") else ""
    text = f"{row['instruction']}\n{kind}\nCells that are checked: {row['answer_position']}\n\n{shown}"
    facts = {"cases": cases, "ranges": ranges, "instruction": str(row["instruction"])}
    mark = content_hash(dict(row), [[file_hash(case.given), file_hash(case.expected)] for case in cases])
    return Query(own, text, facts), mark


def _cases(folder: Path, own: str) -> tuple[Case, ...]:
    pattern = re.compile(_CASE.format(re.escape(own)))
    numbered = sorted((int(m[1]), file) for file in folder.iterdir() if (m := pattern.fullmatch(file.name)))
    cases = []
    for _, file in numbered:
        old, new = next(pair for pair in _ANSWERS if file.name.endswith(pair[0]))
        cases.append(Case(file, existing(folder, file.name.removesuffix(old) + new, "the answer workbook")))
    if not cases:
        raise ArtifactError(f"{folder} holds no 1_{own}_input.xlsx; every test needs an input and an answer workbook")
    return tuple(cases)


def _check(options: Mapping[str, Any]) -> None:
    if find_spec("openpyxl") is None:
        raise ConfigError("workbooks needs openpyxl; run: pip install 'intraskill[workbooks]'")
    if not options["execute"]:
        raise ConfigError(
            "workbooks runs programs that a model wrote, in a process with limits but in no sandbox; start it in a "
            f"container and set {WHERE}.execute=true"
        )
    if options["grading"] not in GRADINGS:
        raise ConfigError(f"{WHERE}.grading={options['grading']!r} is unknown; choose {', '.join(GRADINGS)}")
    least = {"seconds": 1, "memory_mb": 64, "decimals": 0, "preview_rows": 1, "per_stream": 0}
    if low := [name for name, most in least.items() if options[name] < most]:
        raise ConfigError(f"{WHERE}.{low[0]}={options[low[0]]} is too low; the least is {least[low[0]]}")
