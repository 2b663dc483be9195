"""Shrinkage: what a chunk is probably worth once all coefficients of a gate are seen together (empirical Bayes).

    y | α ~ N(α, Σ)                       measured coefficients and their covariance
    α | τ ~ N(0, τ² (I + κ 11ᵀ))          chunks of one document scatter by τ around a common mean of order √κ · τ
    s² / (s² + τ²) ~ U(0, 1)              s² the harmonic mean of the variances (uniform shrinkage prior)

τ is integrated on a fixed grid instead of plugged in: at τ̂² = 0, the usual outcome of a gate full of useless chunks, a
plug-in posterior has no width and would admit or retire the whole pool on the sign of its mean.

Source: Daniels (1999), a prior for the variance in hierarchical models; Efron & Morris (1975) for the idea.
Shape letters: J chunks, G grid points, R repetitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import ChunkId

Vector = NDArray[np.float64]
_GRID_POINTS = 48
COMMON_MEAN = 0.25
"""κ: chosen by simulated calibration; 0 ignores that a document's chunks share a mean, 1 lets it carry useless ones."""
SMALLEST_SE = 1e-9


@dataclass(frozen=True, slots=True)
class Evidence:
    """What earlier rounds said about one chunk: a value and its standard error, reward units."""

    value: float
    se: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Joint posterior of the contributions, a mixture of G normals.

    Attributes:
        weights_G: posterior weight of each grid point, sums to 1.
        spread_G: τ of each grid point.
        mean_GJ: posterior means given τ.
        covariance_GJJ: posterior covariances given τ.
    """

    weights_G: Vector
    spread_G: Vector
    mean_GJ: Vector
    covariance_GJJ: Vector

    @cached_property
    def mean_J(self) -> Vector:
        """Shrunk contributions, (J,)."""
        return np.asarray(self.weights_G @ self.mean_GJ)

    @cached_property
    def sd_J(self) -> Vector:
        """Posterior standard deviations, (J,)."""
        within_GJ = np.einsum("gjj->gj", self.covariance_GJJ)
        second_J = self.weights_G @ (within_GJ + np.square(self.mean_GJ))
        return np.asarray(np.sqrt(np.maximum(second_J - np.square(self.mean_J), 0.0)))

    @cached_property
    def probability_J(self) -> Vector:
        """P(α_j > 0), (J,)."""
        sd_GJ = np.sqrt(np.einsum("gjj->gj", self.covariance_GJJ))
        return np.asarray(self.weights_G @ _normal_cdf(self.mean_GJ / sd_GJ))

    @property
    def spread(self) -> float:
        """Posterior mean of τ: how much the chunks really differ, reward units."""
        return float(self.weights_G @ self.spread_G)

    def probability_positive(self, contrast_J: Vector) -> float:
        """Return P(Σ_j c_j α_j > 0), for example of a slot's new side minus its old one."""
        mean_G = self.mean_GJ @ contrast_J
        sd_G = np.sqrt(np.einsum("j,gjk,k->g", contrast_J, self.covariance_GJJ, contrast_J))
        return float(self.weights_G @ _normal_cdf(mean_G / sd_G))


class Shrinkage:
    """The posterior as a function of the coefficients, prepared once for one covariance.

    Args:
        covariance_JJ: Σ of the coefficients.
    """

    def __init__(self, covariance_JJ: Vector) -> None:
        num_chunks = len(covariance_JJ)
        noise_JJ = covariance_JJ + SMALLEST_SE**2 * np.eye(num_chunks)
        typical = num_chunks / float(np.sum(1.0 / np.diag(noise_JJ))) if num_chunks else 1.0
        kept_G = (np.arange(_GRID_POINTS) + 0.5) / _GRID_POINTS
        self.spread_G = np.sqrt(typical * (1.0 - kept_G) / kept_G)
        shape_JJ = np.eye(num_chunks) + COMMON_MEAN * np.ones((num_chunks, num_chunks))
        prior_GJJ = np.square(self.spread_G)[:, None, None] * shape_JJ
        total_GJJ = prior_GJJ + noise_JJ
        self._precision_GJJ = np.linalg.inv(total_GJJ)
        self._log_det_G = np.linalg.slogdet(total_GJJ)[1]
        self._gain_GJJ = prior_GJJ @ self._precision_GJJ
        # Σ T⁻¹ P equals P − P T⁻¹ P without the cancellation that would cost a large τ its variance.
        covariance_GJJ = noise_JJ @ self._precision_GJJ @ prior_GJJ
        self.covariance_GJJ = (covariance_GJJ + covariance_GJJ.transpose(0, 2, 1)) / 2.0

    def posterior(self, value_J: Vector) -> Posterior:
        """Return the posterior after one gate."""
        weights_G = self._weights(value_J[None])[0]
        return Posterior(weights_G, self.spread_G, self._gain_GJJ @ value_J, self.covariance_GJJ)

    def probabilities(self, value_RJ: Vector) -> tuple[Vector, Vector]:
        """Return P(α > 0) and posterior means of R gates that share Σ, (R, J) each."""
        weights_RG = self._weights(value_RJ)
        sd_GJ = np.sqrt(np.einsum("gjj->gj", self.covariance_GJJ))
        probability_RJ, mean_RJ = np.zeros_like(value_RJ), np.zeros_like(value_RJ)
        for g in range(_GRID_POINTS):  # one grid point at a time: (R, G, J) would not fit in a cache
            mean_one = value_RJ @ self._gain_GJJ[g].T
            probability_RJ += weights_RG[:, g, None] * _normal_cdf(mean_one / sd_GJ[g])
            mean_RJ += weights_RG[:, g, None] * mean_one
        return probability_RJ, mean_RJ

    def _weights(self, value_RJ: Vector) -> Vector:
        fit_RG = np.stack([np.sum((value_RJ @ inverse) * value_RJ, axis=1) for inverse in self._precision_GJJ], axis=1)
        log_RG = -0.5 * (fit_RG + self._log_det_G)
        raw_RG = np.exp(log_RG - log_RG.max(axis=1, keepdims=True))
        return np.asarray(raw_RG / raw_RG.sum(axis=1, keepdims=True))


