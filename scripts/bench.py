"""Measure every speed that the documents state, side by side, and print one table.

python scripts/bench.py [--only update step rollout env startup gate] [--table]

Runs the scripts bench_*.py of the parts, about ten minutes on one idle core; each writes its rows into
docs/results. The table and docs/results/bench.json are computed from these rows alone; ``--table`` measures nothing
and only reads them. `bench_head.py` takes half an hour more and is run on its own.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import NamedTuple

HERE = Path(__file__).parent
RESULTS = HERE.parent / "docs" / "results"
COMMANDS = {
    "update": [["bench_update.py"]],
    "step": [["bench_step_vs_trl.py"]],
    "rollout": [["bench_rollout.py"]],
    "env": [["bench_env.py"]],
    "startup": [["bench_startup.py"]],
    "gate": [["bench_gate_fit.py"]],
}
Rows = list[dict[str, str]]


class Line(NamedTuple):
    """One line of the table: its key in bench.json or nothing, its words, median, spread, goal and limit."""

    key: str
    what: str
    value: float
    low: float
    high: float
    goal: str
    limit: str


def rows_of(name: str) -> Rows:
    """Return the rows of one part; none where it was never measured."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def shapes(rows: Rows) -> dict[str, Rows]:
    """Split rows by shape."""
    found: dict[str, Rows] = {}
    for row in rows:
        found.setdefault(row["shape"], []).append(row)
    return found


def values(rows: Rows, variant: str, column: str = "cpu_s") -> list[float]:
    """Return one column of a variant, by repeat."""
    return [float(row[column]) for row in rows if row["variant"] == variant]


def ratio(key: str, what: str, rows: Rows, slow: str, fast: str, goal: str, limits: Mapping[str, str]) -> Line:
    """Return the ratio of two variants' medians; its spread is that of the repeats, which ran in turns."""
    slows, fasts = values(rows, slow), values(rows, fast)
    each = [a / b for a, b in zip(slows, fasts, strict=True)]
    limit = ", ".join(f"{float(rows[0][column]):.2f} by {word}" for column, word in limits.items())
    return Line(key, what, median(slows) / median(fasts), min(each), max(each), goal, limit)


def plain(key: str, what: str, found: list[float], goal: str = "", limit: str = "") -> Line:
    """Return a line of plain values."""
    return Line(key, what, median(found), min(found), max(found), goal, limit)


def lines() -> Iterator[Line]:
    """Compute the table from the rows."""
    for shape, rows in shapes(rows_of("bench_update")).items():
        main = shape == "700x150x8"
        limits = {"limit_tokens": "tokens", "limit_flops": "operations"}
        dense = {"dense_one_by_one": "one by one", "dense": "in one batch"}
        fastest = min(dense, key=lambda name: median(values(rows, name)))
        for name, words in dense.items():
            # The published ratio is the one against the best that one can do without sharing.
            key, goal = ("update_shared_prefix", ">= 3.0") if main and name == fastest else ("", "")
            yield ratio(key, f"update, prefix / dense {words}, {shape}", rows, name, "prefix", goal, limits)
            peaks = [median(values(rows, layout, "peak_mib")) for layout in (name, "prefix")]
            gain = peaks[0] / peaks[1]
            yield Line("", f"  peak memory, {peaks[0]:.0f} / {peaks[1]:.0f} MiB", gain, gain, gain, "", "")
    for shape, rows in shapes(rows_of("bench_step_vs_trl")).items():
        key, goal = ("step_vs_trl", ">= 2.5") if shape.split("x")[1] == "1" else ("", "")
        limits = {"limit_tokens": "tokens"}
        yield ratio(key, f"GRPO step, TRL / ours, {shape}", rows, "trl", "intraskill", goal, limits)
    for shape, rows in shapes(rows_of("bench_rollout")).items():
        main = shape == "700x8x16x120x8"
        key, goal = ("rollout_vs_reprefill", ">= 4.0") if main else ("", "")
        limits = {"limit_tokens": "tokens", "limit_cost": "measured cost"}
        yield ratio(key, f"rollout, generate / cache kept, {shape}", rows, "generate_again", "cache_kept", goal, limits)
    found = rows_of("bench_env")
    for preset in dict.fromkeys(row["variant"] for row in found):
        yield plain(f"env_steps_{preset}", f"shop steps/s, {preset}", values(found, preset, "steps_per_s"))
    found = rows_of("bench_startup")
    for name in dict.fromkeys(row["variant"] for row in found if row["variant"] != "nothing"):
        floor = f"{median(values(found, 'nothing', 'wall_s')):.2f} Python alone"
        key = "help_seconds" if name == "intraskill --help" else ""
        yield plain(key, f"{name}, s", values(found, name, "wall_s"), limit=floor)
    found = rows_of("bench_gate_fit")
    for covariance in dict.fromkeys(row["covariance"] for row in found):
        rows = [row for row in found if row["covariance"] == covariance]
        size = f"{rows[0]['pairs']} x {rows[0]['chunks']}"
        beside = f"{median(values(rows, 'svd_alone')):.3f} the decomposition"
        key = "gate_fit_seconds" if covariance == "HC3" else ""
        yield plain(key, f"gate fit {size}, {covariance}, s", values(rows, "intraskill"), limit=beside)
        what = f"  statsmodels {rows[0]['statsmodels_covariance']}, s"
        yield plain("", what, values(rows, "statsmodels"))


def rounded(line: Line) -> float:
    """Return a value as bench.json holds it: whole steps, hundredths of ratios, thousandths of seconds."""
    return round(line.value) if line.value > 100 else round(line.value, 3 if line.key.endswith("_seconds") else 2)


def figures() -> dict[str, float]:
    """Return what bench.json holds, from the rows alone."""
    return {line.key: rounded(line) for line in lines() if line.key}


def main() -> None:
    """Measure what was asked for, then print the table and write bench.json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=tuple(COMMANDS), default=list(COMMANDS))
    parser.add_argument("--table", action="store_true", help="measure nothing")
    arguments = parser.parse_args()
    for part in [] if arguments.table else arguments.only:
        for command in COMMANDS[part]:
            subprocess.run([sys.executable, HERE / command[0], *command[1:]], check=True)
    print(f"{'what':<58}{'median':>9}  {'lowest to highest':<20}{'goal':<8}limit")
    for line in lines():
        digits = 0 if line.value > 100 else 3 if line.what.endswith(", s") else 2
        spread = f"{line.low:.{digits}f} to {line.high:.{digits}f}"
        print(f"{line.what:<58}{line.value:>9.{digits}f}  {spread:<20}{line.goal:<8}{line.limit}")
    partial = RESULTS / f"bench.{os.getpid()}"
    partial.write_text(json.dumps(figures(), indent=1, sort_keys=True) + "\n")
    os.replace(partial, RESULTS / "bench.json")


if __name__ == "__main__":
    main()
