"""What do the three gate policies let in? False admissions and power at equal rollouts, by simulated paired gates.

A pool of 12 chunks, masks Bernoulli(½), R − B = C β + ε with three-point noise that jumps by whole rewards, as
differences of binary rewards do. Each gate is fitted by least squares with HC3 and judged by the policies themselves.
Pools: all useless, or 4 chunks of +δ, 2 of −δ and 6 useless ones. Every policy sees the same gates, so rollouts are
equal; every chunk is judged once as a candidate and once as an incumbent. Intervals: 95 %, over gates.

    python scripts/gate_error_rates.py            # → docs/results/gate_error_rates.csv, about two minutes on one core
"""

import argparse
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from numpy.typing import NDArray

from intraskill.method.gate.planning import outcomes
from intraskill.method.gate.regression import factorize, least_squares
from intraskill.method.gate.rules import DecisionRule, FdrRule, GateRule, ProbabilityRule
from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_error_rates.csv"
CHUNKS = 12
SIGMAS = (0.27, 0.44)
TASKS = (200, 400, 800, 1600)
EFFECTS = (0.0, 0.02, 0.05, 0.10)
POLICIES: dict[str, DecisionRule] = {
    "positive_topk": GateRule(10),
    "probability": ProbabilityRule(10),
    "fdr": FdrRule(10),
}
Array = NDArray[np.float64]


def pool_of(effect: float) -> Array:
    """Return the true contributions of a pool, (J,)."""
    return effect * np.array([1.0] * 4 + [-1.0] * 2 + [0.0] * 6)


def draw_gates(alpha_J: Array, tasks: int, sigma: float, gates: int, seed: int) -> tuple[Array, Array]:
    """Draw masks, (G, N, J), and differences R − B, (G, N)."""
    rng = np.random.Generator(np.random.PCG64(seed))
    shown_GNJ = (rng.random((gates, tasks, len(alpha_J))) < 0.5).astype(float)
    u_GN = rng.random((gates, tasks))
    jump = min(sigma**2, 1.0)
    noise_GN = (u_GN < jump / 2).astype(float) - (u_GN > 1 - jump / 2)
    return shown_GNJ, shown_GNJ @ alpha_J + noise_GN * sigma / jump**0.5


def fit_gates(shown_GNJ: Array, delta_GN: Array) -> tuple[Array, Array]:
    """Return β̂, (G, J), and its HC3 covariance, (G, J, J); the first gate is checked against the package."""
    inverse_GJJ = np.linalg.inv(shown_GNJ.transpose(0, 2, 1) @ shown_GNJ)
    half_GNJ = shown_GNJ @ inverse_GJJ
    beta_GJ = np.einsum("gnj,gn->gj", half_GNJ, delta_GN)
    leverage_GN = np.sum(half_GNJ * shown_GNJ, axis=2)
    scaled_GN = (delta_GN - np.einsum("gnj,gj->gn", shown_GNJ, beta_GJ)) / (1.0 - leverage_GN)
    shift_GNJ = half_GNJ * scaled_GN[..., None]
    covariance_GJJ = shift_GNJ.transpose(0, 2, 1) @ shift_GNJ
    names = [str(n) for n in range(delta_GN.shape[1])]
    reference = least_squares(factorize(shown_GNJ[0], names[: beta_GJ.shape[1]], names), delta_GN[0])
    np.testing.assert_allclose(beta_GJ[0], reference.beta_P, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(covariance_GJJ[0], reference.covariance_PP, rtol=1e-6, atol=1e-12)
    return beta_GJ, covariance_GJJ


def share(kept_GJ: NDArray[np.bool_], which_J: NDArray[np.bool_]) -> tuple[object, object, object]:
    """Return the mean share of some chunks that is kept, with its 95 % interval over gates; blanks without chunks."""
    if not which_J.any():
        return "", "", ""
    share_G = kept_GJ[:, which_J].mean(axis=1)
    half = 1.96 * float(share_G.std(ddof=1)) / len(share_G) ** 0.5
    mean = float(share_G.mean())
    return round(mean, 4), round(max(mean - half, 0.0), 4), round(min(mean + half, 1.0), 4)


def judge(alpha_J: Array, beta_GJ: Array, covariance_GJJ: Array, tasks: int) -> Iterator[dict[str, object]]:
    """Yield one row per policy and role."""
    best = float(np.maximum(alpha_J, 0.0).sum())
    for name, rule in POLICIES.items():
        fates = [
            outcomes(beta_J[None], covariance_JJ, rule, tasks - len(alpha_J))
            for beta_J, covariance_JJ in zip(beta_GJ, covariance_GJJ, strict=True)
        ]
        for role, number in (("candidate", 0), ("incumbent", 1)):
            kept_GJ = np.array([fate[number][0] for fate in fates])
            row: dict[str, object] = {"policy": name, "role": role}
            for kind, which_J in (("useless", alpha_J == 0), ("harmful", alpha_J < 0), ("useful", alpha_J > 0)):
                mean, low, high = share(kept_GJ, which_J)
                row |= {f"{kind}_in": mean, f"{kind}_low": low, f"{kind}_high": high}
            wrong_G = (kept_GJ & (alpha_J <= 0)).sum(axis=1)
            row["mean_false_share"] = round(float(np.mean(wrong_G / np.maximum(kept_GJ.sum(axis=1), 1))), 4)
            row["useless_or_harmful_admitted"] = round(float(wrong_G.mean()), 3)
            row["value_of_best"] = round(float((kept_GJ @ alpha_J).mean()) / best, 4) if best else ""
            yield row


def measure(gates: int, seed: int) -> list[dict[str, object]]:
    """Return one row per σ, number of tasks, effect, policy and role."""
    rows = []
    for sigma, tasks, effect in product(SIGMAS, TASKS, EFFECTS):
        alpha_J = pool_of(effect)
        found = [
            fit_gates(*draw_gates(alpha_J, tasks, sigma, min(100, gates - start), child_seed(seed, tasks, start)))
            for start in range(0, gates, 100)
        ]
        beta_GJ, covariance_GJJ = (np.concatenate(part) for part in zip(*found, strict=True))
        cell = {"sigma": sigma, "chunks": CHUNKS, "tasks": tasks, "rollouts": 2 * tasks, "effect": effect}
        rows += [cell | {"gates": gates} | row for row in judge(alpha_J, beta_GJ, covariance_GJJ, tasks)]
    return rows


def main() -> None:
    """Run, write the table, and print the published situation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    began = time.perf_counter()
    rows = measure(options.gates, options.seed)
    write_csv(options.out, rows)
    for row in rows:
        if (row["sigma"], row["tasks"], row["role"]) == (0.44, 400, "candidate"):
            print({name: row[name] for name in ("effect", "policy", "useless_in", "harmful_in", "useful_in")})
    print(f"{len(rows)} rows of {options.gates} gates in {time.perf_counter() - began:.1f} s → {options.out}")


if __name__ == "__main__":
    main()
