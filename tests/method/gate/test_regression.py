"""Law 7: contributions against their definition, the textbook HC3, and designs that cannot be separated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import ids, pairs_of, scored
from numpy.typing import NDArray

from intraskill.method.errors import RankDeficientError
from intraskill.method.gate.estimators import fit
from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.pairs import pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import BARE

RTOL = 1e-9
ATOL = 1e-12
NAMES = "abcdef"


def design_of(seed: int, rows: int, columns: int) -> NDArray[np.bool_]:
    return np.random.default_rng(seed).random((rows, columns)) < 0.5


def textbook_hc3(design_NJ: NDArray[np.float64], delta_N: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
    """(β, SE) by the formulas, one observation at a time."""
    bread = np.linalg.inv(design_NJ.T @ design_NJ)
    beta = bread @ design_NJ.T @ delta_N
    meat = np.zeros_like(bread)
    for row, delta in zip(design_NJ, delta_N, strict=True):
        leverage = row @ bread @ row
        residual = (delta - row @ beta) / (1.0 - leverage)
        meat += residual**2 * np.outer(row, row)
    return beta, np.sqrt(np.diag(bread @ meat @ bread))


def fitted(design: NDArray[np.bool_], delta: NDArray[np.float64]) -> Contributions:
    return fit(pairs_of(design.tolist(), delta.tolist(), NAMES[: design.shape[1]]))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5))
def test_contributions_meet_the_textbook_formulas(seed: int, chunks: int) -> None:
    design = design_of(seed, 60, chunks)
    delta = np.random.default_rng(seed + 1).normal(size=60)
    got = fitted(design, delta)
    beta, se = textbook_hc3(design.astype(float), delta)
    np.testing.assert_allclose(got.beta_J, beta, RTOL, ATOL)
    np.testing.assert_allclose(got.se_J, se, RTOL, ATOL)
    half = t_quantile(0.975, 60 - chunks) * se
    np.testing.assert_allclose([got.low_J, got.high_J], [beta - half, beta + half], 1e-7)
    residual = delta - design @ beta
    assert got.residual_sd == pytest.approx(np.sqrt(residual @ residual / (60 - chunks)))
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got.se_J, se * (1 + 1e-6), RTOL, ATOL)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got.beta_J, beta + 1e-6, RTOL, ATOL)


def test_each_component_is_regressed_on_its_own_differences() -> None:
    got = fitted(design_of(1, 40, 3), np.random.default_rng(2).normal(size=40))
    assert set(got.parts) == {"r_strict", "r_half"}
    np.testing.assert_allclose(got.parts["r_strict"], (got.beta_J, got.se_J), RTOL)
    np.testing.assert_allclose(got.parts["r_half"], (got.beta_J / 2, got.se_J / 2), RTOL)
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got.parts["r_half"], (got.beta_J, got.se_J), RTOL)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=5).filter(any), st.integers(0, 1000))
def test_planted_contributions_come_back_exactly_without_noise(beta: list[float], seed: int) -> None:
    design = design_of(seed, 80, len(beta))
    got = fitted(design, design @ np.array(beta))
    np.testing.assert_allclose(got.beta_J, beta, atol=1e-9)
    assert got.residual_sd < 1e-9
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(got.beta_J, np.array(beta) + 1e-6, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(0.01, 100), st.permutations(range(4)))
def test_contributions_are_equivariant_to_scale_and_permutation(seed: int, scale: float, order: list[int]) -> None:
    design, delta = design_of(seed, 50, 4), np.random.default_rng(seed).normal(size=50)
    straight = fitted(design, delta)
    scaled = fitted(design, delta * scale)
    permuted = fitted(design[:, order], delta)
    np.testing.assert_allclose([scaled.beta_J, scaled.se_J], [straight.beta_J * scale, straight.se_J * scale], 1e-7)
    np.testing.assert_allclose(permuted.se_J, straight.se_J[order], 1e-7)
    np.testing.assert_allclose(permuted.beta_J, straight.beta_J[order], 1e-7, 1e-12)


def test_the_fit_reports_its_design() -> None:
    design = design_of(3, 50, 4)
    got = fitted(design, np.random.default_rng(0).normal(size=50))
    hat = design @ np.linalg.pinv(design.astype(float))
    assert (got.num_pairs, got.rank) == (50, 4)
    assert got.visible_J.tolist() == design.sum(axis=0).tolist()
    assert got.max_leverage == pytest.approx(np.diag(hat).max())
    assert got.condition_number == pytest.approx(np.linalg.cond(design.astype(float)))
    assert got.condition_number != pytest.approx(np.linalg.cond(design[:, :3].astype(float)))


def test_no_chunks_is_legal() -> None:
    bare, masked = ([scored("t", reward), scored("u", 0.0)] for reward in (0.0, 1.0))
    pairs = pair(bare, masked, {"t": (BARE,), "u": (BARE,)}, ())
    got = fit(pairs)
    assert (got.chunk_ids, got.beta_J.shape, got.rank, got.num_pairs) == ((), (0,), 0, 2)
    assert got.residual_sd == pytest.approx(np.sqrt(0.5))
    assert got.by_chunk == {}


def test_an_all_zero_row_is_a_valid_row() -> None:
    got = fitted(np.array([[True], [True], [False]]), np.array([1.0, 3.0, 7.0]))
    assert got.beta_J[0] == pytest.approx(2.0)
    assert got.num_pairs == 3


def test_chunks_always_shown_together_are_refused_by_name() -> None:
    design = design_of(0, 40, 4)
    design[:, 2] = design[:, 0]
    with pytest.raises(RankDeficientError, match=f"cannot separate these chunks, 2: {ids('a')[0]}, {ids('c')[0]};"):
        fitted(design, np.zeros(40))


def test_a_chunk_that_no_pair_shows_is_refused_by_name() -> None:
    design = design_of(0, 40, 3)
    design[:, 1] = False
    with pytest.raises(RankDeficientError, match=f"chunks that no pair shows, 1: {ids('b')[0]};"):
        fitted(design, np.zeros(40))


def test_a_contribution_that_one_task_decides_is_refused() -> None:
    design = design_of(0, 40, 3)
    design[:, 1] = False
    design[7, 1] = True
    with pytest.raises(RankDeficientError, match="tasks that alone decide some contribution, 1: task-0007"):
        fitted(design, np.zeros(40))


def test_fewer_pairs_than_chunks_are_refused() -> None:
    with pytest.raises(RankDeficientError, match="3 pairs cannot give 3 contributions a standard error"):
        fitted(np.eye(3, dtype=bool), np.zeros(3))


@pytest.mark.parametrize("chunks", [1, 4])
def test_a_contribution_that_is_exactly_zero_is_zero_and_not_the_rounding_of_it(chunks: int) -> None:
    not_zero = 0
    for seed in range(60):
        half = design_of(seed, 50, chunks)
        delta = np.random.default_rng(seed).integers(-20, 21, 50) / 20.0
        order = np.random.default_rng(seed + 1).permutation(100)
        design, tied = np.vstack([half, half])[order], np.concatenate([delta, -delta])[order]  # Σ C (R − B) = 0
        assert fitted(design, tied).beta_J.tolist() == [0.0] * chunks
        raw = np.linalg.lstsq(design.astype(float), tied, rcond=None)[0]
        not_zero += int((raw != 0.0).sum())
        tied[np.flatnonzero(design[:, 0])[0]] += 0.05
        assert abs(fitted(design, tied).beta_J[0]) > 1e-8  # one reward of 0.05 more is no tie
    assert not_zero > 0  # the sum of floats misses zero, so the fit has to know its own rounding
