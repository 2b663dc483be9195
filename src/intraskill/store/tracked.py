"""The names under which trackers keep a run's numbers, and where each stands on the axis of training steps.

Names are ``train/…`` for training, ``<stage>/…`` for every other stage, such as ``bare/reward``, ``gate/r_free``,
``gate/r_pair`` and ``gate/gap`` with their ends, and ``chunk/<title>/beta``.
"""

from collections.abc import Mapping
from typing import Any


def numbers_of(row: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of one line of ``metrics.jsonl``."""
    stage = str(row["stage"])
    numbers = {key: value for key, value in row.items() if "/" in key and isinstance(value, int | float)}
    return numbers if stage == "train" else {k.replace("eval/", f"{stage}/", 1): v for k, v in numbers.items()}


def gate_numbers(row: Mapping[str, Any]) -> dict[str, float]:
    """Return what a gate measured: ``row`` is a finished round's line of ``summary.json``."""
    values: dict[str, float] = {}
    for name, key in (("r_free", "r_free_interval"), ("r_pair", "r_pair_interval"), ("gap", "gap")):
        interval = row.get(key) or {}
        values |= {f"gate/{name}": interval["mean"]} if interval else {}
        values |= {f"gate/{name}_{end}": interval[end] for end in ("low", "high") if interval}
    for chunk in row["chunks"]:
        title = chunk["title"].replace("/", " ")
        numbers = {name: chunk.get(name) for name in ("beta", "se", "exposure")}
        values |= {f"chunk/{title}/{name}": value for name, value in numbers.items() if value is not None}
    return values


def step_of(row: Mapping[str, Any], steps_per_round: int) -> int:
    """Return the training steps since the start when a line was measured: of metrics, or of a finished round.

    Round 0 has no training. Every stage but training stands at the end of its round's.
    """
    round_index = int(row["round"])
    done = int(row["step"]) + 1 if row.get("stage") == "train" else steps_per_round * (round_index > 0)
    return max(0, round_index - 1) * steps_per_round + done
