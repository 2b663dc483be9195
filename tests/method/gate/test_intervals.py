"""Intervals against their definitions and against the published numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from intraskill.method.errors import PairingError, TooFewTasksError
from intraskill.method.gate.intervals import mean_interval, paired_bootstrap, paired_counts, t_quantile

RESAMPLING = 0.006
"""How far two bootstraps of 400 tasks may lie apart: the published ends move in steps of 1/400 = 0.0025."""


def panel(gained: int, lost: int, both: int, neither: int) -> tuple[list[float], list[float]]:
    before = [0.0] * gained + [1.0] * lost + [1.0] * both + [0.0] * neither
    after = [1.0] * gained + [0.0] * lost + [1.0] * both + [0.0] * neither
    return before, after


@pytest.mark.parametrize(
    ("counts", "mean", "low", "high"),
    [((139, 9, 198, 54), 0.325, 0.275, 0.375), ((19, 11, 326, 44), 0.020, -0.005, 0.0475)],
)
def test_the_published_intervals_come_back_from_the_published_counts(
    counts: tuple[int, int, int, int], mean: float, low: float, high: float
) -> None:
    before, after = panel(*counts)
    got = paired_bootstrap(before, after, seed=0)
    assert got.mean == pytest.approx(mean)
    assert got.n == 400
    assert got.low == pytest.approx(low, abs=RESAMPLING)
    assert got.high == pytest.approx(high, abs=RESAMPLING)
    unpaired = 1.96 * math.sqrt(np.var(before) / 400 + np.var(after) / 400)
    assert got.low != pytest.approx(mean - unpaired, abs=RESAMPLING)
    found = paired_counts(before, after)
    assert (found.gained, found.lost, found.both, found.neither) == counts


def test_the_bootstrap_standard_error_is_that_of_the_mean_difference() -> None:
    before, after = panel(60, 20, 80, 40)
    difference = np.array(after) - np.array(before)
    expected = difference.std() / math.sqrt(len(difference))
    got = paired_bootstrap(before, after, seed=1)
    assert got.se == pytest.approx(expected, rel=0.03)
    assert got.se != pytest.approx(np.std(before) / math.sqrt(200), rel=0.03)


def test_mappings_pair_by_task_and_order_does_not_matter() -> None:
    before, after = {"a": 0.0, "b": 1.0, "c": 0.0}, {"c": 1.0, "b": 1.0, "a": 0.0}
    got = paired_bootstrap(before, after, seed=3)
    assert got == paired_bootstrap(dict(reversed(before.items())), after, seed=3)
    assert got.mean == pytest.approx(1 / 3)
    assert paired_counts(before, after).gained == 1


def test_equal_arguments_give_equal_intervals_and_another_seed_others() -> None:
    values = np.random.default_rng(0).normal(size=50).tolist()
    zeros = [0.0] * 50
    assert paired_bootstrap(zeros, values, seed=1) == paired_bootstrap(zeros, values, seed=1)
    assert paired_bootstrap(zeros, values, seed=1) != paired_bootstrap(zeros, values, seed=2)


def test_large_panels_are_resampled_in_blocks() -> None:
    values = np.random.default_rng(0).normal(size=30_000).tolist()
    got = paired_bootstrap([0.0] * 30_000, values, seed=1, resamples=150)
    assert got.se == pytest.approx(1 / math.sqrt(30_000), rel=0.25)


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ({"a": 0.0, "b": 0.0}, {"a": 0.0, "c": 0.0}, "the panels differ in tasks, 2: b, c;"),
        ([0.0], [0.0, 1.0], "1 and 2 tasks"),
        ([], [], "0 and 0 tasks"),
        ({}, {}, "0 and 0 tasks"),
        ([0.0, math.nan], [0.0, 0.0], "not finite at rows 1: 1"),
        ({"a": 0.0}, [0.0], "one panel is keyed by task and the other is not"),
    ],
)
def test_panels_that_differ_are_refused(before: list[float], after: list[float], message: str) -> None:
    for compare in (lambda: paired_bootstrap(before, after, seed=0), lambda: paired_counts(before, after)):
        with pytest.raises(PairingError, match=message):
            compare()


def test_the_mean_interval_is_student_s() -> None:
    got = mean_interval([1.0, 2.0, 3.0, 4.0])
    se = math.sqrt(5 / 3) / 2
    assert (got.mean, got.n) == (2.5, 4)
    assert got.se == pytest.approx(se)
    assert got.high - got.mean == pytest.approx(3.1824463052842624 * se)
    assert got.high - got.mean != pytest.approx(1.96 * se)
    assert got.mean - got.low == pytest.approx(got.high - got.mean)


def test_one_task_says_nothing_about_the_spread_and_is_refused() -> None:
    for values in ([], [2.0]):
        with pytest.raises(TooFewTasksError, match=f"at least 2 scored tasks, got {len(values)}"):
            mean_interval(values)
    with pytest.raises(TooFewTasksError, match="got 1"):
        paired_bootstrap({"a": 0.0}, {"a": 1.0}, seed=0)
    assert paired_bootstrap({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 0.0}, seed=0).se > 0.0


def test_a_value_that_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="2: 0.0, nan"):
        mean_interval([0.0, math.nan])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.sampled_from([0.6, 0.9, 0.975, 0.995, 0.9999]))
def test_student_s_density_up_to_the_t_quantile_integrates_to_the_probability(degrees: int, probability: float) -> None:
    log_constant = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2

    def below(x: float) -> float:
        area, _ = quad(lambda u: math.exp(log_constant - (degrees + 1) / 2 * math.log1p(u * u / degrees)), 0.0, x)
        return 0.5 + area

    assert below(t_quantile(probability, degrees)) == pytest.approx(probability, abs=1e-7)
    assert below(t_quantile(probability, degrees) * 1.01) != pytest.approx(probability, abs=1e-7)
