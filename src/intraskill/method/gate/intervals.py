"""Means with their uncertainty: a reward is printed with its interval or not at all.

Source: Student's t interval.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import PairingError, TooFewTasksError, offenders

Panel = Mapping[str, float] | Sequence[float]


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean and its 95 % interval.

    Attributes:
        mean: point estimate, reward units.
        low: lower end.
        high: upper end.
        se: standard error.
        n: number of independent units, tasks usually.
    """

    mean: float
    low: float
    high: float
    se: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:+.4f} [{self.low:+.4f}, {self.high:+.4f}]"


@dataclass(frozen=True, slots=True)
class PairedCounts:
    """How two evaluations of one panel differ, in tasks; the four numbers sum to the panel's size."""

    gained: int
    lost: int
    both: int
    neither: int


def require_two(count: int) -> None:
    """Refuse an interval over fewer than two tasks.

    Raises:
        TooFewTasksError: for 0 or 1.
    """
    if count < 2:
        raise TooFewTasksError(
            f"an interval needs at least 2 scored tasks, got {count} (a task whose every rollout was a fault does not "
            "count); use more tasks"
        )


def mean_interval(values: Sequence[float]) -> Interval:
    """Return mean ± t_{0.975, n−1} · s/√n of independent ``values``, (n,), without a range, such as effects of seeds.

    Rewards and successes have a range: `intraskill.method.gate.bounded` is for them.

    Raises:
        TooFewTasksError: with fewer than two values: one number says nothing about its own spread.
        ValueError: with a value that is not finite.
    """
    require_two(len(values))
    return t_interval(finite(values))


def t_interval(values_N: NDArray[np.float64]) -> Interval:
    """Return Student's interval of at least two finite values, (N,)."""
    mean, n = float(values_N.mean()), int(values_N.size)
    se = float(values_N.std(ddof=1) / math.sqrt(n))
    half = t_quantile(0.975, n - 1) * se
    return Interval(mean, mean - half, mean + half, se, n)


def finite(values: Sequence[float]) -> NDArray[np.float64]:
    """Return the values as an array, (n,).

    Raises:
        ValueError: with a value that is not finite.
    """
    data_N = np.asarray(values, dtype=float)
    if not np.isfinite(data_N).all():
        raise ValueError(f"an interval needs finite values; got {offenders(list(values))}")
    return data_N


def paired_counts(before: Panel, after: Panel) -> PairedCounts:
    """Count tasks gained, lost, solved in both and in neither; a task is solved at a value of 1 or more.

    Raises:
        PairingError: if the panels differ or are empty.
    """
    first, second = (values >= 1.0 for values in aligned(before, after))
    return PairedCounts(
        gained=int((~first & second).sum()),
        lost=int((first & ~second).sum()),
        both=int((first & second).sum()),
        neither=int((~first & ~second).sum()),
    )


def aligned(before: Panel, after: Panel) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return both panels as arrays in one task order, (N,) each.

    Raises:
        PairingError: if they hold different tasks, differ in length, are of different kinds, or are empty.
    """
    if isinstance(before, Mapping) != isinstance(after, Mapping):
        raise PairingError("one panel is keyed by task and the other is not; give both the same way")
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        if differing := sorted(set(before) ^ set(after)):
            raise PairingError(
                f"the panels differ in tasks, {offenders(differing)}; evaluate both on the same split and limit"
            )
        order = sorted(before)
        before, after = [before[task] for task in order], [after[task] for task in order]
    if len(before) != len(after) or len(before) == 0:
        raise PairingError(
            f"the panels have {len(before)} and {len(after)} tasks; a paired comparison needs the same, at least one"
        )
    first, second = np.asarray(before, dtype=float), np.asarray(after, dtype=float)
    if bad := [index for index in range(len(first)) if not np.isfinite(first[index] + second[index])]:
        raise PairingError(f"panel values that are not finite at rows {offenders(bad)}; re-run these tasks")
    return first, second


@lru_cache(maxsize=256)
def t_quantile(probability: float, degrees: int) -> float:
    """Return Student's t quantile for ``probability`` and ``degrees`` ≥ 1."""
    from scipy.special import stdtrit  # what scipy.stats.t calls, without the import of all of scipy.stats

    return float(stdtrit(degrees, probability))


def reward_note(rewards: Sequence[float | None]) -> str:
    """Return ``reward 0.312 ± 0.024``; never a reward without its standard error."""
    scored = [reward for reward in rewards if reward is not None]
    error = standard_error(scored)
    if error == 0.0:
        return f"reward {fmean(scored):.3f} in all {len(scored)}"
    return "" if error is None else f"reward {fmean(scored):.3f} ± {error:.3f}"


def standard_error(values: Sequence[float]) -> float | None:
    """Return s/√n, or ``None`` below two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
