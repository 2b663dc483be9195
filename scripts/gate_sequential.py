"""May a gate look at its results after every batch? Errors with and without a sequential boundary, and pairs saved.

2 or 12 chunks, σ = 0.44, masks Bernoulli(½). After every batch all pairs so far are fitted by least squares with HC3
and `intraskill.method.gate.diagnostics.sequential` makes its calls; beside it, the 95 % interval is
read at every look, as an impatient person would.
In each gate half of the chunks have the effect and half have none. The fixed plan that the saving is
counted against has 80 % power for an effect of 0.10 (rounded up to whole batches); the sequential gate has the same
budget, or twice as much.

    python scripts/gate_sequential.py             # → docs/results/gate_sequential.csv, about two minutes on one core
"""

import argparse
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from csv_rows import write_csv
from gate_error_rates import draw_gates, fit_gates
from numpy.typing import NDArray

from intraskill.method.gate.diagnostics.sequential import SequentialRule
from intraskill.method.gate.power import GateDesign, standard_errors, tasks_for
from intraskill.method.randomness import child_seed

OUT = Path(__file__).parents[1] / "docs" / "results" / "gate_sequential.csv"
POOLS, SIGMA, WANTED = (2, 12), 0.44, 0.10
EFFECTS = (0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
BATCH, BLOCK = 50, 25
Array = NDArray[np.float64]


def rule_of(chunks: int) -> SequentialRule:
    """Return the sequential rule that the planner suggests for the wanted effect."""
    design = GateDesign(chunks, 400, SIGMA)
    planned = -(-tasks_for(design, WANTED) // BATCH) * BATCH
    tight = float(standard_errors(GateDesign(chunks, planned, SIGMA))[0])
    return SequentialRule(planned, 2 * planned, BATCH, tight_se=tight, negligible=WANTED)


def looks_of(alpha_J: Array, gates: int, rule: SequentialRule, seed: int) -> tuple[Array, Array]:
    """Return β̂ and SE of every gate, look and chunk, (G, L, J)."""
    found: list[tuple[Array, Array]] = []
    for start in range(0, gates, BLOCK):
        size = min(BLOCK, gates - start)
        shown, delta = draw_gates(alpha_J, rule.max_pairs, SIGMA, size, child_seed(seed, "sequential", start))
        fits = [fit_gates(shown[:, :pairs], delta[:, :pairs]) for pairs in rule.looks()]
        se = [np.sqrt(np.einsum("gjj->gj", covariance)) for _, covariance in fits]
        found.append((np.stack([beta for beta, _ in fits], axis=1), np.stack(se, axis=1)))
    beta_GLJ, se_GLJ = (np.concatenate(part) for part in zip(*found, strict=True))
    return beta_GLJ, se_GLJ


def first(happens_GLJ: NDArray[np.bool_], pairs_L: NDArray[np.int64], never: int) -> NDArray[np.int64]:
    """Return the pairs at the first look where something happens, (G, J); ``never`` where it does not."""
    return np.where(happens_GLJ.any(axis=1), pairs_L[happens_GLJ.argmax(axis=1)], never)


def proportion(found_GJ: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Return a share over gates and chunks with its 95 % interval over gates."""
    share_G = found_GJ.mean(axis=1)
    mean, half = float(share_G.mean()), 1.96 * float(share_G.std(ddof=1)) / len(share_G) ** 0.5
    return round(mean, 4), round(max(mean - half, 0.0), 4), round(min(mean + half, 1.0), 4)


def rows_of(chunks: int, effect: float, gates: int, seed: int) -> list[dict[str, object]]:
    """Return one row per boundary and budget: a smaller budget's looks are the first looks of a larger one."""
    rule = rule_of(chunks)
    alpha_J = np.repeat([effect, 0.0], chunks // 2)
    beta_GLJ, se_GLJ = looks_of(alpha_J, gates, rule, seed)
    short = replace(rule, max_pairs=rule.planned_pairs)
    rows = []
    for part in (replace(short, boundary="spending"), short, rule):
        count = len(part.looks())
        row = row_of(beta_GLJ[:, :count], se_GLJ[:, :count], part, alpha_J)
        rows.append({"chunks": chunks, "effect": effect} | row)
    return rows


def row_of(beta_GLJ: Array, se_GLJ: Array, rule: SequentialRule, alpha_J: Array) -> dict[str, object]:
    """Return errors, power and pairs at one effect and budget."""
    pairs_L = np.array(rule.looks())
    half_GLJ = np.stack([rule.half_width(se_GLJ[:, k], k + 1) for k in range(len(pairs_L))], axis=1)
    low_GLJ, high_GLJ = beta_GLJ - half_GLJ, beta_GLJ + half_GLJ
    chunks = beta_GLJ.shape[2]
    worth, none = slice(0, chunks // 2), slice(chunks // 2, chunks)
    sees_GLJ = (low_GLJ > 0) | (high_GLJ < 0)
    naive_GLJ = np.abs(beta_GLJ) > 1.96 * se_GLJ
    small_GLJ = high_GLJ < WANTED
    decided_GJ = first(sees_GLJ | small_GLJ, pairs_L, rule.max_pairs)
    fixed = rule.looks().index(rule.planned_pairs)
    row: dict[str, object] = {"boundary": rule.boundary, "gates": len(beta_GLJ), "planned_pairs": rule.planned_pairs}
    row |= {"max_pairs": rule.max_pairs, "batch": rule.batch, "looks": len(pairs_L)}
    for name, shares in (
        ("useless_called_sequential", proportion(sees_GLJ[:, :, none].any(axis=1))),
        ("useless_called_naive_peeking", proportion(naive_GLJ[:, :, none].any(axis=1))),
        ("useless_called_one_look", proportion(naive_GLJ[:, fixed, none])),
        ("effect_seen_sequential", proportion((low_GLJ > 0)[:, :, worth].any(axis=1))),
        ("effect_seen_one_look", proportion((beta_GLJ > 1.96 * se_GLJ)[:, fixed, worth])),
        ("worth_dropped_as_too_small", proportion(_dropped(low_GLJ, high_GLJ)[:, worth])),
    ):
        row |= {name: shares[0], f"{name}_low": shares[1], f"{name}_high": shares[2]}
    stop_G = decided_GJ.max(axis=1)
    # What an interval of a gate of fixed size says when it is read where the gate stopped.
    at_G = np.searchsorted(pairs_L, stop_G)
    gate_G = np.arange(len(beta_GLJ))
    beta_GJ, half_GJ = beta_GLJ[gate_G, at_G], 1.96 * se_GLJ[gate_G, at_G]
    row["fixed_interval_covers_at_stop"] = round(float((np.abs(beta_GJ - alpha_J) <= half_GJ).mean()), 4)
    row["fixed_interval_calls_useless_at_stop"] = round(float((np.abs(beta_GJ) > half_GJ)[:, none].mean()), 4)
    row["pairs_per_useless_chunk"] = round(float(decided_GJ[:, none].mean()))
    row["pairs_per_effect_chunk"] = round(float(decided_GJ[:, worth].mean()))
    row["pairs_until_effects_seen"] = round(float(decided_GJ[:, worth].max(axis=1).mean()))
    row["pairs_of_gate"] = round(float(stop_G.mean()))
    row["pairs_saved"] = round(rule.planned_pairs - float(stop_G.mean()))
    return row


def _dropped(low_GLJ: Array, high_GLJ: Array) -> NDArray[np.bool_]:
    """Return which chunks are called too small before they are called helpful, (G, J)."""
    looks = np.arange(low_GLJ.shape[1])
    helps_GJ = first(low_GLJ > 0, looks, len(looks))
    small_GJ = first((high_GLJ < WANTED) & (low_GLJ <= 0), looks, len(looks))
    return small_GJ < helps_GJ


def main() -> None:
    """Run, print and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    began = time.perf_counter()
    rows = [row for case in product(POOLS, EFFECTS) for row in rows_of(*case, options.gates, options.seed)]
    write_csv(options.out, rows)
    for row in rows:
        print({name: value for name, value in row.items() if not name.endswith(("_low", "_high"))})
    print(f"{len(rows)} rows of {options.gates} gates in {time.perf_counter() - began:.1f} s → {options.out}")


if __name__ == "__main__":
    main()
