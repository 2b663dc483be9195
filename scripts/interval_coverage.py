"""How often a 95 % interval of a reward or a success rate covers its mean, and how wide it is.

Success rates and paired successes by exact enumeration, graded rewards by simulation. ``before`` is Student's t, which
claims certainty where every task fails alike; ``after`` is what the product prints (`intraskill.method.gate.bounded`).
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from numpy.typing import NDArray
from scipy.stats import binom, multinomial
from statsmodels.stats.proportion import proportion_confint

from intraskill.method.gate.bounded import bounded_interval, difference_interval, share_interval
from intraskill.method.gate.intervals import mean_interval

OUT = Path(__file__).parents[1] / "docs" / "results" / "interval_coverage.csv"
Ends = tuple[float, float]
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]
SIZES = (10, 20, 50, 240)
RATES = (0.01, 0.05, 0.5)
CHANGES = ((0.01, 0.01), (0.05, 0.01), (0.05, 0.05), (0.3, 0.1))
WORLDS: dict[str, tuple[Draw, float]] = {
    "10 % graded, else 0": (lambda rng, n: (rng.random(n) < 0.1) * (0.2 + 0.8 * rng.random(n)), 0.06),
    "3 % full, else up to 0.1": (lambda rng, n: np.where(rng.random(n) < 0.03, 1.0, 0.1 * rng.random(n)), 0.0785),
    "2 % full, else 0.5": (lambda rng, n: np.where(rng.random(n) < 0.02, 1.0, 0.5), 0.51),
    "beta(0.3, 0.5)": (lambda rng, n: rng.beta(0.3, 0.5, n), 0.375),
}


def student(hits: int, trials: int) -> Ends:
    """Return t's interval of a share."""
    got = mean_interval([1.0] * hits + [0.0] * (trials - hits))
    return got.low, got.high


def wilson(hits: int, trials: int) -> Ends:
    """Return Wilson's interval of a share."""
    low, high = proportion_confint(hits, trials, method="wilson")
    return float(low), float(high)


def paired_student(gained: int, lost: int, tasks: int) -> Ends:
    """Return t's interval of a paired difference."""
    got = mean_interval([1.0] * gained + [-1.0] * lost + [0.0] * (tasks - gained - lost))
    return got.low, got.high


def share_rows() -> Iterator[dict[str, object]]:
    """Yield exact coverage in % and mean width of each interval of a success rate."""
    for tasks, rate in product(SIZES, RATES):
        chance = binom.pmf(range(tasks + 1), tasks, rate)
        for name, interval in (("t", student), ("Wilson", wilson), ("printed", share_interval)):
            ends = np.array([interval(hits, tasks) for hits in range(tasks + 1)])
            yield _row("success rate", f"p = {rate}", tasks, name, chance, ends, rate)


def change_rows() -> Iterator[dict[str, object]]:
    """Yield the same for the paired difference of two success rates."""
    for tasks, (gain, loss) in product(SIZES[:3], CHANGES):
        cells = [(a, b) for a in range(tasks + 1) for b in range(tasks + 1 - a)]
        counts = np.array([(a, b, tasks - a - b) for a, b in cells])
        chance = multinomial.pmf(counts, tasks, (gain, loss, 1.0 - gain - loss))
        for name, interval in (("t", paired_student), ("printed", difference_interval)):
            ends = np.array([interval(a, b, tasks) for a, b in cells])
            yield _row("paired success", f"gained {gain}, lost {loss}", tasks, name, chance, ends, gain - loss)


def graded_rows(panels: int) -> Iterator[dict[str, object]]:
    """Yield the same for graded rewards, over simulated panels."""
    for world, tasks in product(WORLDS, SIZES):
        draw, mean = WORLDS[world]
        rng = np.random.default_rng(0)
        values = [draw(rng, tasks).tolist() for _ in range(panels)]
        chance = np.full(panels, 1.0 / panels)
        for name, interval in (("t", mean_interval), ("printed", bounded_interval)):
            ends = np.array([(one.low, one.high) for one in map(interval, values)])
            yield _row("graded reward", world, tasks, name, chance, ends, mean)


def _row(
    kind: str, world: str, tasks: int, name: str, chance: NDArray[np.float64], ends: NDArray[np.float64], true: float
) -> dict[str, object]:
    covers = (ends[:, 0] <= true) & (true <= ends[:, 1])
    width = ends[:, 1] - ends[:, 0]
    return {
        "kind": kind, "world": world, "tasks": tasks, "interval": name,
        "coverage": f"{100 * chance[covers].sum():.1f}", "width": f"{(chance * width).sum():.3f}",
        "zero_width": f"{100 * chance[width == 0.0].sum():.1f}",
    }  # fmt: skip


def main() -> None:
    """Write ``docs/results/interval_coverage.csv`` and print the rows below the goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--panels", type=int, default=2000, help="simulated panels of each graded world")
    rows = [*share_rows(), *change_rows(), *graded_rows(parser.parse_args().panels)]
    write_csv(OUT, rows)
    for name in ("t", "Wilson", "printed"):
        own = [row for row in rows if row["interval"] == name]
        below = [row for row in own if float(str(row["coverage"])) < 93.0]
        lowest = min(float(str(row["coverage"])) for row in own)
        print(f"{name}: {len(below)} of {len(own)} cells below 93 %, the lowest {lowest:.1f} %")


if __name__ == "__main__":
    main()
