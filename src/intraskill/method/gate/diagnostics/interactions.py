"""Do chunks change one another's effect? A screen of all pairs with a false-alarm rate of about 5 %: no decision.

    R − B = C β + Z γ + ε          Z_k = C_a C_b for every pair of chunks that enough rows show together

γ is shrunk by ridge, β is not: γ̂ = W M (R − B) with W = (Zᵀ M Z + λ I)⁻¹ Zᵀ M and M = I − Q Qᵀ the residual maker of
C. Each γ̂_k is a sum of one term per task; with no interaction these terms have mean 0, whatever their variances, so
flipping their signs task by task gives draws of the null. Since β was fitted, flipped terms vary too little: under
equal variances w_kᵀ F M F w_k in place of w_kᵀ w_k. Each flip is therefore divided by its own SD, which matters with
few tasks for a column. The largest |γ̂_k / its SD| of each flip makes p-values that hold for all pairs at once: with
no interaction anywhere the screen warns with probability about `ALARM_RATE`.

Shape letters: N rows, J chunks, K pairs of chunks, G tasks, F flips (in formulas the diagonal of one).

Source: Hemerik, Goeman & Finos 2020 (sign-flipped score contributions); De Santis, Goeman, Hemerik & Finos
2022 (their SD by flip); Westfall & Young 1993 (max-T).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from intraskill.method.gate.pairs import Pairs, Vector
from intraskill.method.gate.regression import factorize
from intraskill.method.randomness import child_seed
from intraskill.method.skill.skill import ChunkId

ALARM_RATE = 0.05
"""About the probability of a warning when no chunks interact."""
_FLIPS = 999
"""Draws of the null."""
PENALTY = 20.0
"""λ, in rows: shrinks an interaction as if its two chunks had been seen together 20 more times without any."""
_MIN_TOGETHER = 10
"""Rows that must show both chunks of a pair before it is screened; rivals of one slot never are."""


@dataclass(frozen=True, slots=True, eq=False)
class InteractionScreen:
    """What the screen found.

    Attributes:
        pairs: (K,) screened pairs of chunks.
        gamma_K: shrunken interactions, reward units.
        p_K: p-values, adjusted for all K pairs.
        not_screened: pairs that too few rows show together.
    """

    pairs: tuple[tuple[ChunkId, ChunkId], ...]
    gamma_K: Vector
    p_K: Vector
    not_screened: tuple[tuple[ChunkId, ChunkId], ...]

    @property
    def warnings(self) -> tuple[tuple[ChunkId, ChunkId], ...]:
        """Pairs whose interaction is larger than chance explains."""
        return tuple(pair for pair, p in zip(self.pairs, self.p_K, strict=True) if p <= ALARM_RATE)


def screen_interactions(pairs: Pairs, *, seed: int) -> InteractionScreen:
    """Screen all pairs of chunks for interactions.

    Args:
        pairs: audited pairs; several rows of a task are flipped together.
        seed: of the sign flips.

    Raises:
        RankDeficientError: if the pairs cannot separate the chunks.
    """
    if len(pairs.chunk_ids) < 2:
        return _nothing_to_screen(())
    basis = factorize(pairs.design_NJ, pairs.chunk_ids, pairs.task_ids)
    screened, rest = _split(pairs)
    if not screened:
        return _nothing_to_screen(rest)
    columns = {chunk_id: pairs.design_NJ[:, j] for j, chunk_id in enumerate(pairs.chunk_ids)}
    span_NJ = basis.orthonormal_NP
    products_NK = np.column_stack([columns[a] * columns[b] for a, b in screened])
    products_NK -= span_NJ @ (span_NJ.T @ products_NK)
    residual_N = pairs.delta_N - span_NJ @ (span_NJ.T @ pairs.delta_N)
    gram_KK = products_NK.T @ products_NK + PENALTY * np.eye(len(screened))
    weights_NK = np.linalg.solve(gram_KK, products_NK.T).T
    terms_GK = _by_task(weights_NK * residual_N[:, None], basis.clusters)
    signs_FG = _signs(len(terms_GK), seed)
    lost_FK = np.zeros((len(signs_FG), len(screened)))
    for j in range(span_NJ.shape[1]):
        lost_FK += np.square(signs_FG @ _by_task(weights_NK * span_NJ[:, [j]], basis.clusters))
    squares_K = np.square(weights_NK).sum(axis=0)
    gamma_K = terms_GK.sum(axis=0)
    p_K = _max_t(signs_FG @ terms_GK, np.maximum(squares_K - lost_FK, 0.0), gamma_K, squares_K)
    return InteractionScreen(screened, gamma_K, p_K, rest)


def _by_task(terms_NK: Vector, clusters: Sequence[NDArray[np.intp]]) -> Vector:
    return np.stack([terms_NK[rows].sum(axis=0) for rows in clusters])


def _signs(tasks: int, seed: int) -> Vector:
    rng = np.random.Generator(np.random.PCG64(child_seed(seed, "interaction flips", _FLIPS)))
    return np.where(rng.random((_FLIPS, tasks)) < 0.5, -1.0, 1.0)


def _nothing_to_screen(rest: tuple[tuple[ChunkId, ChunkId], ...]) -> InteractionScreen:
    return InteractionScreen((), np.zeros(0), np.zeros(0), rest)


def _split(pairs: Pairs) -> tuple[tuple[tuple[str, str], ...], tuple[tuple[str, str], ...]]:
    """Return the pairs of chunks that are seen together often enough, and the others."""
    together_JJ = pairs.design_NJ.T @ pairs.design_NJ
    every = list(combinations(range(len(pairs.chunk_ids)), 2))
    named = {(a, b): (pairs.chunk_ids[a], pairs.chunk_ids[b]) for a, b in every}
    often = [(a, b) for a, b in every if together_JJ[a, b] >= _MIN_TOGETHER]
    return tuple(named[k] for k in often), tuple(named[k] for k in every if k not in set(often))


def _max_t(flipped_FK: Vector, variance_FK: Vector, observed_K: Vector, variance_K: Vector) -> Vector:
    """Return p-values adjusted by the largest statistic of each flip, (K,); variances up to one factor."""
    floor_K = np.where(variance_K > 0.0, 1e-9 * variance_K, np.inf)
    largest_F = (np.abs(flipped_FK) / np.sqrt(np.maximum(variance_FK, floor_K))).max(axis=1)
    seen_K = np.abs(observed_K) / np.sqrt(np.maximum(variance_K, floor_K))
    exceeded_K = (largest_F[:, None] >= seen_K * (1.0 - 1e-12)).sum(axis=0)
    p_K: Vector = (1.0 + exceeded_K) / (1.0 + len(flipped_FK))
    return p_K
