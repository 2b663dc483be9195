"""``benchmark.json``: what the skill changes in pass rate, time and tokens, in the shape that skill tools show.

Every number comes from rollouts on disk: the closing comparison of a run, or two evaluations of one panel. What was not
measured is ``null``.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from intraskill.evaluate import MODES, Evaluation, read_evaluation
from intraskill.runtime.run_directory import is_sealed, read_json, read_jsonl, verify, write_json
from intraskill.runtime.tracking import Metrics

BENCHMARK_FILE = "benchmark.json"
MEASURES = ("pass_rate", "time_seconds", "tokens")
NOTES = (
    "pass_rate: share of full successes; mean and standard deviation over rollouts.",
    "time_seconds: wall-clock time of the arm over its rollouts, which ran side by side in batches; none is timed "
    "alone, so there is no deviation.",
    "tokens: prompt and sampled tokens of a rollout; with the skill its prompt holds the skill.",
    "delta: with_skill minus without_skill; for intervals see the evaluation itself.",
)

Row = Mapping[str, Any]


def arm_summary(rows: Sequence[Row], metrics: Row | None) -> dict[str, Any]:
    """Return one arm's statistics.

    Args:
        rows: its rollouts as written to disk; faults do not count.
        metrics: its line of ``metrics.jsonl``, for the time.
    """
    scored = [row for row in rows if row["reward"] is not None]
    success = [float(row["parts"].get("r_success", float(row["reward"] >= 1.0))) for row in scored]
    tokens = [float(row["sampled_tokens"] + row["prompt_tokens"]) for row in scored]
    speed = (metrics or {}).get("eval/tokens_per_s")  # per second of the process that sampled: also right after a kill
    sampled = [row["sampled_tokens"] for row in rows]
    seconds = fmean(sampled) / speed if speed and sampled else None
    time = {"mean": None if seconds is None else round(seconds, 6), "stddev": None}
    return {"pass_rate": _spread(success), "time_seconds": time, "tokens": _spread(tokens)}


def benchmark(with_skill: Row, without_skill: Row, about: Row) -> dict[str, Any]:
    """Return the content of ``benchmark.json`` from both arms' statistics."""
    means = {name: (with_skill[name]["mean"], without_skill[name]["mean"]) for name in MEASURES}
    delta = {name: None if None in pair else round(pair[0] - pair[1], 6) for name, pair in means.items()}
    summary = {"with_skill": with_skill, "without_skill": without_skill, "delta": delta}
    return {"metadata": dict(about), "run_summary": summary, "notes": list(NOTES)}


def of_final(root: Path, round_index: int) -> dict[str, Any] | None:
    """Return the benchmark of a run's final pair from its closing comparison; ``None`` without one."""
    directory = root / "final"
    if not (is_sealed(directory) and (directory / "final_pair.jsonl").exists()):
        return None
    verify(directory)
    report, metrics = read_json(directory / "final.json"), Metrics(root / "metrics.jsonl").rows()
    arms = {
        name: arm_summary(read_jsonl(directory / f"{name}.jsonl"), _line(metrics, name, round_index))
        for name in ("final_pair", "final_free")
    }
    about = {name: report[name] for name in ("split", "tasks", "repeats")}
    return benchmark(arms["final_pair"], arms["final_free"], {"source": "closing comparison", **about})


def of_evaluations(augmented: Path, free: Path) -> dict[str, Any]:
    """Return the benchmark of two evaluations of one checkpoint on one panel, from their directories."""
    found = read_evaluation(augmented)
    arms = [
        arm_summary(read_jsonl(path / "rollouts.jsonl"), _line(Metrics(path / "metrics.jsonl").rows(), "rollouts", 0))
        for path in (augmented, free)
    ]
    about = {"split": found.split, "tasks": len(found.rewards), "repeats": found.repeats}
    hashes = {"checkpoint": found.checkpoint, "skill": found.skill}
    return benchmark(arms[0], arms[1], {"source": "evaluation", **about, **hashes})


def write_benchmarks(root: Path, found: Evaluation) -> list[Path]:
    """Write ``benchmark.json`` into every augmented evaluation under ``root`` that now has its bare arm beside it.

    Args:
        root: where the evaluations of a run lie.
        found: the evaluation just made; only pairs that it is a part of are looked at.
    """
    there = {path.parent: read_evaluation(path) for path in sorted(root.glob("*/eval.json"))}
    alike = {
        path: other
        for path, other in there.items()
        if other.panel == found.panel and other.checkpoint == found.checkpoint
    }
    written = []
    for augmented, skill in alike.items():
        if skill.mode != MODES[1]:
            continue
        # The end of a directory's name tells the seed; both arms are compared under the same one.
        free = [
            path
            for path, other in alike.items()
            if other.mode == MODES[0] and path.name.rpartition("-")[2] == augmented.name.rpartition("-")[2]
        ]
        if free and found.name in (skill.name, alike[free[0]].name):
            write_json(augmented / BENCHMARK_FILE, of_evaluations(augmented, free[0]))
            written.append(augmented / BENCHMARK_FILE)
    return written


def find_benchmark(root: Path, round_index: int, *, last: bool, pair: tuple[str, str]) -> dict[str, Any] | None:
    """Return the benchmark of a pair: of the closing comparison, else of the largest evaluation that has both arms.

    Args:
        root: the run.
        round_index: the pair's round.
        last: whether that is the run's last round, which the closing comparison is about.
        pair: hashes of checkpoint and skill.
    """
    if last and (found := of_final(root, round_index)):
        return found
    files = [read_json(path) for path in sorted(root.glob(f"evals/*/{BENCHMARK_FILE}"))]
    fitting = [row for row in files if (row["metadata"]["checkpoint"], row["metadata"]["skill"]) == pair]
    return max(fitting, key=lambda row: row["metadata"]["tasks"] * row["metadata"]["repeats"], default=None)


def _line(rows: Sequence[Row], stage: str, round_index: int) -> Row | None:
    found = [row for row in rows if row["stage"] == stage and row["round"] == round_index]
    return found[-1] if found else None


def _spread(values: Sequence[float]) -> dict[str, float | None]:
    return {
        "mean": round(fmean(values), 6) if values else None,
        "stddev": round(stdev(values), 6) if len(values) > 1 else None,
    }
