"""Do the gate's 95 % intervals cover the truth? 500 gates in a world whose contributions are known.

Each gate uses the real plan, pairing audit and estimator; only the outcomes are drawn in bulk from the world's success
probabilities instead of one episode at a time. Writes one row per chunk and one for all of them.

    python scripts/planted_coverage.py            # → docs/results/planted_coverage.csv, under a minute on one core
"""

import argparse
import time
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from numpy.typing import NDArray

from intraskill.environments.planted import PlantedWorld
from intraskill.method.gate.designs import Masks, plan_masks
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.pairs import Conditions, Pairs, Scored, pair
from intraskill.method.randomness import child_seed
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import BARE, Skill
from intraskill.method.tasks import Task

OUT = Path(__file__).parents[1] / "docs" / "results" / "planted_coverage.csv"


def candidates(world: PlantedWorld) -> tuple[Edit, ...]:
    """Return the edits that would bring every missing chunk of the world into its draft."""
    targets = {planted.title: planted.chunk.id for planted in world.chunks}
    return tuple(
        Edit((targets[planted.replaces],) if planted.replaces else (), (planted.chunk,))
        for planted in world.chunks
        if planted.missing
    )


class BulkGate:
    """One world's gate, ready to be repeated with other seeds."""

    def __init__(self, world: PlantedWorld) -> None:
        self.tasks: tuple[Task, ...] = world.tasks("skill_validation")
        self.edits = candidates(world)
        self.pool: Skill = pool(world.draft, self.edits)
        self.true_J = np.array(world.true_contributions(self.pool.ids, self.tasks, {}))
        self.base_N = np.array([world.success_probability(task.id, BARE, {}) for task in self.tasks])
        self.effect_NJ = np.array([[world.effect(j, task.id) for j in self.pool.ids] for task in self.tasks])
        self.conditions = Conditions("planted", "skill_validation", "planted", "planted", world.version)

    def pairs(self, seed: int) -> Pairs:
        """Draw a plan and outcomes, and pair them."""
        plan = plan_masks(self.pool, self.edits, self.tasks, seed=seed, round_index=0)
        design_NJ = np.array([[j in plan[task.id][0] for j in self.pool.ids] for task in self.tasks], dtype=float)
        rng = np.random.Generator(np.random.PCG64(child_seed(seed, "coverage")))
        masked_N = self.base_N + (self.effect_NJ * design_NJ).sum(axis=1)
        bare_rewards, masked_rewards = (rng.random(len(p)) < p for p in (self.base_N, masked_N))
        return pair(
            self._score(bare_rewards, dict.fromkeys(plan, (BARE,))),
            self._score(masked_rewards, plan),
            plan,
            self.pool.ids,
        )

    def _score(self, rewards_N: NDArray[np.bool_], seen: Masks) -> list[Scored]:
        return [
            Scored(task.id, 0, seen[task.id][0], reward, {"r_strict": reward}, self.conditions)
            for task, reward in zip(self.tasks, rewards_N.astype(float).tolist(), strict=True)
        ]


def measure(gates: int, seed: int) -> list[dict[str, object]]:
    """Return bias, spread, claimed standard error and coverage over ``gates`` gates."""
    world = PlantedWorld()
    if not world.is_additive():
        raise SystemExit("coverage of main effects is defined only in an additive world")
    gate = BulkGate(world)
    fits = [fit(gate.pairs(child_seed(seed, "gate", number))) for number in range(gates)]
    beta_GJ = np.array([found.beta_J for found in fits])
    se_GJ = np.array([found.se_J for found in fits])
    covered_GJ = np.array([(found.low_J <= gate.true_J) & (gate.true_J <= found.high_J) for found in fits])
    rows: list[dict[str, object]] = [
        {
            "chunk": chunk.title,
            "gates": gates,
            "pairs": len(gate.tasks),
            "true_beta": round(float(gate.true_J[j]), 4),
            "mean_beta": round(float(beta_GJ[:, j].mean()), 4),
            "sd_beta": round(float(beta_GJ[:, j].std(ddof=1)), 4),
            "mean_se": round(float(se_GJ[:, j].mean()), 4),
            "coverage": round(float(covered_GJ[:, j].mean()), 4),
        }
        for j, chunk in enumerate(gate.pool.chunks)
    ]
    every = {"chunk": "all", "gates": gates, "pairs": len(gate.tasks), "true_beta": "", "mean_beta": ""}
    spread = float(np.sqrt(beta_GJ.var(axis=0, ddof=1).mean()))
    claimed = float(np.sqrt(np.square(se_GJ).mean()))
    every |= {"sd_beta": round(spread, 4), "mean_se": round(claimed, 4), "coverage": round(float(covered_GJ.mean()), 4)}
    return [*rows, every]


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    began = time.perf_counter()
    rows = measure(options.gates, options.seed)
    write_csv(options.out, rows)
    print(options.out.read_text(encoding="utf-8"), end="")
    print(f"{options.gates} gates in {time.perf_counter() - began:.1f} s → {options.out}")


if __name__ == "__main__":
    main()
