"""Small gates: whether the planner keeps its promise of 80 % power, and how often a gate without effect names a chunk.

``first order`` is 2.80 · σ-based standard errors to first order in J / n; ``planned`` is what the planner promises.
A chunk is named when an interval excludes 0: its own 95 % one, or the one of those that cover together.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from gate_error_rates import draw_gates, fit_gates
from numpy.typing import NDArray

from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.power import GateDesign, smallest_effect, standard_errors
from intraskill.method.gate.simultaneous import critical_value
from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_small.csv"
SIGMA = 0.44
SIZES = ((4, 20), (4, 40), (9, 45), (9, 90), (12, 24), (12, 60), (12, 80), (12, 120), (12, 400))
BLOCK = 50
Array = NDArray[np.float64]


def first_order(design: GateDesign) -> float:
    """Return the effect that a plan to first order in J / n promises 80 % power for."""
    rows = design.tasks - design.columns - 1
    return 2.8016 * float(standard_errors(design).max()) * (rows / design.tasks) ** 0.5


def fits(design: GateDesign, effect: float, gates: int) -> Iterator[tuple[Array, Array]]:
    """Yield β̂ and its covariance of simulated gates in which one chunk is worth ``effect``."""
    alpha_J = np.array([effect] + [0.0] * (design.chunks - 1))
    for start in range(0, gates, BLOCK):
        seed = child_seed(0, "small", design.chunks, design.tasks, start)
        yield from zip(*fit_gates(*draw_gates(alpha_J, design.tasks, SIGMA, BLOCK, seed)), strict=True)


def power(design: GateDesign, effect: float, gates: int) -> float:
    """Return the share of gates whose 95 % interval of the chunk worth ``effect`` excludes 0."""
    t = t_quantile(0.975, design.tasks - design.chunks)
    return sum(abs(beta[0]) > t * covariance[0, 0] ** 0.5 for beta, covariance in fits(design, effect, gates)) / gates


def named(design: GateDesign, gates: int) -> tuple[float, float]:
    """Return the shares of gates without any effect that name a chunk: by its own interval, by those together."""
    degrees, alone, jointly = design.tasks - design.chunks, 0, 0
    for beta_J, covariance_JJ in fits(design, 0.0, gates):
        se_J = np.sqrt(np.diag(covariance_JJ))
        alone += bool((np.abs(beta_J) > t_quantile(0.975, degrees) * se_J).any())
        jointly += bool((np.abs(beta_J) > critical_value(covariance_JJ, degrees) * se_J).any())
    return alone / gates, jointly / gates


def row_of(chunks: int, tasks: int, gates: int) -> dict[str, object]:
    """Return both plans with their power, and the names given without any effect."""
    design = GateDesign(chunks, tasks, SIGMA)
    before, after = first_order(design), smallest_effect(design)
    alone, jointly = named(design, gates)
    return {
        "chunks": chunks, "tasks": tasks, "gates": gates,
        "first_order_effect": round(before, 4), "first_order_power": power(design, before, gates),
        "planned_effect": round(after, 4), "planned_power": power(design, after, gates),
        "named_alone": alone, "named_together": jointly, "too_few": bool(design.too_few),
    }  # fmt: skip


def main() -> None:
    """Write the rows and print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=1000)
    gates = parser.parse_args().gates
    rows = [row_of(*size, gates) for size in SIZES]
    write_csv(OUT, rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
