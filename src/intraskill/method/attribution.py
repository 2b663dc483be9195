"""Contributions: what each chunk is worth at this checkpoint, never without its standard error (method §7.2).

    R_i − B_i = C_iᵀ β + ε_i          no intercept, no centring, main effects only; α̂_j := β̂_j

β̂ is an additive approximation relative to bare: with interactions it is not the average marginal effect.
Shape letters: N pairs, J chunks.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import RankDeficientError, offenders
from intraskill.method.paired_validation import Pairs
from intraskill.method.skill import ChunkId

Vector = NDArray[np.float64]
CONFIDENCE = 0.95
_SATURATED_LEVERAGE = 1.0 - 1e-9


@dataclass(frozen=True, eq=False)
class Contributions:
    """Estimated contributions of the pool's chunks.

    Attributes:
        chunk_ids: (J,) in pool order.
        beta_J: β̂ of the main reward, reward units.
        se_J: HC3 standard errors.
        low_J: lower ends of the 95 % intervals (t with N − J degrees).
        high_J: upper ends.
        num_pairs: N.
        visible_J: number of pairs that showed each chunk.
        residual_sd: √(Σ ε̂² / (N − J)), reward units.
        rank: rank of the design, J.
        condition_number: of the design; 1 for an empty one.
        max_leverage: largest diagonal entry of the hat matrix.
        parts: (β̂, SE) of every reward component on its own differences, (J,) each.
    """

    chunk_ids: tuple[ChunkId, ...]
    beta_J: Vector
    se_J: Vector
    low_J: Vector
    high_J: Vector
    num_pairs: int
    visible_J: NDArray[np.int64]
    residual_sd: float
    rank: int
    condition_number: float
    max_leverage: float
    parts: Mapping[str, tuple[Vector, Vector]] = field(default_factory=dict)

    @cached_property
    def by_chunk(self) -> dict[ChunkId, float]:
        """β̂ by chunk id."""
        return dict(zip(self.chunk_ids, self.beta_J.tolist(), strict=True))


def fit_contributions(pairs: Pairs) -> Contributions:
    """Estimate β̂ by ordinary least squares with HC3 covariance (method §7.2); no chunks (J = 0) is legal.

    Raises:
        RankDeficientError: if the pairs cannot separate the chunks or leave no freedom for a standard error; the
            message names the chunks.

    Source: statsmodels ``OLS(...).fit(cov_type="HC3", use_t=True)``; HC3 of MacKinnon & White (1985),
    ``(XᵀX)⁻¹ Xᵀ diag(ε̂_i² / (1 − h_i)²) X (XᵀX)⁻¹``.
    """
    design_NJ = pairs.design_NJ
    num_pairs, num_chunks = design_NJ.shape
    if num_chunks == 0:
        return _nothing_to_estimate(pairs)
    leverage_N = _audit_design(pairs)
    main = _hc3(design_NJ, pairs.delta_N)
    return Contributions(
        chunk_ids=pairs.chunk_ids,
        beta_J=main.beta_J,
        se_J=main.se_J,
        low_J=main.low_J,
        high_J=main.high_J,
        num_pairs=num_pairs,
        visible_J=design_NJ.sum(axis=0).astype(np.int64),
        residual_sd=main.residual_sd,
        rank=num_chunks,
        condition_number=float(np.linalg.cond(design_NJ)),
        max_leverage=float(leverage_N.max()),
        parts={name: _hc3(design_NJ, delta_N).estimate for name, delta_N in pairs.part_deltas.items()},
    )


@dataclass(frozen=True, slots=True)
class _Fit:
    beta_J: Vector
    se_J: Vector
    low_J: Vector
    high_J: Vector
    residual_sd: float

    @property
    def estimate(self) -> tuple[Vector, Vector]:
        return self.beta_J, self.se_J


def _hc3(design_NJ: Vector, delta_N: Vector) -> _Fit:
    from statsmodels.regression.linear_model import OLS  # slow to import: not before a gate needs it

    fit = OLS(delta_N, design_NJ).fit(cov_type="HC3", use_t=True)
    low_J, high_J = np.asarray(fit.conf_int(alpha=1.0 - CONFIDENCE)).T
    return _Fit(np.asarray(fit.params), np.asarray(fit.bse), low_J, high_J, float(np.sqrt(fit.scale)))


def _audit_design(pairs: Pairs) -> Vector:
    """Return the leverages, (N,), or refuse a design that cannot separate the chunks."""
    design_NJ = pairs.design_NJ
    num_pairs, num_chunks = design_NJ.shape
    if num_pairs <= num_chunks:
        raise RankDeficientError(
            f"{num_pairs} pairs cannot give {num_chunks} contributions a standard error; use more validation tasks"
        )
    shown_J = design_NJ.sum(axis=0)
    if hidden := [chunk_id for chunk_id, shown in zip(pairs.chunk_ids, shown_J, strict=True) if shown == 0]:
        raise RankDeficientError(f"chunks that no pair shows, {offenders(hidden)}; use more validation tasks")
    _, singular_J, right_JJ = np.linalg.svd(design_NJ, full_matrices=False)
    if singular_J[-1] <= singular_J[0] * max(design_NJ.shape) * np.finfo(float).eps:
        tied = [pairs.chunk_ids[j] for j in np.flatnonzero(np.abs(right_JJ[-1]) > 1e-6)]
        raise RankDeficientError(
            f"the visible sets cannot separate these chunks, {offenders(tied)}; use more validation tasks"
        )
    leverage_N: Vector = np.square(np.linalg.qr(design_NJ)[0]).sum(axis=1)
    alone = [pairs.task_ids[i] for i in np.flatnonzero(leverage_N >= _SATURATED_LEVERAGE)]
    if alone:
        raise RankDeficientError(
            f"tasks that alone decide some contribution, {offenders(alone)}: it would have no standard error; "
            "use more validation tasks"
        )
    return leverage_N


def _nothing_to_estimate(pairs: Pairs) -> Contributions:
    empty = np.zeros(0)
    return Contributions(
        chunk_ids=(),
        beta_J=empty,
        se_J=empty,
        low_J=empty,
        high_J=empty,
        num_pairs=len(pairs.task_ids),
        visible_J=np.zeros(0, dtype=np.int64),
        residual_sd=float(np.sqrt(np.mean(np.square(pairs.delta_N)))),
        rank=0,
        condition_number=1.0,
        max_leverage=0.0,
        parts={name: (empty, empty) for name in pairs.part_deltas},
    )
