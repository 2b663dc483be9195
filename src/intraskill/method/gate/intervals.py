"""Means with their uncertainty: a reward is printed with its interval or not at all.

Source: Student's t interval; paired percentile bootstrap over tasks (Efron & Tibshirani 1993, ch. 13).
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean, stdev

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import PairingError, TooFewTasksError, offenders
from intraskill.method.randomness import child_seed

Panel = Mapping[str, float] | Sequence[float]
_BLOCK_ENTRIES = 2_000_000


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
    """Return mean ± t_{0.975, n−1} · s/√n of independent ``values``, (n,).

    Raises:
        TooFewTasksError: with fewer than two values: one number says nothing about its own spread.
        ValueError: with a value that is not finite.
    """
    require_two(len(values))
    data = np.asarray(values, dtype=float)
    if not np.isfinite(data).all():
        raise ValueError(f"an interval needs finite values; got {offenders(list(values))}")
    mean, n = float(data.mean()), int(data.size)
    se = float(data.std(ddof=1) / math.sqrt(n))
    half = t_quantile(0.975, n - 1) * se
    return Interval(mean, mean - half, mean + half, se, n)


def paired_bootstrap(before: Panel, after: Panel, *, seed: int, resamples: int = 10_000) -> Interval:
    """Return the mean of ``after − before`` with a 95 % percentile bootstrap interval over tasks.

    Args:
        before: value per task id, or values in panel order, (N,).
        after: the same panel.
        seed: seed of the resampling; equal arguments give equal intervals, whatever the order of the mappings.
        resamples: number of bootstrap samples.

    Raises:
        PairingError: if the panels differ or are empty.
        TooFewTasksError: if they hold one task, whose resamples would all be equal and claim certainty.
    """
    first, second = aligned(before, after)
    require_two(len(first))
    difference_N = second - first
    n = int(difference_N.size)
    rng = np.random.Generator(np.random.PCG64(child_seed(seed, "bootstrap", n, resamples)))
    block = max(1, _BLOCK_ENTRIES // n)
    means = np.concatenate(
        [
            difference_N[rng.integers(0, n, size=(min(block, resamples - start), n))].mean(axis=1)
            for start in range(0, resamples, block)
        ]
    )
    low, high = np.quantile(means, [0.025, 0.975])
    return Interval(float(difference_N.mean()), float(low), float(high), float(means.std(ddof=1)), n)


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
    return "" if error is None else f"reward {fmean(scored):.3f} ± {error:.3f}"


def standard_error(values: Sequence[float]) -> float | None:
    """Return s/√n, or ``None`` below two values."""
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
