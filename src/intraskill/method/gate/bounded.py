"""Intervals of means of values that have a range, such as rewards: never of width 0, never outside the range.

Student's t promises 95 % of wide panels only: of 20 tasks with a success rate of 5 % it covers 64 %, and where all 20
fail it claims certainty. So the interval follows what the values are:

- one run per task and success: Clopper & Pearson (1934), exact. Wilson's is narrower and covers 90.4 % at n = 10,
  p = 0.01 and 91.1 % at n = 50, p = 0.01; see `scripts/interval_coverage.py`;
- two successes of the same 10 tasks or more: Tango (1998), the score interval of a paired difference, with McNemar's
  exact test;
- graded values of a large panel: Student's t, where no single task carries a tenth of the spread;
- graded values of a small panel: the betting interval of Waudby-Smith & Ramdas (2024), valid for every n and every
  distribution on the range. It is 1.2 to 1.5 times as wide as t: what t leaves out is what the panel cannot know.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from intraskill.method.gate.intervals import Interval, Panel, aligned, finite, require_two, t_interval
from intraskill.method.randomness import child_seed
from intraskill.method.rewards import UNIT

Bounds = tuple[float, float]
_TAIL = 0.025
_Z = 1.959963984540054
_TANGO = 10
"""Pairs from which the score interval is used: 4 of 4 gained would exclude 0, whose exact p is 0.125."""
_LARGE = 100
"""Tasks from which t may be used: a tail of 3 % that no task showed is still likely below (0.97^50 = 0.22)."""
_LARGEST_SHARE = 0.1
_ORDERS = 8
_GRID = 1000
_BOLDNESS = 0.75
_RICH = 50.0
"""Log of the money from which more makes no difference."""


def bounded_interval(values: Sequence[float], bounds: Bounds = UNIT) -> Interval:
    """Return the mean of independent ``values``, (n,), with a 95 % interval inside ``bounds``.

    Args:
        values: one per task.
        bounds: smallest and largest value that there can be.

    Raises:
        TooFewTasksError: with fewer than two values.
        ValueError: with a value that is not finite or outside ``bounds``.
    """
    require_two(len(values))
    unit_N = _to_unit(finite(values), bounds)
    low, high = bounds
    shares = np.isin(unit_N, UNIT).all()
    ends = share_interval(int(unit_N.sum()), len(unit_N)) if shares else _graded(unit_N)
    return _interval(np.asarray(values, dtype=float), tuple(low + (high - low) * end for end in ends))


def paired_interval(before: Panel, after: Panel, bounds: Bounds = UNIT) -> Interval:
    """Return the mean of ``after − before`` over tasks with a 95 % interval inside its range.

    Args:
        before: value per task id, or values in panel order, (N,).
        after: the same panel.
        bounds: smallest and largest value that there can be in either panel.

    Raises:
        PairingError: if the panels differ or are empty.
        TooFewTasksError: if they hold one task.
        ValueError: with a value outside ``bounds``.
    """
    first_N, second_N = aligned(before, after)
    require_two(len(first_N))
    ends_of = [_to_unit(panel_N, bounds) for panel_N in (first_N, second_N)]
    width = bounds[1] - bounds[0]
    if len(first_N) >= _TANGO and all(np.isin(unit_N, UNIT).all() for unit_N in ends_of):
        gained, lost = (int(count) for count in _discordant(*ends_of))
        low, high = difference_interval(gained, lost, len(first_N))
    else:
        low, high = (2.0 * end - 1.0 for end in _graded((ends_of[1] - ends_of[0] + 1.0) / 2.0))
    return _interval(second_N - first_N, (width * low, width * high))


def share_interval(hits: int, trials: int) -> tuple[float, float]:
    """Return Clopper and Pearson's exact 95 % interval of a probability, from ``hits`` of ``trials`` ≥ 1."""
    from scipy.special import betaincinv

    low = betaincinv(hits, trials - hits + 1, _TAIL) if hits else 0.0
    high = betaincinv(hits + 1, trials - hits, 1.0 - _TAIL) if hits < trials else 1.0
    return float(low), float(high)


