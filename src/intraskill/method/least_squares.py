"""Least squares whose standard errors come from leaving tasks out: HC3, and its form for tasks with several rows.

    β̂ = (XᵀX)⁻¹ Xᵀ y,    H = X (XᵀX)⁻¹ Xᵀ
    s_g = β̂ − β̂₍₋g₎ = (XᵀX)⁻¹ X_gᵀ (I − H_gg)⁻¹ ε̂_g          what leaving out cluster g changes, exactly
    V = Σ_g s_g s_gᵀ                                          Student's t with G − P degrees

With one row per cluster V is HC3, Σ (XᵀX)⁻¹ x xᵀ (XᵀX)⁻¹ ε̂² / (1 − h)². With several it is CR3, the cluster jackknife
centred at β̂. One formula serves both, so a gate with one row per task gets the same numbers under either name. CR1
understates the variance when clusters are few or have leverage; CR3 errs to the safe side. The s_g also give the
interval of any other function of the same tasks (`intraskill.method.additivity`).

Shape letters: N rows, P columns, G clusters.

Source: MacKinnon & White 1985 (HC3); Bell & McCaffrey 2002, MacKinnon, Nielsen & Webb 2023 (CR3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, RankDeficientError, offenders
from intraskill.method.intervals import t_quantile
from intraskill.method.pairs import Vector

Covariance = Literal["HC3", "CR3"]
CONFIDENCE = 0.95
_SATURATED_LEVERAGE = 1.0 - 1e-9
_TIED = 1e-6
_ROUNDING = 8.0 * float(np.finfo(float).eps)


@dataclass(frozen=True, slots=True, eq=False)
class Basis:
    """A design taken apart once and used for every reward component.

    Attributes:
        design_NP: X.
        inverse_PN: its pseudo-inverse.
        orthonormal_NP: orthonormal columns that span X; their squared row sums are the leverages.
        clusters: row numbers of each cluster.
        condition_number: ratio of the extreme singular values.
        max_leverage: largest diagonal entry of H.
    """

    design_NP: Vector
    inverse_PN: Vector
    orthonormal_NP: Vector
    clusters: tuple[NDArray[np.intp], ...]
    condition_number: float
    max_leverage: float

    @property
    def degrees(self) -> int:
        """G − P."""
        return len(self.clusters) - int(self.design_NP.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """A fitted regression.

    Attributes:
        beta_P: β̂.
        shift_GP: β̂ − β̂ without cluster g; what `covariance` is made of.
        residual_sd: √(Σ ε̂² / (N − P)).
        degrees: of Student's t.
    """

    beta_P: Vector
    shift_GP: Vector
    residual_sd: float
    degrees: int

    @property
    def covariance_PP(self) -> Vector:
        """V."""
        return self.shift_GP.T @ self.shift_GP

    @property
    def se_P(self) -> Vector:
        """Standard errors."""
        variance_P: Vector = np.square(self.shift_GP).sum(axis=0)
        return np.sqrt(variance_P)

    @property
    def half_P(self) -> Vector:
        """Half widths of the 95 % intervals."""
        return t_quantile(0.5 + CONFIDENCE / 2, self.degrees) * self.se_P


def take_apart(design_NP: Vector, names: Sequence[str], task_ids: Sequence[str], covariance: Covariance) -> Basis:
    """Audit a design and decompose it.

    Args:
        design_NP: X, with at least one column.
        names: (P,) of the columns, for messages.
        task_ids: (N,) task of each row, for messages and as clusters.
        covariance: ``HC3`` takes rows as independent, ``CR3`` takes tasks as independent.

    Raises:
        RankDeficientError: if the rows cannot separate the columns or leave no freedom for a standard error; the
            message names the columns or the tasks.
        ConfigError: for an unknown covariance.
    """
    if covariance not in get_args(Covariance):
        raise ConfigError(f"unknown covariance {covariance!r}; choose one of {', '.join(get_args(Covariance))}")
    clusters = _clusters(task_ids, covariance)
    _audit_counts(design_NP, names, len(clusters), len(task_ids))
    left_NP, singular_P, right_PP = np.linalg.svd(design_NP, full_matrices=False)
    if singular_P[-1] <= singular_P[0] * max(design_NP.shape) * np.finfo(float).eps:
        tied = [names[p] for p in np.flatnonzero(np.abs(right_PP[-1]) > _TIED).tolist()]
        raise RankDeficientError(
            f"the visible sets cannot separate these chunks, {offenders(tied)}; use more validation tasks"
        )
    leverage_G = _cluster_leverage(left_NP, clusters)
    alone = [task_ids[int(clusters[g][0])] for g in np.flatnonzero(leverage_G >= _SATURATED_LEVERAGE).tolist()]
    if alone:
        raise RankDeficientError(
            f"tasks that alone decide some contribution, {offenders(alone)}: it would have no standard error; "
            "use more validation tasks"
        )
    return Basis(
        design_NP=design_NP,
        inverse_PN=right_PP.T @ (left_NP / singular_P).T,
        orthonormal_NP=left_NP,
        clusters=clusters,
        condition_number=float(singular_P[0] / singular_P[-1]),
        max_leverage=float(np.square(left_NP).sum(axis=1).max()),
    )


def least_squares(basis: Basis, outcome_N: Vector) -> LeastSquares:
    """Regress an outcome, (N,), on the columns of ``basis``; a β̂ within its own rounding of 0 is 0, a tie."""
    beta_P = basis.inverse_PN @ outcome_N
    # β̂ > 0 decides, so an exact tie must not be settled by the last bit of a sum.
    noise_P = _ROUNDING * basis.condition_number * (np.abs(basis.inverse_PN) @ np.abs(outcome_N))
    beta_P[np.abs(beta_P) <= noise_P] = 0.0
    residual_N = outcome_N - basis.design_NP @ beta_P
    shift_GP = np.empty((len(basis.clusters), len(beta_P)))
    for numbers, rows_BR in _by_size(basis.clusters):
        q_BRP = basis.orthonormal_NP[rows_BR]
        rest_BRR = np.eye(rows_BR.shape[1]) - q_BRP @ q_BRP.transpose(0, 2, 1)
        left_out_BR1 = np.linalg.solve(rest_BRR, residual_N[rows_BR][..., None])
        shift_GP[numbers] = np.einsum("pbr,br->bp", basis.inverse_PN[:, rows_BR], left_out_BR1[..., 0])
    freedom = len(outcome_N) - len(beta_P)
    return LeastSquares(beta_P, shift_GP, float(np.sqrt(residual_N @ residual_N / freedom)), basis.degrees)


def _clusters(task_ids: Sequence[str], covariance: Covariance) -> tuple[NDArray[np.intp], ...]:
    if covariance == "HC3":
        return tuple(np.arange(len(task_ids))[:, None])
    rows: dict[str, list[int]] = {}
    for row, task_id in enumerate(task_ids):
        rows.setdefault(task_id, []).append(row)
    return tuple(np.array(numbers, dtype=np.intp) for numbers in rows.values())


def _by_size(clusters: Sequence[NDArray[np.intp]]) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Return, for each cluster size R, the numbers of the B clusters that have it, (B,), and their rows, (B, R)."""
    sizes = np.fromiter(map(len, clusters), dtype=np.intp, count=len(clusters))
    batches = [np.flatnonzero(sizes == size) for size in np.unique(sizes)]
    rows = [clusters if len(batches) == 1 else [clusters[g] for g in numbers.tolist()] for numbers in batches]
    return [
        (numbers, np.concatenate(picked).reshape(len(numbers), -1))
        for numbers, picked in zip(batches, rows, strict=True)
    ]


