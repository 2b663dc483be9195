"""How often is each of the five operators taken, when it helps, harms, or changes nothing?

Planted worlds of 12 columns hold one edit of every operator at once, as a round may, beside two further chunks. Over
three worlds every edit helps by +0.12, harms by −0.12 and changes nothing once. Rewards are the mean of three draws, so
that standard errors are near those of the quickstart. Masks, pairing audit, fit and decision are the package's own.
With ``interaction`` w ≠ 0 the two chunks that a MERGE takes, and the two that a SPLIT gives, add w when both are shown;
what the edit truly changes stays the same, but the gate adds up β̂.

    python scripts/operator_power.py            # → docs/results/operator_power.csv, a quarter of an hour
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from math import sqrt
from pathlib import Path

import numpy as np
from csv_rows import write_csv

from intraskill.environments.planted import PlantedChunk, PlantedEdit, PlantedWorld
from intraskill.method.gate.decision import decide
from intraskill.method.gate.designs import Masks, plan_masks
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.pairs import Conditions, Scored, pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.rules import DecisionRule, FdrRule, GateRule, ProbabilityRule
from intraskill.method.randomness import child_seed
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import BARE

OUT = Path(__file__).parents[1] / "docs" / "results" / "operator_power.csv"
OPERATORS = ("ADD", "REWRITE", "DELETE", "MERGE", "SPLIT")
CHANGES = {"helps": 1.0, "harms": -1.0, "neutral": 0.0}
CHANGE = 0.12
QUICKSTART_PAIRS, PUBLISHED_PAIRS = 264, 400
TOP_K = 16
RULES: dict[str, DecisionRule] = {
    "positive_topk": GateRule(TOP_K),
    "probability": ProbabilityRule(TOP_K),
    "fdr": FdrRule(TOP_K),
}
Z = 1.959964


def planted_world(truth: dict[str, str], change: float, interaction: float, pairs: int) -> PlantedWorld:
    """Return a world with one edit of every operator, each as good as ``truth`` says.

    Args:
        truth: by operator, a key of `CHANGES`.
        change: what an edit that helps adds to the success probability.
        interaction: w of the pairs of chunks of MERGE and SPLIT.
        pairs: skill-validation tasks.
    """
    delta = {operator: CHANGES[truth[operator]] * change for operator in OPERATORS}
    part = (0.04 + delta["SPLIT"] - interaction) / 2
    chunks = (
        PlantedChunk("Useful chunk", 0.06),
        PlantedChunk("Useless chunk", 0.0),
        PlantedChunk("Reworded before", 0.03),
        PlantedChunk("Accused chunk", -delta["DELETE"]),
        PlantedChunk("Left half", 0.03),
        PlantedChunk("Right half", 0.03),
        PlantedChunk("Whole rule", 0.04),
        PlantedChunk("Added rule", delta["ADD"], missing=True),
        PlantedChunk("Reworded after", 0.03 + delta["REWRITE"], missing=True, replaces="Reworded before"),
        PlantedChunk("Both halves", 0.06 + interaction + delta["MERGE"], missing=True),
        PlantedChunk("One part", part, missing=True),
        PlantedChunk("Other part", part, missing=True),
    )
    return PlantedWorld(
        tasks_per_split={"skill_validation": pairs},
        baseline=0.4,
        spread=0.05,
        grades=3,
        chunks=chunks,
        interactions=(("Left half", "Right half", interaction), ("One part", "Other part", interaction)),
        edits=(
            PlantedEdit(("Accused chunk",)),
            PlantedEdit(("Left half", "Right half"), ("Both halves",)),
            PlantedEdit(("Whole rule",), ("One part", "Other part")),
        ),
    )


def edits_of(world: PlantedWorld) -> tuple[Edit, ...]:
    """Return every edit of the world: its missing chunks and its planted edits."""
    text = {planted.title: planted.chunk for planted in world.chunks}
    by_edit = {title for edit in world.edits for title in edit.adds}
    alone = [
        Edit((text[planted.replaces].id,) if planted.replaces else (), (planted.chunk,))
        for planted in world.chunks
        if planted.missing and planted.title not in by_edit
    ]
    planted_edits = [
        Edit(tuple(text[title].id for title in edit.removes), tuple(text[title] for title in edit.adds))
        for edit in world.edits
    ]
    return (*alone, *planted_edits)


def gate(world: PlantedWorld, edits: tuple[Edit, ...], seed: int) -> Contributions:
    """Hold one gate of the world."""
    tasks = world.tasks("skill_validation")
    everything = pool(world.draft, edits)
    plan = plan_masks(everything, edits, tasks, seed=seed, round_index=1)
    rng = np.random.Generator(np.random.PCG64(child_seed(seed, "outcomes")))
    conditions = Conditions("planted", "skill_validation", "planted", "planted", world.version)

    def arm(seen: Masks) -> list[Scored]:
        success_N = [world.success_probability(task.id, seen[task.id][0], {}) for task in tasks]
        reward_N = (rng.binomial(world.grades, success_N) / world.grades).tolist()
        return [
            Scored(task.id, 0, seen[task.id][0], reward, {"r_strict": reward}, conditions)
            for task, reward in zip(tasks, reward_N, strict=True)
        ]

    return fit(pair(arm(dict.fromkeys(plan, (BARE,))), arm(plan), plan, everything.ids))


def taken_shares(
    truth: dict[str, str], *, interaction: float, pairs: int, gates: int, seed: int, change: float = CHANGE
) -> dict[tuple[str, str], int]:
    """Count, by operator and policy, in how many of ``gates`` seeded gates the edit is taken."""
    world = planted_world(truth, change, interaction, pairs)
    edits = edits_of(world)
    counts: Counter[tuple[str, str]] = Counter({(operator, policy): 0 for operator in OPERATORS for policy in RULES})
    for number in range(gates):
        found = gate(world, edits, child_seed(seed, "operators", number))
        for policy, rule in RULES.items():
            counts.update((edit.op, policy) for edit in decide(world.draft, edits, found, rule).taken)
    return dict(counts)


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share."""
    share, spread = hits / trials, Z * Z / trials
    middle = (share + spread / 2) / (1 + spread)
    half = Z / (1 + spread) * sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(middle - half, 0.0), min(middle + half, 1.0)


def measure(gates: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield one row per operator, policy, truth, interaction and gate size."""
    names = list(CHANGES)
    for pairs in (QUICKSTART_PAIRS, PUBLISHED_PAIRS):
        for interaction in (0.0, 0.12, -0.12):
            for turn in range(len(names)):
                truth = {operator: names[(i + turn) % len(names)] for i, operator in enumerate(OPERATORS)}
                counts = taken_shares(truth, interaction=interaction, pairs=pairs, gates=gates, seed=seed + turn)
                for (operator, policy), taken in counts.items():
                    if interaction and operator not in ("MERGE", "SPLIT"):
                        continue
                    low, high = wilson(taken, gates)
                    yield {
                        "operator": operator,
                        "policy": policy,
                        "truth": truth[operator],
                        "change": CHANGES[truth[operator]] * CHANGE,
                        "interaction": interaction,
                        "pairs": pairs,
                        "gates": gates,
                        "taken": round(taken / gates, 4),
                        "low": round(low, 4),
                        "high": round(high, 4),
                    }


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    places = {name: place for place, name in enumerate((*OPERATORS, *RULES, *CHANGES))}
    rows = sorted(
        measure(options.gates, options.seed),
        key=lambda r: (r["pairs"], r["interaction"], *(places[str(r[k])] for k in ("operator", "policy", "truth"))),
    )
    write_csv(options.out, rows)
    print(options.out.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
