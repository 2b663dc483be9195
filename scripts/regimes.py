"""When co-evolution helps: method and controls where success is common and where it is rare; resumable.

    python scripts/make_tiny_policy.py --unasked-rate 0.01 --out runs/policies/unasked_01    (setting never)
    python scripts/regimes.py [--settings easy rare] [--seeds 0 1 2 3 4] [--arms plain_grpo …] [--runs runs/regimes]

A cell is a setting, an arm and a seed. Every seed has its own world, the same for all arms. A finished cell is not run
again, an interrupted one continues. `plain_grpo_all` spends every rollout that the method spent in the same setting and
seed, gates included, on training; so its cell comes after the method's. Rows go to docs/results/regimes_rounds.csv and
docs/results/regimes_final.csv after each cell.
"""

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

from csv_rows import write_csv

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
RARE_POLICY = ROOT / "runs" / "policies" / "unasked_01"
SETTINGS = {
    "easy": ["env.options.min_rules=0"],
    "rare": ["env.options.min_rules=3"],
    "never": ["env.options.min_rules=3", f"policy.path={RARE_POLICY}"],
}
"""A bare success is common; needs three rules at once; needs three rules that the policy was hardly ever shown."""
ARMS: dict[str, list[str]] = {
    "plain_grpo": ["ablate=plain_grpo"],
    "method": [],
    "plain_grpo_all": ["ablate=plain_grpo"],
    "signal": ["ablate=q_signal"],
    "signal_lean": ["ablate=q_signal", "gate.tasks=128", "grpo.steps_per_round=23"],
    "hint": ["ablate=hint_on_failure", "coldstart.repeats=4"],
}
Row = dict[str, Any]


def main() -> None:
    """Run the cells that are missing, seed by seed, and write the rows of all that are finished."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", nargs="+", choices=SETTINGS, default=["easy", "rare"])
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(5)))
    parser.add_argument("--runs", type=Path, default=ROOT / "runs" / "regimes")
    parser.add_argument("--write-only", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    cells = [(s, a, seed) for s in arguments.settings for seed in arguments.seeds for a in arguments.arms]
    for cell in cells:
        if not arguments.write_only:
            run(arguments.runs, *cell)
        write(arguments.runs)


def directory(runs: Path, setting: str, arm: str, seed: int) -> Path:
    """Return where a cell's run lives."""
    return runs / f"{setting}-{arm}-{seed}"


def run(runs: Path, setting: str, arm: str, seed: int) -> None:
    """Run one cell in a process of its own, or what is left of it."""
    where = directory(runs, setting, arm, seed)
    if (where / "summary.json").exists():
        return
    words = [
        "+exp=quickstart",
        *ARMS[arm],
        *SETTINGS[setting],
        f"seed={seed}",
        f"env.seed={seed}",
        "workers=1",
        f"run_dir={where}",
    ]
    if arm == "plain_grpo_all":
        words.append(f"grpo.steps_per_round={steps_for_all(runs, setting, seed)}")
    where.parent.mkdir(parents=True, exist_ok=True)
    with where.with_suffix(".log").open("a") as log:
        subprocess.run([sys.executable, "-m", "intraskill", "train", *words], check=True, stdout=log, stderr=log)
    print(f"{setting}, {arm}, seed {seed}: done", flush=True)


def steps_for_all(runs: Path, setting: str, seed: int) -> int:
    """Return the steps per round with which plain GRPO spends what the method spent, never less.

    Raises:
        SystemExit: when the method or plain GRPO was not run in this setting and seed.
    """
    totals = {}
    for arm in ("method", "plain_grpo"):
        summary = directory(runs, setting, arm, seed) / "summary.json"
        if not summary.exists():
            raise SystemExit(f"{summary} is missing: run the arms plain_grpo and method of seed {seed} first")
        totals[arm] = json.loads(summary.read_text())
    steps, rounds = 16, len(totals["method"]["rounds"]) - 1
    extra = totals["method"]["tokens"]["rollouts"] - totals["plain_grpo"]["tokens"]["rollouts"]
    per_step = 64
    return steps + math.ceil(extra / (per_step * rounds))


def write(runs: Path) -> None:
    """Write the rows of every finished cell."""
    rounds: list[Row] = []
    final: list[Row] = []
    for path in sorted(runs.glob("*-*-*/summary.json")):
        setting, arm, seed = path.parent.name.rsplit("-", 2)
        summary = json.loads(path.read_text())
        head: Row = {"setting": setting, "arm": arm, "seed": int(seed)}
        rounds += [head | round_row(entry) for entry in summary["rounds"]]
        final += final_rows(head, summary)
    if rounds:
        write_csv(RESULTS / "regimes_rounds.csv", rounds)
        write_csv(RESULTS / "regimes_final.csv", final)


def round_row(entry: Row) -> Row:
    """Return what one round of a cell measured on skill-validation; a run without a skill has no pair."""
    pair = entry["r_pair_interval"] or entry["r_free_interval"]
    return {
        "round": entry["round"],
        "r_free": number(entry["r_free"]),
        "r_free_se": number(entry["r_free_interval"]["se"]),
        "r_pair": number(pair["mean"]),
        "r_pair_se": number(pair["se"]),
        "active": sum(chunk["status"] == "active" for chunk in entry["chunks"]),
        "q": entry["skill_free_prob"],
        "bare_probability": number(entry["bare_probability"]),
    }


def final_rows(head: Row, summary: Row) -> list[Row]:
    """Return one row per closing arm; a run that ends without a skill is its own pair."""
    arms = summary["final"]["arms"]
    spent = {"rollouts": summary["tokens"]["rollouts"], "train_rollouts": summary["answers"]["train"]["rollouts"]}
    wanted = {"start_free": "start_free", "final_free": "final_free", "final_pair": "final_pair"}
    if "final_pair" not in arms:
        wanted["final_pair"] = "final_free"
    return [
        head
        | {"what": what, "mean": number(arms[arm]["mean"]), "se": number(arms[arm]["se"]), "n": arms[arm]["n"]}
        | spent
        for what, arm in wanted.items()
    ]


def number(value: float) -> str:
    """Return a number as rows hold it."""
    return f"{value:.6f}"


if __name__ == "__main__":
    main()
