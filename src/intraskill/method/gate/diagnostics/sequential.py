"""Sequential gates: look after every batch, stop when each chunk is decided, with an error that looking cannot inflate.

    mixture     valid at any look whatever, planned or not, for ever: with I = 1/SE² and a normal mixture of scale g,
                |β̂ − β| ≤ SE · √( (1 + 1/(g² I)) · (ln(1 + g² I) + 2 ln(1/error)) )   for all I at once.
                Narrowest, 3.0 standard errors at 5 %, near I = 8.8/g²
    spending    valid at the planned looks: wide at first, about 2.1 standard errors at the last (`spending`)

Both are asymptotic like the standard errors they stand on, so the first look needs pairs enough for those. A chunk
keeps the call of the look that decided it.

Source: Robbins (1970), normal mixture; Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas (2024) for asymptotic sequences.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from statistics import NormalDist
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, PairingError, counted
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import ChunkId

Vector = NDArray[np.float64]
_GRID = 401
_NORMAL = NormalDist()


@lru_cache(maxsize=64)
def spending_bounds(looks: tuple[int, ...], error: float) -> tuple[float, ...]:
    """Return z_k of every look.

    Args:
        looks: numbers of pairs at the looks, growing; the last is the budget.
        error: two-sided error over all looks, in (0, 1).

    Raises:
        ConfigError: for looks that do not grow, or an impossible error.
    """
    if not looks or looks[0] < 1 or any(a >= b for a, b in zip(looks, looks[1:], strict=False)):
        raise ConfigError(f"planned looks must grow from at least one pair, got {looks}")
    if not 0.0 < error < 1.0:
        raise ConfigError(f"the error must lie strictly between 0 and 1, got {error}")
    shares = [pairs / looks[-1] for pairs in looks]
    bounds: list[float] = []
    score, density = np.zeros(1), np.ones(1)  # a point mass at 0 before the first look
    before = 0.0
    for share in shares:
        step = (share - before) ** 0.5
        budget = spent(share, error) - (spent(before, error) if before else 0.0)
        edge = _edge(score, density, step, budget)
        bounds.append(edge / share**0.5)
        fresh = np.linspace(-edge, edge, _GRID)
        kernel = np.exp(-0.5 * np.square((fresh[:, None] - score[None, :]) / step)) / (step * (2 * np.pi) ** 0.5)
        density = (kernel @ density) * _simpson(edge)
        score, before = fresh, share
    return tuple(bounds)


def spent(share: float, error: float) -> float:
    """Return the error that may be spent by a share of the pairs, in (0, 1]."""
    return 4.0 * (1.0 - _NORMAL.cdf(_NORMAL.inv_cdf(1.0 - error / 4.0) / share**0.5))


def _edge(score: Vector, mass: Vector, step: float, budget: float) -> float:
    """Return the score beyond which a path ends with probability ``budget``, by bisection."""
    from scipy.special import ndtr  # slow to import: not before a sequential gate needs it

    low, high = 0.0, 12.0
    for _ in range(80):
        middle = (low + high) / 2.0
        crossing = float(mass @ (ndtr((score - middle) / step) + ndtr((-score - middle) / step)))
        low, high = (middle, high) if crossing > budget else (low, middle)
    return high


def _simpson(edge: float) -> Vector:
    weights = np.ones(_GRID)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    return np.asarray(weights * (2.0 * edge / (_GRID - 1) / 3.0))


Boundary: TypeAlias = Literal["mixture", "spending"]


class Call(StrEnum):
    """What a look decided about a chunk."""

    HELPS = "helps"
    HARMS = "harms"
    TOO_SMALL = "too_small"


@dataclass(frozen=True, slots=True)
class SequentialRule:
    """When to look and when to stop; written down before the first rollout.

    Attributes:
        planned_pairs: pairs of the fixed gate that this one replaces; the saving is counted against it.
        max_pairs: budget.
        batch: pairs between two looks.
        tight_se: the standard error at which the mixture is narrowest, for example the planner's at the budget.
        negligible: δ_min > 0; a chunk whose interval lies below it is not worth more pairs. ``None``: only effects
            decide.
        error: probability per chunk of ever excluding its true contribution, in (0, 1).
        first_look: fewest pairs before a look.
        boundary: ``mixture`` or ``spending``.
    """

    planned_pairs: int
    max_pairs: int
    batch: int
    tight_se: float
    negligible: float | None = None
    error: float = 0.05
    first_look: int = 100
    boundary: Boundary = "mixture"

    def __post_init__(self) -> None:
        if min(self.planned_pairs, self.max_pairs, self.batch, self.first_look) < 1:
            raise ConfigError("planned pairs, budget, batch and first look of a sequential gate must be 1 or more")
        if not (self.tight_se > 0.0 and (self.negligible is None or self.negligible > 0.0)):
            raise ConfigError(
                f"tight_se and negligible must be positive rewards, got {self.tight_se} and {self.negligible}"
            )
        if not 0.0 < self.error < 1.0:
            raise ConfigError(f"the error of a sequential gate must lie strictly between 0 and 1, got {self.error}")
        if self.boundary not in get_args(Boundary):
            raise ConfigError(f"unknown boundary {self.boundary!r}; choose one of {', '.join(get_args(Boundary))}")

    def looks(self) -> tuple[int, ...]:
        """Numbers of pairs at which to look; the last is the budget, with a remainder below half a batch."""
        first = min(max(self.first_look, self.batch), self.max_pairs)
        before = range(first, self.max_pairs, self.batch)
        return (*(pairs for pairs in before if 2 * (self.max_pairs - pairs) >= self.batch), self.max_pairs)

    def half_width(self, se: Vector, number: int) -> Vector:
        """Return half the width of the interval at standard errors ``se``, of any shape, at a look counted from 1.

        Raises:
            ConfigError: for a look that was not planned, where the boundary allows only planned ones.
        """
        if self.boundary == "mixture":
            return mixture_half_width(se, tight_se=self.tight_se, error=self.error)
        bounds = spending_bounds(self.looks(), self.error)
        if number > len(bounds):
            raise ConfigError(f"look {number} of {len(bounds)} planned ones; plan more looks, or use boundary mixture")
        return np.asarray(bounds[number - 1] * se)


def mixture_half_width(se: Vector, *, tight_se: float, error: float) -> Vector:
    """Return half the width of the normal mixture's confidence sequence; see the module's formula."""
    strength = 2.0 * math.log(1.0 / error)
    tightest = strength + math.log(1.0 + strength) + 1.0  # g² I at which the factor is smallest, to first order
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = tightest * np.square(tight_se / np.asarray(se, dtype=np.float64))
        width = se * np.sqrt((1.0 + 1.0 / ratio) * (np.log1p(ratio) + strength))
    return np.where(np.asarray(se) > 0.0, width, 0.0)


@dataclass(frozen=True, slots=True)
class Look:
    """State of a sequential gate after a look.

    Attributes:
        pairs: pairs seen so far.
        number: looks taken so far.
        calls: chunks that are decided, and how.
        decided_at: pairs at which each was decided.
        undecided: the others, in pool order.
    """

    pairs: int = 0
    number: int = 0
    calls: Mapping[ChunkId, Call] = field(default_factory=dict)
    decided_at: Mapping[ChunkId, int] = field(default_factory=dict)
    undecided: tuple[ChunkId, ...] = ()

    def stops(self, rule: SequentialRule) -> bool:
        """Whether every chunk is decided or the budget is spent."""
        return self.pairs > 0 and (not self.undecided or self.pairs >= rule.max_pairs)

    def saved(self, rule: SequentialRule) -> int:
        """Pairs saved against the fixed plan; negative when the gate went beyond it."""
        return rule.planned_pairs - self.pairs

    def words(self, rule: SequentialRule) -> str:
        """Say where the gate stands."""
        saved = self.saved(rule)
        against = f"{saved:,} fewer than planned" if saved >= 0 else f"{-saved:,} more than planned"
        state = f"{len(self.undecided)} undecided" if self.undecided else "every chunk decided"
        return f"{self.pairs:,} pairs ({against}): {counted(len(self.calls), 'chunk')} decided, {state}"


def look(previous: Look, contributions: Contributions, rule: SequentialRule) -> Look:
    """Return the state after a look at all pairs so far.

    Args:
        previous: the look before, or ``Look()``.
        contributions: fitted on every pair so far, those of earlier looks included.
        rule: the rule of the first look.

    Raises:
        PairingError: if the pairs did not grow, or the pool changed.
    """
    ids = contributions.chunk_ids
    if contributions.num_pairs <= previous.pairs:
        raise PairingError(
            f"a look needs more pairs than the {previous.pairs} of the look before, got {contributions.num_pairs}; "
            "fit on all pairs so far"
        )
    if previous.pairs and set(ids) != {*previous.calls, *previous.undecided}:
        raise PairingError("the pool changed between two looks; a sequential gate keeps its chunks until it stops")
    half_J = rule.half_width(contributions.se_J, previous.number + 1)
    low_J, high_J = contributions.beta_J - half_J, contributions.beta_J + half_J
    calls = {
        chunk_id: call_of(low, high, rule.negligible)
        for chunk_id, low, high in zip(ids, low_J.tolist(), high_J.tolist(), strict=True)
    }
    fresh = {chunk_id: call for chunk_id, call in calls.items() if call is not None and chunk_id not in previous.calls}
    return replace(
        previous,
        pairs=contributions.num_pairs,
        number=previous.number + 1,
        calls={**previous.calls, **fresh},
        decided_at={**previous.decided_at, **dict.fromkeys(fresh, contributions.num_pairs)},
        undecided=tuple(chunk_id for chunk_id in ids if chunk_id not in fresh and chunk_id not in previous.calls),
    )


def call_of(low: float, high: float, negligible: float | None) -> Call | None:
    """Return what an interval decides: an effect, none worth having (all of it below δ_min), or nothing yet."""
    if low > 0.0:
        return Call.HELPS
    if high < 0.0:
        return Call.HARMS
    if negligible is not None and high < negligible:
        return Call.TOO_SMALL
    return None
