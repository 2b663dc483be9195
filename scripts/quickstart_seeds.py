"""Run the quickstart and plain GRPO from the same start over several seeds; write experiment_report.md and its rows.

    python scripts/quickstart_seeds.py [--seeds 0 1 2] [--runs runs/seeds] [--jobs 1] [--write-only]

A finished run is not repeated. The rows go to docs/results/quickstart_*.csv, the figure to docs/results/quickstart.png;
every number of the report is read from them.
"""

import argparse
import csv
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import report_text

from intraskill.method.rollouts import Rollout
from intraskill.rounds.arms import read_rollouts, task_means, task_success
from intraskill.rounds.evaluate import paired_interval

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
EXPERIMENTS = {"method": "quickstart", "plain GRPO": "plain_grpo"}
ARMS = ("final_free", "final_pair")
MEASURES = {"reward": task_means, "success": task_success}
Row = dict[str, Any]


def main() -> None:
    """Run what is missing, then write rows, figure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "seeds")
    parser.add_argument("--jobs", type=int, default=1, help="runs side by side, two cores each")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    wanted = [(name, seed) for seed in arguments.seeds for name in EXPERIMENTS]
    if not arguments.write_only:
        with ThreadPoolExecutor(arguments.jobs) as pool:
            list(pool.map(lambda job: run(arguments.runs, *job), wanted))
    summaries = {job: json.loads((directory(arguments.runs, *job) / "summary.json").read_text()) for job in wanted}
    tables = {"rounds": rounds(summaries), "chunks": chunks(summaries), "final": final(summaries)}
    tables["final"] += [
        versus(arguments.runs, seed, measure, arm) for arm in ARMS for seed in arguments.seeds for measure in MEASURES
    ]
    tables["tasks"] = [row for job in wanted for row in task_rows(arguments.runs, *job)]
    for name, rows in tables.items():
        write_rows(RESULTS / f"quickstart_{name}.csv", rows)
    report_text.draw(tables["rounds"], RESULTS / "quickstart.png")
    (ROOT / "experiment_report.md").write_text(report_text.write(tables, summaries))


def directory(runs: Path, name: str, seed: int) -> Path:
    """Return where one run lives."""
    return runs / f"{EXPERIMENTS[name]}_{seed}"


def run(runs: Path, name: str, seed: int) -> None:
    """Run one experiment, or continue it, in a process of its own."""
    where = directory(runs, name, seed)
    where.parent.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "intraskill", "train", f"+exp={EXPERIMENTS[name]}", f"seed={seed}"]
    with (runs / f"{where.name}.log").open("w") as log:
        subprocess.run([*command, f"run_dir={where}"], check=True, stdout=log, stderr=subprocess.STDOUT)
    print(f"{name}, seed {seed}: done", flush=True)


def rounds(summaries: Mapping[tuple[str, int], Row]) -> list[Row]:
    """One row per run and round."""
    rows = []
    for (name, seed), summary in summaries.items():
        for entry in summary["rounds"]:
            row: Row = {"condition": name, "seed": seed, "round": entry["round"], "q": entry["skill_free_prob"]}
            for key in ("r_free_interval", "r_pair_interval", "gap"):
                label = key.removesuffix("_interval")
                row |= {f"{label}_{part}": entry[key][part] for part in ("mean", "se", "low", "high", "n")}
            rows.append(row | entry["frontier"] | {f"edits_{key}": value for key, value in entry["edits"].items()})
    return rows


def chunks(summaries: Mapping[tuple[str, int], Row]) -> list[Row]:
    """One row per run, round and chunk of the pool."""
    return [
        {"condition": name, "seed": seed, "round": entry["round"], **chunk}
        for (name, seed), summary in summaries.items()
        for entry in summary["rounds"]
        for chunk in entry["chunks"]
    ]


def final(summaries: Mapping[tuple[str, int], Row]) -> list[Row]:
    """One row per run, arm or comparison, and measure."""
    rows = []
    for (name, seed), summary in summaries.items():
        closing = summary["final"]
        for arm in closing["arms"]:
            for measure, source in (("reward", "arms"), ("success", "success")):
                rows.append({"condition": name, "seed": seed, "what": arm, "measure": measure, **closing[source][arm]})
        for what, found in closing["comparisons"].items():
            for measure in ("reward", "success"):
                rows.append({"condition": name, "seed": seed, "what": what, "measure": measure, **found[measure]})
    return rows


def arm_rollouts(runs: Path, name: str, seed: int, arm: str) -> tuple[Rollout, ...]:
    """Return the rollouts of a final arm; a run that ends without a skill has one arm for both."""
    final = directory(runs, name, seed) / "final"
    path = final / f"{arm}.jsonl"
    return read_rollouts(path if path.exists() else final / "final_free.jsonl")


def versus(runs: Path, seed: int, measure: str, arm: str) -> Row:
    """Return the difference of the two conditions at the end in one arm, paired over the same test tasks."""
    after, before = (MEASURES[measure](arm_rollouts(runs, name, seed, arm)) for name in EXPERIMENTS)
    difference = paired_interval(before, after)
    return {
        "condition": "both", "seed": seed, "what": f"{arm}, method - plain GRPO", "measure": measure,
        **{part: getattr(difference, part) for part in ("mean", "low", "high", "se", "n")},
    }  # fmt: skip


def task_rows(runs: Path, name: str, seed: int) -> list[Row]:
    """Return reward and success of every task of the two final arms of a run."""
    rows = []
    for arm in ARMS:
        rollouts = arm_rollouts(runs, name, seed, arm)
        rewards, successes = task_means(rollouts), task_success(rollouts)
        rows += [
            {"condition": name, "seed": seed, "arm": arm, "task": task, "reward": reward, "success": successes[task]}
            for task, reward in sorted(rewards.items())
        ]
    return rows


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Write a CSV with all keys of its first row; numbers keep six digits."""
    rows = list(rows)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{value:.6g}" if isinstance(value, float) else value for key, value in row.items()})


if __name__ == "__main__":
    main()