def coefficient_covariance(contributions: Contributions) -> tuple[Vector, bool]:
    """Return Σ, (J, J), and whether the record has it; without it the coefficients count as independent.

    Independence is the cautious side: masks make coefficients negatively correlated, so their common mean is better
    known than independence admits.
    """
    if contributions.covariance_JJ is not None:
        return np.asarray(contributions.covariance_JJ, dtype=np.float64), True
    return np.diag(np.square(contributions.se_J)), False


def carry_over(rounds: Sequence[Contributions], discount: float) -> dict[ChunkId, Evidence]:
    """Condense earlier rounds, oldest first, into one `Evidence` per chunk for the next gate.

    A round's precision counts ``discount`` times as much in each later round, since the checkpoint moves: 0 forgets,
    ½ is right for a drift as large as a standard error.

    Raises:
        ConfigError: for a discount outside [0, 1).
    """
    if not 0.0 <= discount < 1.0:
        raise ConfigError(f"the discount of earlier rounds must lie in [0, 1), got {discount}")
    precision: dict[ChunkId, float] = {}
    weighted: dict[ChunkId, float] = {}
    for found in rounds:
        for chunk_id, value, se in zip(found.chunk_ids, found.beta_J, found.se_J, strict=True):
            weight = 1.0 / max(float(se), SMALLEST_SE) ** 2
            precision[chunk_id] = precision.get(chunk_id, 0.0) + weight
            weighted[chunk_id] = weighted.get(chunk_id, 0.0) + weight * float(value)
        precision = {chunk_id: discount * value for chunk_id, value in precision.items()}
        weighted = {chunk_id: discount * value for chunk_id, value in weighted.items()}
    return {
        chunk_id: Evidence(weighted[chunk_id] / value, value**-0.5)
        for chunk_id, value in precision.items()
        if value > 0.0
    }


def shrink(contributions: Contributions, earlier: Mapping[ChunkId, Evidence] | None = None) -> Posterior:
    """Return the joint posterior of a gate's contributions, with what earlier rounds said about its chunks.

    Raises:
        ConfigError: when earlier evidence has no positive standard error.
    """
    covariance_JJ, _ = coefficient_covariance(contributions)
    value_J = np.asarray(contributions.beta_J, dtype=np.float64)
    known = {chunk_id: told for chunk_id, told in (earlier or {}).items() if chunk_id in contributions.by_chunk}
    if bad := [chunk_id for chunk_id, told in known.items() if not told.se > 0.0]:
        raise ConfigError(f"earlier evidence without a positive standard error, {offenders(bad)}; drop it")
    if known:
        num_chunks = len(value_J)
        now_JJ = np.linalg.inv(covariance_JJ + SMALLEST_SE**2 * np.eye(num_chunks))
        told_J = np.array([known[j].value if j in known else 0.0 for j in contributions.chunk_ids])
        weight_J = np.array([known[j].se ** -2 if j in known else 0.0 for j in contributions.chunk_ids])
        covariance_JJ = np.linalg.inv(now_JJ + np.diag(weight_J))
        value_J = covariance_JJ @ (now_JJ @ value_J + weight_J * told_J)
    return Shrinkage(covariance_JJ).posterior(value_J)


def _normal_cdf(z: Vector) -> Vector:
    from scipy.special import ndtr  # slow to import: not before a posterior is asked for

    return np.asarray(ndtr(z))
