"""Intervals of rewards and successes: their coverage by enumeration, their ends against other implementations."""

import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest, multinomial
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.proportion import proportion_confint

from intraskill.method.errors import TooFewTasksError
from intraskill.method.gate.bounded import (
    bounded_interval,
    difference_interval,
    mcnemar,
    paired_interval,
    share_interval,
)
from intraskill.method.gate.intervals import mean_interval, paired_counts

GOAL = 0.93


def panel(gained: int, lost: int, both: int, neither: int) -> tuple[list[float], list[float]]:
    before = [0.0] * gained + [1.0] * lost + [1.0] * both + [0.0] * neither
    after = [1.0] * gained + [0.0] * lost + [1.0] * both + [0.0] * neither
    return before, after


def share_coverage(tasks: int, rate: float, interval=share_interval) -> float:  # type: ignore[no-untyped-def]
    ends = [interval(hits, tasks) for hits in range(tasks + 1)]
    return float(sum(binom.pmf(hits, tasks, rate) for hits, (low, high) in enumerate(ends) if low <= rate <= high))


@pytest.mark.parametrize(("tasks", "rate"), list(product((10, 20, 50, 240), (0.01, 0.05, 0.5))))
def test_the_interval_of_a_success_rate_covers_it_at_every_size(tasks: int, rate: float) -> None:
    assert share_coverage(tasks, rate) >= 0.95

    def student(hits: int, trials: int) -> tuple[float, float]:
        found = mean_interval([1.0] * hits + [0.0] * (trials - hits))
        return found.low, found.high

    if tasks * rate <= 2.5:
        assert share_coverage(tasks, rate, student) < GOAL


def test_wilson_s_interval_misses_the_goal_where_successes_are_rare() -> None:
    def wilson(hits: int, trials: int) -> tuple[float, float]:
        low, high = proportion_confint(hits, trials, method="wilson")
        return float(low), float(high)

    assert share_coverage(10, 0.01, wilson) < GOAL
    assert share_coverage(50, 0.01, wilson) < GOAL


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
@settings(max_examples=80, deadline=None)
def test_the_interval_of_a_share_is_clopper_s_and_pearson_s(counts: tuple[int, int]) -> None:
    hits, trials = counts
    assert share_interval(hits, trials) == pytest.approx(proportion_confint(hits, trials, method="beta"), abs=1e-12)


@pytest.mark.parametrize("tasks", [10, 20, 50])
def test_the_interval_of_a_paired_difference_covers_it(tasks: int) -> None:
    ends = {
        (gained, lost): difference_interval(gained, lost, tasks)
        for gained, lost in product(range(tasks + 1), repeat=2)
        if gained + lost <= tasks
    }
    for gain, loss in product((0.001, 0.01, 0.05, 0.3), repeat=2):
        true, covered = gain - loss, 0.0
        for (gained, lost), (low, high) in ends.items():
            if low <= true <= high:
                counts = (gained, lost, tasks - gained - lost)
                covered += float(multinomial.pmf(counts, tasks, (gain, loss, 1.0 - gain - loss)))
        assert covered >= GOAL, (gain, loss)


@pytest.mark.parametrize(
    ("counts", "mean", "low", "high"),
    [((139, 9, 198, 54), 0.325, 0.275, 0.375), ((19, 11, 326, 44), 0.020, -0.005, 0.0475)],
)
def test_the_published_intervals_come_back_from_the_published_counts(
    counts: tuple[int, int, int, int], mean: float, low: float, high: float
) -> None:
    before, after = panel(*counts)
    got = paired_interval(before, after)
    assert (got.mean, got.n) == (pytest.approx(mean), 400)
    # The published ends are a bootstrap's, which move in steps of 1/400.
    assert (got.low, got.high) == (pytest.approx(low, abs=0.006), pytest.approx(high, abs=0.006))
    unpaired = 1.96 * math.sqrt(np.var(before) / 400 + np.var(after) / 400)
    assert got.low != pytest.approx(mean - unpaired, abs=0.006)
    counted = paired_counts(before, after)
    assert (counted.gained, counted.lost, counted.both, counted.neither) == counts


@pytest.mark.parametrize("counts", [(12, 2, 44), (139, 9, 400), (3, 1, 20)])
def test_the_ends_of_a_paired_difference_solve_the_score_equation(counts: tuple[int, int, int]) -> None:
    low, high = difference_interval(*counts)
    assert score(*counts, low) == pytest.approx(1.959964, abs=1e-4)
    assert score(*counts, high) == pytest.approx(-1.959964, abs=1e-4)


