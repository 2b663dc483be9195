"""Do the gate's 95 % intervals cover the truth, for every estimator, and how wrong are they where the model is wrong?

1,000 gates per cell in the worlds of `gate_worlds`: binary and graded rewards, two correlations of R and B, 100 to
1,600 tasks, balanced masks and replicates; then worlds where chunks interact, where every interval is held against
three meanings of β: the chunk alone against no skill, its mean effect over what else is shown, and the best additive
approximation. Intervals of the coverages: 95 %, over gates.

    python scripts/gate_coverage.py               # → docs/results/gate_coverage.csv, about two minutes on one core
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from gate_simulation import Fits, Laboratory, Model
from gate_worlds import CHUNKS, Array, Layout, World, truths

from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_coverage.csv"
WORLDS = {
    ("binary", "lower"): World(correlation=0.58),
    ("binary", "higher"): World(correlation=0.73, scale=0.5),
    ("graded", "lower"): World(correlation=0.5, grades=4),
    ("graded", "higher"): World(correlation=0.74, grades=4),
}
TASKS = (100, 200, 400, 800, 1600)
DESIGNS = (
    Layout(100, balanced=True),
    Layout(400, balanced=True),
    Layout(400, masked=2),
    Layout(400, masked=2, bare=2),
    Layout(100, masked=2, mirrored=True),
    Layout(400, masked=2, mirrored=True),
    Layout(200, masked=2, balanced=True, mirrored=True),
)
INTERACTIONS = ("pairs", "ceiling", "text")
MODELS = (
    Model("paired_ols"),
    Model("paired_ols_intercept"),
    Model("ancova"),
    Model("masked_ols"),
    Model("covariate", "bare"),
    Model("covariate", "bare", bare=True),
)


@dataclass(frozen=True)
class Cell:
    """One layout in one world."""

    rewards: str
    world: World
    layout: Layout


def cells() -> Iterator[Cell]:
    """Yield every cell of the table."""
    for (rewards, _), world in WORLDS.items():
        for tasks in TASKS:
            yield Cell(rewards, world, Layout(tasks))
    for layout in DESIGNS:
        yield Cell("binary", WORLDS["binary", "higher"], layout)
    for kind in INTERACTIONS:
        for rewards, correlation, tasks in (
            ("binary", "lower", 400),
            ("graded", "higher", 400),
            ("graded", "higher", 1600),
        ):
            yield Cell(rewards, replace(WORLDS[rewards, correlation], kind=kind), Layout(tasks))


def rows_of(cell: Cell, gates: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield one row per estimator and meaning of β."""
    laboratory, layout = Laboratory(cell.world, cell.layout), cell.layout
    fits: dict[Model, list[Fits]] = {model: [] for model in MODELS}
    correlations, sigmas = [], []
    for block in laboratory.blocks(gates, child_seed(seed, layout.tasks, layout.masked)):
        correlations.append([np.corrcoef(*arms)[0, 1] for arms in zip(block.bare_GN, block.masked_GN, strict=True)])
        sigmas.append(np.std(block.masked_GN - block.bare_GN, axis=1))
        for model in MODELS:
            fits[model].append(laboratory.fit(block, model))
    targets = truths(cell.world.kind, cell.world.scale)
    if cell.world.kind == "additive":
        targets = {"truth": targets["marginal"]}
    for model, target in product(MODELS, targets):
        yield {
            "world": cell.world.kind,
            "rewards": cell.rewards,
            "correlation": round(float(np.concatenate(correlations).mean()), 3),
            "sd_difference": round(float(np.concatenate(sigmas).mean()), 3),
            "tasks": layout.tasks,
            "masks": ("balanced" if layout.balanced else "bernoulli") + ", mirrored" * layout.mirrored,
            "masked_per_task": layout.masked,
            "bare_per_task": layout.bare,
            "estimator": model.name,
            "target": target,
            "gates": gates,
        } | against(fits[model], targets[target])


def against(fits: list[Fits], true_J: Array) -> dict[str, object]:
    """Return coverage and bias of fits against one truth."""
    beta_GJ = np.concatenate([found.beta_GJ for found in fits])
    covered_GJ = np.abs(beta_GJ - true_J) <= np.concatenate([found.half_GJ for found in fits])
    share_G, gates = covered_GJ.mean(axis=1), len(beta_GJ)
    half = 1.96 * float(share_G.std(ddof=1)) / gates**0.5
    bias_J = beta_GJ.mean(axis=0) - true_J
    sd = float(np.sqrt(beta_GJ.var(axis=0, ddof=1).mean()))
    variance = [np.einsum("gjj->gj", found.covariance_GJJ).mean(axis=1) for found in fits]
    return {
        "coverage": round(float(share_G.mean()), 4),
        "coverage_low": round(float(share_G.mean()) - half, 4),
        "coverage_high": round(float(share_G.mean()) + half, 4),
        "worst_chunk_coverage": round(float(covered_GJ.mean(axis=0).min()), 4),
        "mean_bias": round(float(bias_J.mean()), 4),
        "largest_bias": round(float(bias_J[np.argmax(np.abs(bias_J))]), 4),
        "bias_noise": round(sd / gates**0.5, 4),
        "sd_beta": round(sd, 4),
        "mean_se": round(float(np.concatenate(variance).mean()) ** 0.5, 4),
    }


def main() -> None:
    """Run, write the table, and print what leaves 93–97 %."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    began, worked = time.perf_counter(), time.process_time()
    rows = [row for cell in cells() for row in rows_of(cell, options.gates, options.seed)]
    write_csv(options.out, rows)
    for row in rows:
        if not 0.93 <= float(str(row["coverage"])) <= 0.97:
            print({name: row[name] for name in ("world", "rewards", "tasks", "estimator", "target", "coverage")})
    took = f"{time.perf_counter() - began:.0f} s ({time.process_time() - worked:.0f} s of CPU)"
    print(f"{len(rows)} rows of {options.gates} gates × {CHUNKS} chunks in {took} → {options.out}")


if __name__ == "__main__":
    main()