def _cluster_leverage(left_NP: Vector, clusters: Sequence[NDArray[np.intp]]) -> Vector:
    """Return the largest eigenvalue of each H_gg, (G,): 1 means that without g some contribution is undetermined."""
    leverage_G = np.empty(len(clusters))
    for numbers, rows_BR in _by_size(clusters):
        q_BRP = left_NP[rows_BR]
        single = rows_BR.shape[1] == 1
        hat_BRR = np.square(q_BRP).sum(axis=2, keepdims=True) if single else q_BRP @ q_BRP.transpose(0, 2, 1)
        leverage_G[numbers] = hat_BRR[:, 0, 0] if single else np.linalg.eigvalsh(hat_BRR)[:, -1]
    return leverage_G


def _audit_counts(design_NP: Vector, names: Sequence[str], num_clusters: int, num_rows: int) -> None:
    columns = len(names)
    if num_clusters <= columns:
        units = f"{num_rows} pairs" if num_clusters == num_rows else f"{num_rows} rows of {num_clusters} tasks"
        raise RankDeficientError(
            f"{units} cannot give {columns} contributions a standard error; use more validation tasks"
        )
    shown_P = np.abs(design_NP).sum(axis=0)
    if hidden := [name for name, shown in zip(names, shown_P, strict=True) if shown == 0]:
        raise RankDeficientError(f"chunks that no pair shows, {offenders(hidden)}; use more validation tasks")
