"""Do chunks change one another's effect? A screen of all pairs with a stated false-alarm rate: a warning, no decision.

    R − B = C β + Z γ + ε          Z_k = C_a C_b for every pair of chunks that enough rows show together

γ is shrunk by ridge, β is not: γ̂ = (Zᵀ M Z + λ I)⁻¹ Zᵀ M (R − B) with M the residual maker of C. Each γ̂_k is a sum of
one term per task; with no interaction these terms have mean 0, whatever their variances, so flipping their signs task
by task gives draws of the null. The largest |γ̂_k / its SD| of each flip makes p-values that hold for all pairs at
once: with no interaction anywhere the screen warns with probability ``alarm_rate``.

Shape letters: N rows, J chunks, K pairs of chunks, G tasks, F flips.

Source: Hemerik, Goeman & Finos 2020 (sign-flipped score contributions); Westfall & Young 1993 (max-T).
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from intraskill.method.errors import RankDeficientError
from intraskill.method.least_squares import take_apart
from intraskill.method.pairs import Pairs, Vector
from intraskill.method.randomness import child_seed
from intraskill.method.skill import ChunkId

PENALTY = 20.0
"""λ, in rows: shrinks an interaction as if its two chunks had been seen together 20 more times without any."""
MIN_TOGETHER = 10
"""Rows that must show both chunks of a pair before it is screened; rivals of one slot never are."""


@dataclass(frozen=True, slots=True, eq=False)
class InteractionScreen:
    """What the screen found.

    Attributes:
        pairs: (K,) screened pairs of chunks.
        gamma_K: shrunken interactions, reward units.
        p_K: p-values, adjusted for all K pairs.
        alarm_rate: probability of a warning when no chunks interact.
        not_screened: pairs that too few rows show together.
    """

    pairs: tuple[tuple[ChunkId, ChunkId], ...]
    gamma_K: Vector
    p_K: Vector
    alarm_rate: float
    not_screened: tuple[tuple[ChunkId, ChunkId], ...]

    @property
    def warnings(self) -> tuple[tuple[ChunkId, ChunkId], ...]:
        """Pairs whose interaction is larger than chance explains."""
        return tuple(pair for pair, p in zip(self.pairs, self.p_K, strict=True) if p <= self.alarm_rate)


def screen_interactions(
    pairs: Pairs, *, seed: int, alarm_rate: float = 0.05, penalty: float = PENALTY, flips: int = 999
) -> InteractionScreen:
    """Screen all pairs of chunks for interactions.

    Args:
        pairs: audited pairs; several rows of a task are flipped together.
        seed: of the sign flips.
        alarm_rate: probability of a warning when no chunks interact; at least 1 / (``flips`` + 1).
        penalty: λ ≥ 0 in rows.
        flips: number of null draws.

    Raises:
        RankDeficientError: if the pairs cannot separate the chunks, or ``penalty`` is 0 and they cannot separate the
            interactions.
    """
    if len(pairs.chunk_ids) < 2:
        return _nothing_to_screen(alarm_rate, ())
    basis = take_apart(pairs.design_NJ, pairs.chunk_ids, pairs.task_ids, "CR3")
    screened, rest = _split(pairs)
    if not screened:
        return _nothing_to_screen(alarm_rate, rest)
    columns = {chunk_id: pairs.design_NJ[:, j] for j, chunk_id in enumerate(pairs.chunk_ids)}
    span_NJ = basis.orthonormal_NP
    products_NK = np.column_stack([columns[a] * columns[b] for a, b in screened])
    products_NK -= span_NJ @ (span_NJ.T @ products_NK)
    residual_N = pairs.delta_N - span_NJ @ (span_NJ.T @ pairs.delta_N)
    try:
        gram_KK = products_NK.T @ products_NK + penalty * np.eye(len(screened))
        terms_NK = np.linalg.solve(gram_KK, products_NK.T).T * residual_N[:, None]
    except np.linalg.LinAlgError as error:
        raise RankDeficientError(
            f"{len(pairs.task_ids)} rows cannot separate {len(screened)} interactions; use a penalty above 0"
        ) from error
    terms_GK = np.stack([terms_NK[rows].sum(axis=0) for rows in basis.clusters])
    return InteractionScreen(screened, terms_GK.sum(axis=0), _max_t(terms_GK, seed, flips), alarm_rate, rest)


def _nothing_to_screen(alarm_rate: float, rest: tuple[tuple[ChunkId, ChunkId], ...]) -> InteractionScreen:
    return InteractionScreen((), np.zeros(0), np.zeros(0), alarm_rate, rest)


def _split(pairs: Pairs) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the pairs of chunks that are seen together often enough, and the others."""
    together_JJ = pairs.design_NJ.T @ pairs.design_NJ
    every = list(combinations(range(len(pairs.chunk_ids)), 2))
    named = {(a, b): (pairs.chunk_ids[a], pairs.chunk_ids[b]) for a, b in every}
    often = [(a, b) for a, b in every if together_JJ[a, b] >= MIN_TOGETHER]
    return tuple(named[k] for k in often), tuple(named[k] for k in every if k not in set(often))


def _max_t(terms_GK: Vector, seed: int, flips: int) -> Vector:
    """Return p-values adjusted by the largest statistic of each flip, (K,)."""
    squares_K: Vector = np.square(terms_GK).sum(axis=0)
    squares_K[squares_K == 0.0] = np.inf
    unit_GK = terms_GK / np.sqrt(squares_K)
    rng = np.random.Generator(np.random.PCG64(child_seed(seed, "interaction flips", flips)))
    signs_FG = np.where(rng.random((flips, len(unit_GK))) < 0.5, -1.0, 1.0)
    largest_F = np.abs(signs_FG @ unit_GK).max(axis=1)
    observed_K = np.abs(unit_GK.sum(axis=0))
    exceeded_K = (largest_F[:, None] >= observed_K * (1.0 - 1e-12)).sum(axis=0)
    p_K: Vector = (1.0 + exceeded_K) / (1.0 + flips)
    return p_K