def score(gained: int, lost: int, tasks: int, difference: float) -> float:
    """Maximise the multinomial likelihood over the nuisance by a grid search, then form z: the definition."""
    shares = np.linspace(max(0.0, -difference), (1.0 - difference) / 2.0, 2_000_001)[1:-1]
    up = shares + difference
    likelihood = gained * np.log(up) + lost * np.log(shares) + (tasks - gained - lost) * np.log(1.0 - up - shares)
    lost_share = shares[likelihood.argmax()]
    gap = gained - lost - tasks * difference
    return float(gap / math.sqrt(tasks * (2.0 * lost_share + difference - difference**2)))


@given(st.integers(0, 60), st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_mcnemar_s_exact_p_is_that_of_statsmodels_and_scipy(gained: int, lost: int) -> None:
    table = [[5, gained], [lost, 7]]
    assert mcnemar(gained, lost) == pytest.approx(float(statsmodels_mcnemar(table, exact=True).pvalue), rel=1e-9)
    if gained + lost:
        assert mcnemar(gained, lost) == pytest.approx(binomtest(gained, gained + lost).pvalue, rel=1e-9)


WORLDS = {
    "rare purchases": (lambda rng, n: (rng.random(n) < 0.1) * (0.2 + 0.8 * rng.random(n)), 0.06),
    "a tail that small panels miss": (lambda rng, n: np.where(rng.random(n) < 0.03, 1.0, 0.1 * rng.random(n)), 0.0785),
    "one value and a rare other": (lambda rng, n: np.where(rng.random(n) < 0.02, 1.0, 0.5), 0.51),
    "wide": (lambda rng, n: rng.beta(0.3, 0.5, n), 0.375),
}


@pytest.mark.parametrize("tasks", [10, 50, 240])
@pytest.mark.parametrize("world", WORLDS)
def test_the_interval_of_graded_rewards_covers_the_mean(world: str, tasks: int) -> None:
    draw, mean = WORLDS[world]
    rng = np.random.default_rng(7)
    panels = [bounded_interval(draw(rng, tasks).tolist()) for _ in range(200)]
    covered = sum(one.low <= mean <= one.high for one in panels)
    assert covered >= 0.9 * len(panels)  # 93 % less two standard errors of 200 draws


def test_student_s_interval_would_not_cover_them() -> None:
    draw, mean = WORLDS["a tail that small panels miss"]
    rng = np.random.default_rng(7)
    panels = [mean_interval(draw(rng, 50).tolist()) for _ in range(200)]
    assert sum(one.low <= mean <= one.high for one in panels) < 0.85 * len(panels)


def test_a_wide_spread_over_a_large_panel_is_student_s() -> None:
    values = np.random.default_rng(0).random(240)
    assert bounded_interval(values.tolist()) == mean_interval(values.tolist())
    assert bounded_interval(values[:99].tolist()) != mean_interval(values[:99].tolist())


@given(
    st.lists(st.sampled_from([0.0, 0.2, 0.5, 1.0]), min_size=2, max_size=40),
    st.sampled_from([(0.0, 1.0), (-3.0, 7.5)]),
)
@settings(max_examples=60, deadline=None)
def test_no_interval_is_empty_or_leaves_the_range(values: list[float], bounds: tuple[float, float]) -> None:
    low, high = bounds
    scaled = [low + (high - low) * value for value in values]
    got = bounded_interval(scaled, bounds)
    assert low <= got.low <= got.mean <= got.high <= high
    assert got.high - got.low > 0.0
    change = paired_interval(scaled, scaled[::-1], bounds)
    assert low - high <= change.low <= change.mean <= change.high <= high - low
    assert change.high - change.low > 0.0


def test_mappings_pair_by_task_and_order_does_not_matter() -> None:
    before = {f"t{index}": float(index % 3 == 0) / 2 for index in range(12)}
    after = {task: float(index % 2) for index, task in enumerate(before)}
    got = paired_interval(before, after)
    assert got == paired_interval(dict(reversed(before.items())), after)
    assert got.mean == pytest.approx(sum(after.values()) / 12 - sum(before.values()) / 12)


def test_a_value_outside_the_range_and_a_panel_of_one_are_refused() -> None:
    with pytest.raises(ValueError, match=r"2 values lie outside the declared range \[0.0, 1.0\], such as -3.0;"):
        bounded_interval([0.0, 7.5, -3.0])
    with pytest.raises(TooFewTasksError, match="got 1"):
        bounded_interval([1.0])
