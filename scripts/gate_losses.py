"""What do wrong decisions cost, and how few rollouts reach the published gate's loss with a more careful rule?

Loss of a gate: the reward by which its skill falls short of the best one, when carrying a chunk costs 0.01 reward
(its tokens, and the exposure it takes from others): Σ over the chunks worth carrying of (β − 0.01), less the same sum
over the chunks admitted. Admitting a useless chunk so costs 0.01, refusing one of β = 0.05 costs 0.04. Every chunk is a
candidate. ``carry-over``: two earlier gates of the same size are remembered, when β was the same or 1.5 times as large.
Rollouts for the published loss are read off log-linear interpolation over the sizes; intervals: 95 %, gates redrawn
from the normal law of the mean losses.

    python scripts/gate_losses.py                 # → docs/results/gate_losses.csv, about two minutes on one core
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from gate_savings import ANCOVA, GOALS, MASKED, PAIRED, TASKS, WORLDS, history, verdict
from gate_simulation import Fits, Laboratory, Model
from gate_worlds import CHUNKS, Array, Layout, World, truths

from intraskill.method.gate.judges import discoveries, one_sided_p
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import FdrRule, ProbabilityRule
from intraskill.method.gate.shrinkage import carry_over, shrink
from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_losses.csv"
PRICE = 0.01
SIZES = (50, 100, 200, 400, 800)
PUBLISHED = SIZES.index(TASKS)
DRAWS = 400
ROUNDS_AGO = {"carry-over, β the same": 1.0, "carry-over, β was 1.5 times": 1.5}
MODELS = {
    "paired_ols": PAIRED,
    "ancova": ANCOVA,
    "H": history("masked", 4),
    "B and H": history("bare", 4, bare=True),
    "mirrored": MASKED,
}
POLICIES = ("positive_topk", "fdr", "probability", *ROUNDS_AGO)
NAMES = tuple(f"chunk-{j:02d}" for j in range(CHUNKS))
Kept = np.ndarray[tuple[int, int], np.dtype[np.bool_]]


def measure(world: World, tasks: int, gates: int, seed: int) -> dict[str, list[Fits]]:
    """Return the fits of every model; the mirrored gate runs half of the tasks twice."""
    laboratory = Laboratory(world, Layout(tasks), masked_history=True)
    mirror = Laboratory(world, Layout(tasks // 2, masked=2, mirrored=True))
    found: dict[str, list[Fits]] = {name: [] for name in MODELS}
    for place in (laboratory, mirror):
        for block in place.blocks(gates, child_seed(seed, tasks)):
            for name, model in MODELS.items():
                if (name == "mirrored") == (place is mirror):
                    found[name].append(place.fit(block, model))
    return found


def contributions(fits: list[Fits]) -> Iterator[Contributions]:
    """Yield the record of every gate, as far as a policy reads it."""
    none = np.zeros(CHUNKS)
    for block in fits:
        for beta_J, half_J, covariance_JJ in zip(block.beta_GJ, block.half_GJ, block.covariance_GJJ, strict=True):
            yield Contributions(
                NAMES,
                beta_J,
                np.sqrt(np.diag(covariance_JJ)),
                beta_J - half_J,
                beta_J + half_J,
                block.degrees + CHUNKS,
                none.astype(np.int64),
                1.0,
                CHUNKS,
                1.0,
                0.0,
                degrees=block.degrees,
                covariance_JJ=covariance_JJ,
            )


def admitted(policy: str, now: list[Contributions], before: list[list[Contributions]]) -> Kept:
    """Return which candidates enter, (G, J).

    Args:
        policy: one of `POLICIES`.
        now: the gates.
        before: for each of two earlier rounds, oldest first, as many gates.
    """
    if policy == "positive_topk":
        return np.array([found.beta_J > 0.0 for found in now])
    if policy == "fdr":
        p = [one_sided_p(found.beta_J[None], found.se_J, found.degrees) for found in now]
        return np.concatenate([discoveries(p_RJ, FdrRule(CHUNKS).rate) for p_RJ in p])
    rule = ProbabilityRule(CHUNKS)
    told = [carry_over(rounds, rule.discount) for rounds in zip(*before, strict=True)] if before else [None] * len(now)
    return np.array([shrink(f, t).probability_J >= rule.admit for f, t in zip(now, told, strict=True)])


def losses(kept_GJ: Kept, true_J: Array) -> Array:
    """Return the loss of every gate, (G,)."""
    worth_J = true_J - PRICE
    return np.asarray(np.maximum(worth_J, 0.0).sum() - kept_GJ @ worth_J)


def rows_of(name: str, world: World, gates: int, seed: int) -> list[dict[str, object]]:
    """Return one row per model, policy and size."""
    true_J = truths(world.kind, world.scale)["marginal"]
    rows: list[dict[str, object]] = []
    for tasks in SIZES:
        now = measure(world, tasks, gates, seed)
        earlier = {
            policy: [measure(replace(world, scale=grown * world.scale), tasks, gates, seed + back) for back in (2, 1)]
            for policy, grown in ROUNDS_AGO.items()
        }
        for estimator, policy in ((e, p) for e in MODELS for p in POLICIES):
            before = [list(contributions(found[estimator])) for found in earlier.get(policy, [])]
            kept_GJ = admitted(policy, list(contributions(now[estimator])), before)
            loss_G = losses(kept_GJ, true_J)
            row: dict[str, object] = {"world": name, "estimator": estimator, "policy": policy, "tasks": tasks}
            row |= {"gates": gates, "loss": round(float(loss_G.mean()), 5)}
            row |= {"loss_se": round(float(loss_G.std(ddof=1)) / gates**0.5, 5)}
            row |= {"useless_in": round(float(kept_GJ[:, true_J == 0].mean()), 4)}
            row |= {"harmful_in": round(float(kept_GJ[:, true_J < 0].mean()), 4)}
            rows.append(row | {"useful_out": round(1.0 - float(kept_GJ[:, true_J > 0].mean()), 4)})
    return with_rollouts(rows, seed)


def with_rollouts(rows: list[dict[str, object]], seed: int) -> list[dict[str, object]]:
    """Add, to every row, its pair's rollouts for the published loss in both accountings."""
    rng = np.random.Generator(np.random.PCG64(child_seed(seed, "losses")))
    curves = {
        (e, p): np.array([curve(r) for r in rows if (r["estimator"], r["policy"]) == (e, p)])
        for e in MODELS
        for p in POLICIES
    }
    goal = curves["paired_ols", "positive_topk"][PUBLISHED]
    for row in rows:
        curve_S2 = curves[str(row["estimator"]), str(row["policy"])]
        model: Model = MODELS[str(row["estimator"])]
        published = (row["estimator"], row["policy"]) == ("paired_ols", "positive_topk")
        draws = [
            tasks_for(
                curve_S2[:, 0] + curve_S2[:, 1] * rng.standard_normal(len(SIZES)),
                goal[0] + goal[1] * rng.standard_normal(),
            )
            for _ in range(DRAWS)
        ]
        for accounting, limit in GOALS.items():
            share = (2 if model.reads_bare and accounting == "all_counted" else 1) / (
                2 if accounting == "all_counted" else 1
            )
            low, high = (share * float(np.quantile(draws, q, method="nearest")) / TASKS for q in (0.025, 0.975))
            value = share * tasks_for(curve_S2[:, 0], goal[0]) / TASKS
            row |= {accounting: 1.0 if published else round(value, 3), f"{accounting}_low": round(low, 3)}
            row |= {f"{accounting}_high": round(high, 3), f"{accounting}_goal": verdict(low, high, limit)}
    return rows


def curve(row: dict[str, object]) -> tuple[float, float]:
    """Return loss and standard error of a row."""
    return float(str(row["loss"])), float(str(row["loss_se"]))


def tasks_for(loss_S: Array, goal: float) -> float:
    """Return the number of tasks at which a loss falls to ``goal``: the least size if it is there, ∞ if never."""
    size_S = np.log(np.array(SIZES, dtype=float))
    for k, loss in enumerate(loss_S):
        if loss <= goal:
            if k == 0:
                return float(SIZES[0])
            share = (loss_S[k - 1] - goal) / (loss_S[k - 1] - loss)
            return float(np.exp(size_S[k - 1] + share * (size_S[k] - size_S[k - 1])))
    return float("inf")


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    began, worked = time.perf_counter(), time.process_time()
    rows = []
    for name in ("published", "graded reward"):
        rows += rows_of(name, WORLDS[name], options.gates, options.seed)
    write_csv(options.out, rows)
    for row in rows:
        print(*row.values())
    took = f"{time.perf_counter() - began:.0f} s ({time.process_time() - worked:.0f} s of CPU)"
    print(f"{len(rows)} rows of {options.gates} gates in {took} → {options.out}")


if __name__ == "__main__":
    main()
