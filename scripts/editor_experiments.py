"""Train the tiny editor of Skill-α under every ablation and control, and compare on held-out worlds.

    python scripts/editor_experiments.py [--seeds 0 1 2] [--only full plain] [--steps N] [--jobs 1] [--domain planted]
    python scripts/editor_experiments.py --write-only     # write what is finished, run nothing

A finished (condition, seed) is not run again, a killed one goes on. What is finished is written, whichever part of it
was asked for. Raw rows go to docs/results/editor_DOMAIN.csv, one
per condition, seed and held-out world; means and differences to editor_DOMAIN_summary.csv beside it, and the table to
docs/research/editor_results.md. Further words are overrides of every run, such as ``grpo.lr=1e-4``.
"""

import argparse
import csv
import multiprocessing
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import editor_summary
from csv_rows import write_csv
from editor_conditions import FULL, Condition, Grid, conditions, finished_rows, run_one

from intraskill.method.errors import ConfigError, IntraSkillError

ROOT = Path(__file__).parents[1]
STEPS = 60
"""A step takes about 1 s of one core, two evaluations 8 s: three quarters of an hour for the whole planted grid."""
WORLDS = {"planted": 32, "shop": 24}
"""Held-out streams by domain."""
Job = tuple[Condition, int]
Row = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what is missing, then write rows, summary and table; 1 when a run failed."""
    options = _options(arguments)
    base = ("+exp=editor_tiny", f"editor.domain={options.domain}", f"editor.steps={options.steps}", *FULL)
    grid = Grid(options.runs / options.domain, (*base, *options.overrides), options.worlds or WORLDS[options.domain])
    try:
        if options.domain != "planted" and grid.config().policy.path == "tiny_editor":
            raise ConfigError(
                f"the shipped tiny_editor knows no word of --domain {options.domain}, so the table would say nothing; "
                "give policy.path=DIR, weights of intraskill editor sft in that domain"
            )
        every = conditions(options.domain, grid.config().editor.batch)
        wanted = [(one, seed) for seed in options.seeds for one in _chosen(every, options.only)]
        identity = grid.identity()
        found = {job: finished_rows(grid, *job, identity) for job in wanted}
        missing = [job for job, rows in found.items() if rows is None]
        failed = 0 if options.write_only else _run(grid, missing, identity, options.jobs)
        written = [(one, seed) for one in every for seed in _seeds(grid, one)]
        rows = [row for job in written for row in finished_rows(grid, *job, identity) or []]
        if not rows:
            raise ConfigError(f"no run of {grid.runs} is finished, so there is nothing to write")
    except IntraSkillError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    _write(options.docs, options.domain, rows, every)
    if options.write_only and missing:
        print(f"Not finished: {', '.join(f'{one.name} {seed}' for one, seed in missing)}")
    return int(failed > 0)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("overrides", nargs="*", help="overrides of every run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="conditions, by name")
    parser.add_argument("--steps", type=int, default=STEPS, help="optimizer steps of every trained condition")
    parser.add_argument("--worlds", type=int, help=f"held-out worlds (default: {WORLDS})")
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side, one thread each")
    parser.add_argument("--domain", choices=WORLDS, default="planted")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "editor_experiments")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs", help="where rows and tables go")
    options = parser.parse_intermixed_args(arguments)
    for name in ("worlds", "jobs"):
        if (number := getattr(options, name)) is not None and number < 1:
            parser.error(f"--{name}={number} must be 1 or more")
    return options


def _chosen(every: Sequence[Condition], only: Sequence[str]) -> list[Condition]:
    names = [one.name for one in every]
    if unknown := [name for name in only if name not in names]:
        raise ConfigError(f"there is no condition {unknown[0]!r} here; choose from {', '.join(names)}")
    return [one for one in every if not only or one.name in only]


def _seeds(grid: Grid, condition: Condition) -> list[int]:
    """Return the seeds of all runs of a condition that are finished, asked for this time or not."""
    found = [path.parent.name.removeprefix(f"{condition.name}_") for path in grid.runs.glob("*/rows.json")]
    return sorted(int(seed) for seed in found if seed.isdecimal())


def _run(grid: Grid, jobs: Sequence[Job], identity: str, processes: int) -> int:
    """Run jobs, say how each ended, and return how many failed; a failure stops no other job."""
    failed = 0
    for number, (job, end) in enumerate(_ends(grid, jobs, identity, processes), start=1):
        failed += isinstance(end, Exception)
        said = f"failed: {end}" if isinstance(end, Exception) else f"{end:.0f} s"
        print(f"[{number}/{len(jobs)}] {job[0].name}, seed {job[1]}: {said}", flush=True)
    return failed


def _ends(grid: Grid, jobs: Sequence[Job], identity: str, processes: int) -> Iterator[tuple[Job, float | Exception]]:
    """Yield every job with the seconds it took, or with what stopped it; one process at a time is this one."""
    if processes == 1:
        for job in jobs:
            try:
                yield job, run_one(grid, *job, identity)
            except IntraSkillError as error:
                yield job, error
        return
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures = {pool.submit(run_one, grid, *job, identity): job for job in jobs}
        for future in as_completed(futures):
            error = future.exception()
            if error is not None and not isinstance(error, IntraSkillError):
                pool.shutdown(cancel_futures=True)
                raise error
            yield futures[future], error or future.result()


def _write(docs: Path, domain: str, rows: Sequence[Row], every: Sequence[Condition]) -> None:
    """Write raw rows, the summary, and the document with one section per domain that has rows; print the findings."""
    results = docs / "results"
    results.mkdir(parents=True, exist_ok=True)
    write_csv(results / f"editor_{domain}.csv", [{key: _short(value) for key, value in row.items()} for row in rows])
    summary = editor_summary.summarise(rows, every)
    write_csv(results / f"editor_{domain}_summary.csv", summary)
    sections = [editor_summary.markdown(name, *_known(results, name)) for name in WORLDS if _has(results, name)]
    head = (
        "# What the editor's controls say\n\nWritten by `python scripts/editor_experiments.py`; means and paired "
        "differences come from\n`docs/results/editor_*_summary.csv`, raw rows lie beside them. The interval is over "
        "held-out worlds;\na difference is bold where the one over seeds excludes 0 too.\n\n"
    )
    document = docs / "research" / "editor_results.md"
    document.parent.mkdir(exist_ok=True)
    document.write_text(head + "\n".join(sections), encoding="utf-8")
    print(document.read_text(encoding="utf-8"))


def _has(results: Path, domain: str) -> bool:
    return (results / f"editor_{domain}_summary.csv").exists()


def _known(results: Path, domain: str) -> tuple[list[Row], Row]:
    """Return a domain's summary and a row of ``full``, or of a line that reads alike, from its files."""
    summary, rows = (_read(results / f"editor_{domain}{end}.csv") for end in ("_summary", ""))
    of_full = [row for row in rows if row["condition"] in ("full", "sft", "z0")]
    return summary, (of_full or rows)[0]


def _read(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return [{key: _parsed(text) for key, text in row.items()} for row in csv.DictReader(file)]


def _parsed(text: str) -> float | int | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _short(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else value


if __name__ == "__main__":
    sys.exit(main())
