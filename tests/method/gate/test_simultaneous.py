"""Intervals that cover together: their critical value against its definition, their error rate under the null."""

import numpy as np
import pytest
from method_records import pairs_of
from scipy.integrate import quad
from scipy.stats import chi, norm

from intraskill.method.gate.estimators import fit
from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.simultaneous import critical_value, sides, together


def record(correlation_JJ: np.ndarray, degrees: int, beta_J: np.ndarray | None = None) -> Contributions:
    chunks = len(correlation_JJ)
    zeros = np.zeros(chunks) if beta_J is None else beta_J
    return Contributions(
        chunk_ids=tuple(f"c{j}" for j in range(chunks)), beta_J=zeros, se_J=np.ones(chunks), low_J=zeros, high_J=zeros,
        num_pairs=100, visible_J=np.ones(chunks, dtype=np.int64), residual_sd=1.0, rank=chunks, condition_number=1.0,
        max_leverage=0.1, degrees=degrees, covariance_JJ=correlation_JJ,
    )  # fmt: skip


@pytest.mark.parametrize(("chunks", "degrees"), [(3, 10), (12, 60), (12, 388), (64, 200)])
def test_independent_chunks_need_the_studentized_maximum_modulus(chunks: int, degrees: int) -> None:
    c = critical_value(np.eye(chunks), degrees)

    # P(max |Z_j| ≤ c S) over the distribution of S = χ/√df: the definition, integrated numerically.
    def density(s: float) -> float:
        covered = 2.0 * norm.cdf(c * s) - 1.0
        return float(covered**chunks * chi.pdf(s * np.sqrt(degrees), degrees) * np.sqrt(degrees))

    assert quad(density, 0.0, 5.0)[0] == pytest.approx(0.95, abs=0.003)


def test_chunks_that_move_as_one_need_no_more_than_one() -> None:
    tied = critical_value(np.full((8, 8), 1.0 - 1e-9) + 1e-9 * np.eye(8), 50)
    assert tied == pytest.approx(t_quantile(0.975, 50), rel=0.01)
    assert critical_value(np.eye(8), 50) > 1.3 * tied


def test_one_chunk_and_none() -> None:
    assert critical_value(np.eye(1), 20) == t_quantile(0.975, 20)
    assert together(record(np.eye(0), 20))[0].size == 0


def test_a_chunk_far_from_0_by_itself_may_be_unclear_among_many() -> None:
    found = record(np.eye(12), 200, np.array([2.2, -5.0, 3.5] + [0.0] * 9))
    assert t_quantile(0.975, 200) < 2.2
    rest = tuple(f"c{j}" for j in range(3, 12))
    assert sides(found, 1.0) == {"helps": ("c2",), "hurts": ("c1",), "negligible": (), "unclear": ("c0", *rest)}
    assert sides(found, 3.0) == {"helps": ("c2",), "hurts": ("c1",), "negligible": rest, "unclear": ("c0",)}


def test_a_chunk_worth_delta_is_called_negligible_in_at_most_5_percent_of_gates() -> None:
    rng, names, delta = np.random.default_rng(6), "ABCD", 0.1
    wrong, right, gates = 0, 0, 300
    for _ in range(gates):
        shown_NJ = rng.random((400, len(names))) < 0.5
        reward_N = delta * shown_NJ.sum(axis=1) + rng.normal(0.0, 0.3, 400)  # all four on the edge: the hardest case
        wrong += bool(sides(fit(pairs_of(shown_NJ.tolist(), reward_N.tolist(), names)), delta)["negligible"])
        nothing_N = rng.normal(0.0, 0.3, 400)
        right += bool(sides(fit(pairs_of(shown_NJ.tolist(), nothing_N.tolist(), names)), delta)["negligible"])
    assert wrong <= 0.05 * gates + 2 * np.sqrt(0.05 * 0.95 * gates)
    assert right > 0.9 * gates


def test_a_null_gate_names_a_chunk_in_5_percent_of_gates_and_the_pointwise_intervals_in_a_third() -> None:
    rng, names = np.random.default_rng(5), "ABCDEFGHI"
    named, alone = 0, 0
    gates = 300
    for _ in range(gates):
        shown_NJ = rng.random((120, len(names))) < 0.5
        found = fit(pairs_of(shown_NJ.tolist(), rng.normal(0.0, 0.4, 120).tolist(), names))
        low_J, high_J = together(found)
        named += bool(((low_J > 0.0) | (high_J < 0.0)).any())
        alone += bool(((found.low_J > 0.0) | (found.high_J < 0.0)).any())
    assert named <= 0.05 * gates + 2 * np.sqrt(0.05 * 0.95 * gates)
    assert alone > 0.25 * gates
