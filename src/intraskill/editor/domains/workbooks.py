"""Workbook tasks: a worker writes a program, the program runs on every test workbook, cells are compared.

In the form of SpreadsheetBench. Nothing runs unless ``execute`` is on; what is run and how is in
`intraskill.editor.execution`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from intraskill.config import Config
from intraskill.editor.assembly import evidence_limits
from intraskill.editor.domain import Answer, Job, Query, Workbench
from intraskill.editor.domains.task_streams import SPLIT, Attempts, TaskDomain, first_skill
from intraskill.editor.domains.workbooks_cells import CellRange, Cells, cells_of, different, preview, read_ranges
from intraskill.editor.execution import Confines, program_of, run_program
from intraskill.editor.judges import GRADINGS
from intraskill.editor.workers import EndpointWorker, Reply
from intraskill.editor.workers_options import client_of, existing, instruction, read_options, read_rows
from intraskill.method.errors import ArtifactError, ConfigError
from intraskill.method.randomness import content_hash
from intraskill.runtime.run_directory import file_hash

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
NEEDED = ("id", "instruction", "spreadsheet_path", "answer_position")
PRELUDE = "INPUT, OUTPUT = 'input.xlsx', 'output.xlsx'\n"
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
            cells is not None and not different(expected_cells(case, query.facts["ranges"]), cells, self.decimals)
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
        ran = run_program(PRELUDE + code, {"input.xlsx": case.given.read_bytes()}, ("output.xlsx",), self.confines)
        if ran.trouble:
            return None, ran.trouble
        expected = expected_cells(case, ranges)
        try:
            found = cells_of(ran.outputs["output.xlsx"], ranges, "what it wrote")
        except ArtifactError as error:
            return None, str(error)
        wrong = different(expected, found, self.decimals)
        if not wrong:
            return found, "executed"
        return found, f"{len(wrong)} of {len(expected)} cells are wrong, the first is {wrong[0]}"


@lru_cache(maxsize=256)
def expected_cells(case: Case, ranges: tuple[CellRange, ...]) -> Cells:
    """Return the right cells of a test.

    Raises:
        ArtifactError: when the workbook cannot be read, or lacks the range.
    """
    return cells_of(case.expected.read_bytes(), ranges, case.expected.name)


def workbooks(config: Config, root: Path) -> Workbench:
    """Return workbook tasks, an LLM that writes programs and a comparison of cells; see docs/editor_domains.md.

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
    worker = EndpointWorker(client, Reply(told, runner), ("workbooks", told, PRELUDE, repr(confines)))
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
        Attempts(recorded, root / "attempts.jsonl", worker, verifier, options["seed"]),
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
    if lacking := [name for name in NEEDED if not str(row.get(name) or "").strip()]:
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
