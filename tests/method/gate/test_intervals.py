"""Intervals against their definitions and against the published numbers."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from intraskill.method.errors import PairingError, TooFewTasksError
from intraskill.method.gate.bounded import paired_interval
from intraskill.method.gate.intervals import mean_interval, paired_counts, t_quantile


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
    for compare in (paired_interval, paired_counts):
        with pytest.raises(PairingError, match=message):
            compare(before, after)


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
        paired_interval({"a": 0.0}, {"a": 1.0})
    assert paired_interval({"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 0.0}).se > 0.0


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
