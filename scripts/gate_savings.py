"""How many rollouts would a better gate need for the published gate's errors? Precision at equal standard error.

The published gate: `paired_ols`, Bernoulli(½) masks, one bare and one masked run of each of 400 tasks, admit β̂ > 0.
The same rule on estimates with the same standard errors makes the same errors, so rollouts are compared at equal
standard error (the SD of β̂ over simulated gates), in two accountings: every rollout counts; or the bare run of each
task is wanted anyway, as the reported skill-free score, and only rollouts beyond it count. Then every candidate design
runs at the goal's budget, 0.40 and 0.60 of the published rollouts, and its errors are counted directly.

    python scripts/gate_savings.py                # → docs/results/gate_savings.csv, about two minutes on one core
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from gate_simulation import Gates, Laboratory, Model, fit_rows
from gate_worlds import CHUNKS, Array, Layout, World, truths

from intraskill.method.gate.regression import factorize, least_squares
from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_savings.csv"
TASKS = 400
CARRIED = 0.5
GOALS = {"all_counted": 0.40, "bare_sunk": 0.60}
WORLDS = {
    "published": World(correlation=0.67, scale=0.5),
    "published, still checkpoint": World(correlation=0.67, scale=0.5, persistence=1.0, learning=0.0),
    "lower correlation": World(correlation=0.58),
    "rare success": World(correlation=0.73, scale=0.5, mean=0.2),
    "graded reward": World(correlation=0.74, grades=4),
}
PAIRED, ANCOVA, MASKED = Model("paired_ols"), Model("ancova"), Model("masked_ols")


@dataclass(frozen=True)
class Option:
    """A way to run a gate.

    Attributes:
        name: of its row.
        model: the regression.
        layout: for `TASKS` tasks.
        share: part of the tasks that get masked runs, those whose outcome is most uncertain first; 1 for all.
        guide: whose H and B say which those are; the model's own by default.
        carried: whether two earlier gates of the same design are averaged in, at half weight per round of age; fair
            only for chunks that they measured and whose β has not moved.
    """

    name: str
    model: Model
    layout: Layout = field(default_factory=lambda: Layout(TASKS, rounds=8))
    share: float = 1.0
    guide: Model | None = None
    carried: bool = False

    def rollouts(self, accounting: str) -> float:
        """Return rollouts per task."""
        masked = self.layout.masked * self.share
        if accounting == "bare_sunk":
            return masked + self.layout.bare - 1
        return masked + (self.layout.bare if self.model.reads_bare else 0)


def history(source: str, rounds: int, *, bare: bool = False, separate: bool = False) -> Model:
    """Return a covariate model."""
    return Model("covariate", source, rounds, bare, separate)


def options() -> list[Option]:
    """Return every row of the table, by layout; the published gate comes first."""
    one, two, four = (Layout(TASKS, masked=runs, rounds=8) for runs in (1, 2, 4))
    mirror = replace(two, mirrored=True)
    both_arms = history("bare", 8, bare=True)
    found = [
        Option("published", PAIRED),
        Option("ancova", ANCOVA),
        Option("masked_ols", MASKED),
        *(Option(f"H of {t} masked rounds", history("masked", t)) for t in (1, 4, 8)),
        *(Option(f"H of {t} bare rounds", history("bare", t)) for t in (1, 4, 8)),
        Option("H of 8 rounds, both arms", history("both", 16)),
        Option("8 bare rounds, a column each", history("bare", 8, separate=True)),
        *(Option(f"B and H of {t} bare rounds", history("bare", t, bare=True)) for t in (1, 4, 8)),
        Option("B and H of 8 rounds, both arms", history("both", 16, bare=True)),
        Option("B and 8 bare rounds, a column each", history("bare", 8, bare=True, separate=True)),
        Option("uncertain half, H of 4 bare rounds", history("bare", 4), one, 0.5),
        Option("uncertain half, B", ANCOVA, one, 0.5),
        Option("oracle", history("oracle", 1)),
        Option("H of 4 masked rounds, two gates carried over", history("masked", 4), carried=True),
        Option("B and H of 4 bare rounds, two gates carried over", history("bare", 4, bare=True), carried=True),
        Option("2 placebos", PAIRED, replace(one, placebos=2)),
        Option("shown with 0.6", PAIRED, replace(one, inclusion=0.6)),
    ]
    spread = replace(one, balanced=True)
    found += [Option("balanced", PAIRED, spread), Option("balanced, masked_ols", MASKED, spread)]
    found += [Option("balanced, H of 4 masked rounds", history("masked", 4), spread)]
    found += [Option("balanced, B and H of 8 bare rounds", both_arms, spread)]
    for name, model in (("", PAIRED), (", ancova", ANCOVA), (", B and H of 8 bare rounds", both_arms)):
        found.append(Option(f"2 masked runs{name}", model, two))
    found.append(Option("4 masked runs, B and H of 8 bare rounds", both_arms, four))
    for name, model in (("", PAIRED), (", ancova", ANCOVA)):
        found.append(Option(f"2 masked and 2 bare runs{name}", model, replace(two, bare=2)))
    found += [Option("mirrored", MASKED, mirror), Option("mirrored, paired_ols", PAIRED, mirror)]
    guide = history("bare", 8, bare=True)
    found.append(Option("mirrored, uncertain half by B and 8 bare rounds", MASKED, mirror, 0.5, guide))
    found.append(Option("mirrored, two gates carried over", MASKED, mirror, carried=True))
    even = replace(mirror, balanced=True)
    found += [Option("mirrored, balanced", MASKED, even), Option("mirrored, balanced, paired_ols", PAIRED, even)]
    return found


def candidates() -> Iterator[tuple[str, Option]]:
    """Yield designs cut to the goal's budget, by accounting."""
    every = Layout(round(2 * TASKS * GOALS["all_counted"]), rounds=8)
    sunk = Layout(round(TASKS * GOALS["bare_sunk"]), rounds=8)
    both_arms = history("bare", 8, bare=True)
    mirror = Layout(every.tasks // 2, masked=2, mirrored=True)
    less = replace(mirror, tasks=sunk.tasks // 2)
    yield "all_counted", Option("masked_ols", MASKED, every)
    yield "all_counted", Option("mirrored", MASKED, mirror)
    yield "all_counted", Option("mirrored, balanced", MASKED, replace(mirror, balanced=True))
    yield "all_counted", Option("H of 4 masked rounds", history("masked", 4), every)
    yield "all_counted", Option("H of 4 bare rounds", history("bare", 4), every)
    yield (
        "all_counted",
        Option("balanced, H of 8 rounds, both arms", history("both", 16), replace(every, balanced=True)),
    )
    yield "bare_sunk", Option("ancova", ANCOVA, sunk)
    yield "bare_sunk", Option("B and H of 8 bare rounds", both_arms, sunk)
    yield "bare_sunk", Option("mirrored", MASKED, less)
    yield "bare_sunk", Option("mirrored, balanced", MASKED, replace(less, balanced=True))
    yield "bare_sunk", Option("mirrored, paired_ols", PAIRED, less)
    yield "bare_sunk", Option("mirrored, balanced, paired_ols", PAIRED, replace(less, balanced=True))
    yield "bare_sunk", Option("balanced, B and H of 8 bare rounds", both_arms, replace(sunk, balanced=True))


def estimates(laboratory: Laboratory, gates: Gates, option: Option, seed: int) -> Array:
    """Return β̂ of a block of gates, (G, J)."""
    if option.share == 1.0:
        return laboratory.fit(gates, option.model).beta_GJ
    return uncertain_first(gates, option, np.random.Generator(np.random.PCG64(child_seed(seed, option.name))))


def uncertain_first(gates: Gates, option: Option, rng: np.random.Generator) -> Array:
    """Run each task with a probability that follows the spread of its outcome, and weight it by the inverse.

    The spread √(p (1 − p)) uses p from the task's earlier and bare rewards, drawn towards their mean by one prior
    reward. Every task keeps a probability above 0, so β is still about all tasks.
    """
    guide, per_task = option.guide or option.model, option.layout.masked
    seen = [gates.bare_GN[:, ::per_task, None]] if guide.reads_bare else []
    if guide.history:
        seen.append(gates.earlier[guide.history][:, : guide.rounds].transpose(0, 2, 1))
    seen_GTE = np.clip(np.concatenate(seen, axis=2), 0.0, 1.0)
    centre = seen_GTE.mean(axis=(1, 2), keepdims=True)[..., 0]
    p_GT = (seen_GTE.sum(axis=2) + centre) / (seen_GTE.shape[2] + 1)
    spread_GT = np.sqrt(np.maximum(p_GT * (1.0 - p_GT), 1e-3))
    wanted = option.share * spread_GT.shape[1]
    chance_GT = np.minimum(1.0, wanted * spread_GT / spread_GT.sum(axis=1, keepdims=True))
    chance_GT = np.minimum(1.0, chance_GT * wanted / chance_GT.sum(axis=1, keepdims=True))
    root_GN = np.repeat(np.sqrt((rng.random(chance_GT.shape) < chance_GT) / chance_GT), per_task, axis=1)
    design_GNP, outcome_GN = gates.regression(option.model)
    design_GNP, outcome_GN = design_GNP * root_GN[..., None], outcome_GN * root_GN
    found = fit_rows(design_GNP, outcome_GN, per_task, CHUNKS)
    names = [str(n) for n in range(design_GNP.shape[1])]
    exact = least_squares(factorize(design_GNP[0], names[: design_GNP.shape[2]], names), outcome_GN[0])
    np.testing.assert_allclose(found.beta_GJ[0], exact.beta_P[:CHUNKS], rtol=1e-8, atol=1e-8)
    return found.beta_GJ


def run(world: World, wanted: list[Option], gates: int, seed: int) -> dict[Option, Array]:
    """Return β̂ of every option's gates, (G, J); options of one layout see the same gates."""
    found: dict[Option, Array] = {}
    for layout, group in groupby(wanted, key=lambda option: option.layout):
        laboratory, members = Laboratory(world, layout, masked_history=True), list(group)
        blocks = [
            [estimates(laboratory, block, option, seed + number) for option in members]
            for number, block in enumerate(laboratory.blocks(gates, seed))
        ]
        found |= {option: np.concatenate([b[k] for b in blocks]) for k, option in enumerate(members)}
    return found


def carry(beta_GJ: Array) -> Array:
    """Return what a third of the gates say together with another third a round ago and the rest two rounds ago."""
    third = len(beta_GJ) // 3
    now, before, earlier = (beta_GJ[k * third : (k + 1) * third] for k in range(3))
    return (now + CARRIED * before + CARRIED**2 * earlier) / (1.0 + CARRIED + CARRIED**2)


def ratio(beta_GJ: Array, published_GJ: Array) -> tuple[float, float]:
    """Return the ratio of mean variances and its standard error (delta method over gates)."""
    ours_G, theirs_G = (np.square(b - b.mean(axis=0)).mean(axis=1) for b in (beta_GJ, published_GJ))
    value = float(ours_G.mean() / theirs_G.mean())
    theirs_G = theirs_G[: len(ours_G)]
    apart_G = ours_G / ours_G.mean() - theirs_G / theirs_G.mean()
    return value, value * float(apart_G.std(ddof=1)) / len(apart_G) ** 0.5


def situation(world: World, seed: int) -> dict[str, object]:
    """Return σ, the residual SD of R − B, and corr(R, B) of a world's published gates."""
    laboratory = Laboratory(world, Layout(TASKS))
    block = next(laboratory.blocks(50, seed))
    sigmas = [laboratory.by_package(block, PAIRED, number).residual_sd for number in range(50)]
    correlations = [np.corrcoef(*arms)[0, 1] for arms in zip(block.bare_GN, block.masked_GN, strict=True)]
    return {"sigma": f"{np.mean(sigmas):.2f}", "correlation": f"{np.mean(correlations):.2f}"}


def precision(name: str, world: World, gates: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield one row per option: rollouts for the published standard error."""
    wanted = options()
    found = run(world, wanted, gates, seed)
    published, seen = wanted[0], situation(world, seed)
    for option in wanted:
        beta_GJ = carry(found[option]) if option.carried else found[option]
        value, error = ratio(beta_GJ, found[published])
        row: dict[str, object] = {"part": "equal SE", "world": name, "option": option.name, "gates": gates} | seen
        row |= {"sd_beta": round(float(beta_GJ.std(axis=0).mean()), 5), "rollouts": ""}
        for accounting, goal in GOALS.items():
            share = option.rollouts(accounting) / published.rollouts(accounting)
            low, high = (share * (value + z * error) for z in (-1.96, 1.96))
            row |= {accounting: round(share * value, 3), f"{accounting}_low": round(low, 3)}
            row |= {f"{accounting}_high": round(high, 3), f"{accounting}_goal": verdict(low, high, goal)}
        yield row | dict.fromkeys(("accounting", "variance_ratio", "variance_low", "variance_high", *RATES), "")


RATES = ("useless_in", "harmful_in", "useful_out", "errors", "errors_low", "errors_high")


def verdict(low: float, high: float, goal: float) -> str:
    """Say whether an interval lies below a goal, above it, or around it."""
    return "met" if high <= goal else "missed" if low > goal else "open"


def at_goal(name: str, world: World, gates: int, seed: int) -> Iterator[dict[str, object]]:
    """Yield the published gate and every candidate at the goal's budget, with the errors of the rule β̂ > 0."""
    published = options()[0]
    cut = [("", published), *candidates()]
    found = run(world, [option for _, option in cut], gates, seed + 1)
    true_J, seen = truths(world.kind, world.scale)["marginal"], situation(world, seed)
    for accounting, option in cut:
        beta_GJ = found[option]
        value, error = ratio(beta_GJ, found[published])
        wrong_GJ = np.where(true_J > 0, beta_GJ <= 0, beta_GJ > 0)
        wrong_G = wrong_GJ.sum(axis=1)
        half = 1.96 * float(wrong_G.std(ddof=1)) / gates**0.5
        low, high = value - 1.96 * error, value + 1.96 * error
        counted = accounting or "all_counted"
        row: dict[str, object] = {"part": "at goal", "world": name, "option": option.name, "gates": gates} | seen
        row |= {"sd_beta": round(float(beta_GJ.std(axis=0).mean()), 5)}
        row |= {"rollouts": round(option.rollouts(counted) * option.layout.tasks)}
        for key in GOALS:
            row |= {key: "", f"{key}_low": "", f"{key}_high": ""}
            row |= {f"{key}_goal": verdict(low, high, 1.0) if key == accounting else ""}
        row |= {"accounting": accounting, "variance_ratio": round(value, 3)}
        row |= {"variance_low": round(low, 3), "variance_high": round(high, 3)}
        row |= {"useless_in": round(float(wrong_GJ[:, true_J == 0].mean()), 4)}
        row |= {"harmful_in": round(float(wrong_GJ[:, true_J < 0].mean()), 4)}
        row |= {
            "useful_out": round(float(wrong_GJ[:, true_J > 0].mean()), 4),
            "errors": round(float(wrong_G.mean()), 3),
        }
        yield row | {
            "errors_low": round(float(wrong_G.mean()) - half, 3),
            "errors_high": round(float(wrong_G.mean()) + half, 3),
        }


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options_ = parser.parse_args()
    began, worked = time.perf_counter(), time.process_time()
    rows = []
    for name, world in WORLDS.items():
        for part in (precision, at_goal):
            rows += list(part(name, world, options_.gates, options_.seed))
    write_csv(options_.out, rows)
    for row in rows:
        if row["part"] == "equal SE":
            print(
                row["world"],
                row["option"],
                row["all_counted"],
                row["all_counted_goal"],
                row["bare_sunk"],
                row["bare_sunk_goal"],
            )
        else:
            print(row["world"], row["option"], row["accounting"], row["variance_ratio"], row["errors"])
    took = f"{time.perf_counter() - began:.0f} s ({time.process_time() - worked:.0f} s of CPU)"
    print(f"{len(rows)} rows of {options_.gates} gates in {took} → {options_.out}")


if __name__ == "__main__":
    main()