def difference_interval(gained: int, lost: int, tasks: int) -> tuple[float, float]:
    """Return Tango's 95 % score interval of P(gained) − P(lost), over ``tasks`` ≥ 1 pairs.

    The tasks solved by both and by neither count only in ``tasks``.
    """
    middle = (gained - lost) / tasks

    def score(difference: float) -> float:
        """Return z of the hypothesis that P(gained) − P(lost) is ``difference``, P(lost) at its likeliest."""
        half = 2 * tasks
        linear = (half - gained + lost) * difference - gained - lost
        constant = -lost * difference * (1.0 - difference)
        lost_share = (math.sqrt(max(0.0, linear**2 - 4 * half * constant)) - linear) / (2 * half)
        variance = tasks * (2.0 * lost_share + difference * (1.0 - difference))
        gap = gained - lost - tasks * difference
        return gap / math.sqrt(variance) if variance > 0.0 else math.copysign(math.inf, gap)

    low = _last(lambda end: score(end) <= _Z, middle, -1.0)
    high = _last(lambda end: score(end) >= -_Z, middle, 1.0)
    return low, high


def mcnemar(gained: int, lost: int) -> float:
    """Return the two-sided p of McNemar's exact test that gaining and losing a task are equally likely."""
    from scipy.special import bdtr

    changed = gained + lost
    return 1.0 if gained == lost else min(1.0, 2.0 * float(bdtr(min(gained, lost), changed, 0.5)))


def _discordant(before_N: NDArray[np.float64], after_N: NDArray[np.float64]) -> tuple[int, int]:
    return int((after_N > before_N).sum()), int((after_N < before_N).sum())


def _last(inside: Callable[[float], bool], start: float, end: float) -> float:
    """Return the last point from ``start`` towards ``end`` that is ``inside``, by bisection."""
    if inside(end):
        return end
    for _ in range(60):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return start


def _graded(unit_N: NDArray[np.float64]) -> tuple[float, float]:
    spread_N = (unit_N - unit_N.mean()) ** 2
    if len(unit_N) >= _LARGE and 0.0 < spread_N.max() <= _LARGEST_SHARE * spread_N.sum():
        student = t_interval(unit_N)
        return max(0.0, student.low), min(1.0, student.high)
    return _betting(unit_N)


def _betting(unit_N: NDArray[np.float64]) -> tuple[float, float]:
    """Return the ends of the hedged-capital interval of a mean on [0, 1].

    For each possible mean a player bets on the values, one after another, half his money on more and half on less; the
    means under which he never gets rich stay. How much he bets is fixed by earlier values only, so under the true mean
    his expected money is what he came with, and P(he has 20 times as much) ≤ 5 %. The average over several fixed orders
    keeps that property, and the order of the tasks hardly matters.
    """
    n = len(unit_N)
    mean_M = np.arange(_GRID + 1) / _GRID
    money_M = np.zeros_like(mean_M)
    rng = np.random.Generator(np.random.PCG64(child_seed(0, "betting", n)))
    with np.errstate(divide="ignore"):
        most_up_M, most_down_M = _BOLDNESS / mean_M, _BOLDNESS / (1.0 - mean_M)
    for _ in range(_ORDERS):
        values_N = unit_N[rng.permutation(n)]
        seen_N = np.arange(1, n + 1)
        guess_N = (0.5 + np.cumsum(values_N)) / (seen_N + 1)
        variance_N = (0.25 + np.cumsum((values_N - guess_N) ** 2)) / (seen_N + 1)
        earlier_N = np.concatenate(([0.25], variance_N[:-1]))
        bet_N1 = np.sqrt(2.0 * math.log(1.0 / _TAIL) / (earlier_N * n))[:, None]
        gap_NM = values_N[:, None] - mean_M
        up_M = np.log1p(np.minimum(bet_N1, most_up_M) * gap_NM).sum(axis=0)
        down_M = np.log1p(-np.minimum(bet_N1, most_down_M) * gap_NM).sum(axis=0)
        money_M += (np.exp(np.minimum(up_M, _RICH)) + np.exp(np.minimum(down_M, _RICH))) / (2 * _ORDERS)
    # One step of the grid outwards on each side: the true end lies between two points.
    poor = np.flatnonzero(money_M < 1.0 / (2.0 * _TAIL))
    return float(mean_M[max(poor[0] - 1, 0)]), float(mean_M[min(poor[-1] + 1, _GRID)])


def _to_unit(values_N: NDArray[np.float64], bounds: Bounds) -> NDArray[np.float64]:
    low, high = bounds
    if outside := sorted({float(value) for value in values_N if not low <= value <= high}):
        raise ValueError(
            f"{len(outside)} values lie outside the declared range [{low}, {high}], such as {outside[0]}; declare the "
            "range of the rewards in the environment"
        )
    return (values_N - low) / (high - low)


def _interval(values_N: NDArray[np.float64], ends: tuple[float, ...]) -> Interval:
    mean, n = float(values_N.mean()), len(values_N)
    return Interval(mean, min(ends[0], mean), max(ends[1], mean), float(values_N.std(ddof=1) / math.sqrt(n)), n)
