"""Contributions: what each chunk is worth at this checkpoint, never without its standard error (method §7.2).

A model of audited rows (`intraskill.method.gate.estimators`) is fitted by statsmodels' OLS. With one row per task its
HC3 covariance is taken. With several rows per task the covariance is CR3, V = Σ_g (β̂ − β̂₋g)(β̂ − β̂₋g)ᵀ, whole tasks
left out; with one row per task the two are equal. β̂ is an additive approximation relative to bare: with interactions it
is not the average marginal effect.

Shape letters: N rows, G tasks, J chunks, Q nuisance columns, P = J + Q.

Source: MacKinnon & White (1985), HC3; Bell & McCaffrey (2002), the cluster jackknife CR3.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from intraskill.method.errors import EditError, NoVariationError, RankDeficientError, offenders
from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.pairs import MAIN_PART, Parts, Vector
from intraskill.method.skill.skill import ChunkId, Visible

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
        clusters: row numbers of each task.
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

    @property
    def covariance(self) -> str:
        """``HC3`` with one row per task, else ``CR3``."""
        return "HC3" if len(self.clusters) == len(self.design_NP) else "CR3"


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """A fitted regression.

    Attributes:
        beta_P: β̂.
        covariance_PP: V, robust to unequal variances.
        residual_N: ε̂.
        residual_sd: √(Σ ε̂² / (N − P)).
        degrees: of Student's t.
    """

    beta_P: Vector
    covariance_PP: Vector
    residual_N: Vector
    residual_sd: float
    degrees: int

    @property
    def se_P(self) -> Vector:
        """Standard errors."""
        return np.sqrt(np.diag(self.covariance_PP))

    @property
    def half_P(self) -> Vector:
        """Half widths of the 95 % intervals."""
        return t_quantile(0.5 + CONFIDENCE / 2, self.degrees) * self.se_P


def factorize(design_NP: Vector, names: Sequence[str], task_ids: Sequence[str]) -> Basis:
    """Audit a design and decompose it.

    Args:
        design_NP: X, with at least one column.
        names: (P,) of the columns, for messages.
        task_ids: (N,) task of each row; rows of one task are not independent.

    Raises:
        RankDeficientError: if the rows cannot separate the columns or leave no freedom for a standard error; the
            message names the columns or the tasks.
    """
    clusters = _clusters(task_ids)
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
    from statsmodels.regression.linear_model import OLS  # slow to import: not before a gate is fitted

    fitted = OLS(outcome_N, basis.design_NP).fit()
    beta_P: Vector = np.array(fitted.params)
    # β̂ > 0 decides, so an exact tie must not be settled by the last bit of a sum.
    noise_P = _ROUNDING * basis.condition_number * (np.abs(basis.inverse_PN) @ np.abs(outcome_N))
    beta_P[np.abs(beta_P) <= noise_P] = 0.0
    residual_N = outcome_N - basis.design_NP @ beta_P
    if basis.covariance == "HC3":
        covariance_PP = np.asarray(fitted.cov_HC3)
    else:
        shift_GP = left_out_shifts(basis, residual_N)
        covariance_PP = shift_GP.T @ shift_GP
    residual_sd = float(np.sqrt(residual_N @ residual_N / (len(outcome_N) - len(beta_P))))
    return LeastSquares(beta_P, covariance_PP, residual_N, residual_sd, basis.degrees)


def left_out_shifts(basis: Basis, residual_N: Vector) -> Vector:
    """Return β̂ − β̂ without task g, (G, P), for a fit with these residuals."""
    shift_GP = np.empty((len(basis.clusters), basis.design_NP.shape[1]))
    for numbers, rows_BR in _by_size(basis.clusters):
        q_BRP = basis.orthonormal_NP[rows_BR]
        rest_BRR = np.eye(rows_BR.shape[1]) - q_BRP @ q_BRP.transpose(0, 2, 1)
        left_out_BR1 = np.linalg.solve(rest_BRR, residual_N[rows_BR][..., None])
        shift_GP[numbers] = np.einsum("pbr,br->bp", basis.inverse_PN[:, rows_BR], left_out_BR1[..., 0])
    return shift_GP


def _clusters(task_ids: Sequence[str]) -> tuple[NDArray[np.intp], ...]:
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


@dataclass(frozen=True, eq=False)
class Contributions:
    """Estimated contributions of the pool's chunks.

    Attributes:
        chunk_ids: (J,) in pool order.
        beta_J: β̂ of the main reward, reward units.
        se_J: standard errors, robust to unequal variances.
        low_J: lower ends of the 95 % intervals (Student's t with `degrees`).
        high_J: upper ends.
        num_pairs: N.
        visible_J: number of rows that showed each chunk.
        residual_sd: √(Σ ε̂² / (N − J − Q)), reward units.
        rank: rank of the design, J + Q.
        condition_number: of the design; 1 for an empty one.
        max_leverage: largest diagonal entry of the hat matrix.
        parts: (β̂, SE) of every reward component on its own outcome, (J,) each.
        estimator: name of the model.
        covariance: ``HC3`` (rows are independent) or ``CR3`` (tasks are, each with several rows).
        nuisance: names of the columns beside the chunks, such as ``intercept`` and ``bare``, (Q,).
        degrees: degrees of freedom of the intervals: independent units − J − Q.
        num_tasks: number of tasks behind the rows.
        covariance_JJ: of β̂, for any sum or difference of contributions; ``None`` in records of older runs.
        notes: what the fit had to do with incomplete input, in words.
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
    estimator: str = "paired_ols"
    covariance: str = "HC3"
    nuisance: tuple[str, ...] = ()
    degrees: int = 0
    num_tasks: int = 0
    covariance_JJ: Vector | None = None
    notes: tuple[str, ...] = ()

    @cached_property
    def by_chunk(self) -> dict[ChunkId, float]:
        """β̂ by chunk id."""
        return dict(zip(self.chunk_ids, self.beta_J.tolist(), strict=True))

    def without(self, chunk_ids: Collection[ChunkId]) -> "Contributions":
        """Return the record without some chunks' entries, such as placebos; the fit itself stays as it was.

        Raises:
            EditError: if a chunk is not among the contributions.
        """
        if unknown := sorted(set(chunk_ids) - set(self.chunk_ids)):
            raise EditError(f"no contribution of these chunks was estimated, {offenders(unknown)}; name chunks of it")
        keep = [j for j, chunk_id in enumerate(self.chunk_ids) if chunk_id not in chunk_ids]
        joint = self.covariance_JJ
        return replace(
            self,
            chunk_ids=tuple(self.chunk_ids[j] for j in keep),
            beta_J=self.beta_J[keep],
            se_J=self.se_J[keep],
            low_J=self.low_J[keep],
            high_J=self.high_J[keep],
            visible_J=self.visible_J[keep],
            parts={name: (beta_J[keep], se_J[keep]) for name, (beta_J, se_J) in self.parts.items()},
            covariance_JJ=None if joint is None else joint[np.ix_(keep, keep)],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """A model of audited rows, ready to be fitted.

    Attributes:
        estimator: its name.
        task_ids: (N,) task of each row.
        chunk_ids: (J,) in pool order.
        design_NJ: C.
        outcomes: outcome of every reward component, (N,) each.
        nuisance: columns beside the chunks by name, (N,) each, shared by all components.
        own_nuisance: columns that each component has for itself: by column name, then component, (N,) each.
        notes: what went into it, in words.
    """

    estimator: str
    task_ids: tuple[str, ...]
    chunk_ids: tuple[ChunkId, ...]
    design_NJ: Vector
    outcomes: Parts
    nuisance: Mapping[str, Vector] = field(default_factory=dict)
    own_nuisance: Mapping[str, Parts] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def num_tasks(self) -> int:
        """Number of tasks behind the rows."""
        return len(set(self.task_ids))

    def columns(self, part: str) -> dict[str, Vector]:
        """Nuisance columns of one component; a constant column of its own is left out."""
        own = {name: columns[part] for name, columns in self.own_nuisance.items()}
        return {**self.nuisance, **{name: column_N for name, column_N in own.items() if np.ptp(column_N) > 0.0}}

    def basis(self, part: str) -> Basis:
        """Take the design of one component apart: chunks first, then nuisance columns."""
        columns = self.columns(part)
        design_NP = np.column_stack([self.design_NJ, *columns.values()]) if columns else self.design_NJ
        return factorize(design_NP, (*self.chunk_ids, *columns), self.task_ids)

    def fits(self) -> dict[str, tuple[Basis, LeastSquares]]:
        """Fit every component; components that share the main one's design share its decomposition."""
        shared, main = self.basis(MAIN_PART), self.columns(MAIN_PART)
        found = {}
        for part, outcome_N in self.outcomes.items():
            columns = self.columns(part)
            same = columns.keys() == main.keys() and all(np.array_equal(columns[name], main[name]) for name in main)
            basis = shared if same else self.basis(part)
            found[part] = basis, least_squares(basis, outcome_N)
        return found


def audit_masks(masks: Mapping[str, Sequence[Visible]], chunk_ids: Sequence[ChunkId], estimator: str) -> None:
    """Refuse masks that could not be fitted whatever the rewards will be; asked before the first rollout.

    Args:
        masks: the visible sets of each task, one per masked run.
        chunk_ids: columns of the design, (J,).
        estimator: that will decide; all but ``paired_ols`` have an intercept.

    Raises:
        RankDeficientError: as `factorize`.
    """
    if not chunk_ids:
        return
    rows = [(task_id, visible) for task_id in sorted(masks) for visible in masks[task_id]]
    design_NJ = np.array([[chunk_id in visible for chunk_id in chunk_ids] for _, visible in rows], dtype=float)
    names, design_NP = tuple(chunk_ids), design_NJ
    if estimator != "paired_ols":
        names, design_NP = (*names, "intercept"), np.column_stack([design_NJ, np.ones(len(rows))])
    factorize(design_NP, names, tuple(task_id for task_id, _ in rows))


def contributions_of(model: Regression) -> Contributions:
    """Fit a model of audited rows.

    Raises:
        RankDeficientError: as `factorize`.
        NoVariationError: if the main outcome does not vary (or, without an intercept, is 0 everywhere), or equals the
            bare reward beside it in every row: a perfect fit whose standard errors of 0 would be rounding.
    """
    if not model.chunk_ids:
        return _nothing_to_estimate(model)
    found = model.fits()
    _audit_variation(model)
    basis, main = found[MAIN_PART]
    chunks = slice(0, len(model.chunk_ids))
    beta_J, se_J, half_J = main.beta_P[chunks], main.se_P[chunks], main.half_P[chunks]
    return Contributions(
        chunk_ids=model.chunk_ids,
        beta_J=beta_J,
        se_J=se_J,
        low_J=beta_J - half_J,
        high_J=beta_J + half_J,
        num_pairs=len(model.task_ids),
        visible_J=model.design_NJ.sum(axis=0).astype(np.int64),
        residual_sd=main.residual_sd,
        rank=basis.design_NP.shape[1],
        condition_number=basis.condition_number,
        max_leverage=basis.max_leverage,
        parts={name: (fit.beta_P[chunks], fit.se_P[chunks]) for name, (_, fit) in sorted(found.items())},
        estimator=model.estimator,
        covariance=basis.covariance,
        nuisance=tuple(model.columns(MAIN_PART)),
        degrees=main.degrees,
        num_tasks=model.num_tasks,
        covariance_JJ=main.covariance_PP[chunks, chunks],
        notes=model.notes + _left_out(model),
    )


def _left_out(model: Regression) -> tuple[str, ...]:
    """Say which components lost a constant column."""
    lost: dict[str, list[str]] = {}
    for part in sorted(model.outcomes):
        for name in set(model.own_nuisance) - set(model.columns(part)):
            lost.setdefault(name, []).append(part)
    return tuple(f"{name} is constant and left out for {offenders(parts)}" for name, parts in sorted(lost.items()))


def _audit_variation(model: Regression) -> None:
    outcome_N = model.outcomes[MAIN_PART]
    rows = len(outcome_N)
    if "intercept" in model.nuisance and rows and np.ptp(outcome_N) == 0.0:
        raise NoVariationError(
            f"all {rows} outcomes equal {outcome_N[0]:g}, so nothing says how uncertain a contribution is; use tasks "
            "that this checkpoint sometimes solves and sometimes fails"
        )
    same = "bare" in model.own_nuisance and np.array_equal(outcome_N, model.own_nuisance["bare"][MAIN_PART])
    if rows and (same or not outcome_N.any()):
        raise NoVariationError(
            f"all {rows} differences R − B are 0: every masked run earned what its bare run earned, and nothing says "
            "how uncertain that is; the likely causes are answers that cannot be read, tasks that this checkpoint "
            "always or never solves, and a skill that does not reach the prompt"
        )


def _nothing_to_estimate(model: Regression) -> Contributions:
    empty = np.zeros(0)
    outcome_N = model.outcomes[MAIN_PART]
    return Contributions(
        chunk_ids=(),
        beta_J=empty,
        se_J=empty,
        low_J=empty,
        high_J=empty,
        num_pairs=len(model.task_ids),
        visible_J=np.zeros(0, dtype=np.int64),
        residual_sd=float(np.sqrt(np.mean(np.square(outcome_N)))),
        rank=0,
        condition_number=1.0,
        max_leverage=0.0,
        parts={name: (empty, empty) for name in model.outcomes},
        estimator=model.estimator,
        covariance="HC3" if model.num_tasks == len(model.task_ids) else "CR3",
        num_tasks=model.num_tasks,
        covariance_JJ=np.zeros((0, 0)),
        notes=model.notes,
    )
