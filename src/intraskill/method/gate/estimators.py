"""Estimators: five models of the same audited rows, each returning `Contributions` (method §7.2).

    paired_ols             R − B on C           the method; `validate` always computes it
    paired_ols_intercept   R − B on [C, 1]      diagnostic: takes the effect of showing any text at all out of β
    ancova                 R on [C, 1, B]       B enters with its own slope instead of 1
    masked_ols             R on [C, 1]          needs no bare run; differencing pays only when corr(R, B) > ½
    covariate              R on [C, 1, H (, B)] H: bare rewards of the same task in earlier rounds, or public features

The masks are drawn at random after H was fixed and independently of B, so neither can bias β̂_j; they only take
variance away. H may come from other checkpoints: it is a covariate, never a stand-in for B. Every reward component is
fitted on its own outcome and its own B.

Shape letters: N rows, J chunks.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Literal, TypeAlias, get_args

import numpy as np

from intraskill.method.errors import ConfigError, NoVariationError, offenders
from intraskill.method.gate.pairs import MaskedOnly, Pairs, Vector
from intraskill.method.gate.regression import Contributions, Covariance, Regression, contributions_of

Estimator = Literal["paired_ols", "paired_ols_intercept", "ancova", "masked_ols", "covariate"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
TaskValues: TypeAlias = Mapping[str, float]
"""A number per task that was known before the masks were drawn; tasks may be missing."""


def paired_ols(pairs: Pairs, covariance: Covariance | None = None) -> Contributions:
    """Regress R − B on C without intercept: the method's estimator.

    Raises:
        RankDeficientError: if the pairs cannot separate the chunks or leave no freedom for a standard error.
        NoVariationError: if every difference is 0.
    """
    return contributions_of(
        Regression(
            "paired_ols",
            pairs.task_ids,
            pairs.chunk_ids,
            pairs.design_NJ,
            pairs.part_deltas,
            covariance=covariance,
        )
    )


def paired_ols_intercept(pairs: Pairs, covariance: Covariance | None = None) -> Contributions:
    """Regress R − B on C and an intercept, which holds what showing any text at all does.

    Raises:
        RankDeficientError: as `paired_ols`; also for a chunk that every row shows.
        NoVariationError: if all differences are equal.
    """
    return contributions_of(
        Regression(
            "paired_ols_intercept",
            pairs.task_ids,
            pairs.chunk_ids,
            pairs.design_NJ,
            pairs.part_deltas,
            nuisance=_intercept(pairs),
            covariance=covariance,
        )
    )


def ancova(pairs: Pairs, covariance: Covariance | None = None) -> Contributions:
    """Regress R on C, an intercept and B.

    The optimal slope of B is estimated; `paired_ols` fixes it at 1 and `masked_ols` at 0.

    Raises:
        RankDeficientError: as `paired_ols_intercept`.
        NoVariationError: if all masked or all bare rewards are equal. A component whose bare rewards are all equal is
            fitted without them and named in ``notes``.
    """
    if len(pairs.bare_N) and np.ptp(pairs.bare_N) == 0.0:
        raise NoVariationError(
            f"all {len(pairs.bare_N)} bare rewards equal {pairs.bare_N[0]:g}, so ancova has nothing to adjust by; "
            "use masked_ols or paired_ols"
        )
    return contributions_of(
        Regression(
            "ancova",
            pairs.task_ids,
            pairs.chunk_ids,
            pairs.design_NJ,
            pairs.masked_parts,
            nuisance=_intercept(pairs),
            own_nuisance={"bare": pairs.bare_parts},
            covariance=covariance,
        )
    )


def masked_ols(rows: MaskedOnly, covariance: Covariance | None = None) -> Contributions:
    """Regress R on C and an intercept; no bare run is read.

    Raises:
        RankDeficientError: as `paired_ols_intercept`.
        NoVariationError: if all rewards are equal.
    """
    return contributions_of(
        Regression(
            "masked_ols",
            rows.task_ids,
            rows.chunk_ids,
            rows.design_NJ,
            rows.masked_parts,
            nuisance=_intercept(rows),
            covariance=covariance,
        )
    )


def covariate(
    rows: Pairs | MaskedOnly, known: Mapping[str, TaskValues], covariance: Covariance | None = None
) -> Contributions:
    """Regress R on C, an intercept, columns known before the masks were drawn, and B when the rows have it.

    A column is centred over the rows. A task without a value gets the mean of the others, which is fair because the
    gap too was there before the masks; a column that is known nowhere or constant is left out. Both are said in
    ``notes``. To leave B out of pairs pass ``pairs.masked_only``.

    Args:
        rows: audited rows.
        known: by column name, a value per task; `history` makes the one of earlier rounds.
        covariance: as in `fit`.

    Raises:
        RankDeficientError: as `paired_ols_intercept`; also for columns that determine one another.
        NoVariationError: if all rewards are equal.
        ConfigError: for a value that is not finite, or a column named like another one of the design.
    """
    columns, notes = _known_columns(rows.task_ids, known, taken={"intercept", "bare", *rows.chunk_ids})
    return contributions_of(
        Regression(
            "covariate",
            rows.task_ids,
            rows.chunk_ids,
            rows.design_NJ,
            rows.masked_parts,
            nuisance={**_intercept(rows), **columns},
            own_nuisance={"bare": rows.bare_parts} if isinstance(rows, Pairs) else {},
            covariance=covariance,
            notes=notes,
        )
    )


def fit(
    rows: Pairs | MaskedOnly,
    estimator: Estimator = "paired_ols",
    *,
    covariance: Covariance | None = None,
    known: Mapping[str, TaskValues] | None = None,
) -> Contributions:
    """Fit by name.

    Args:
        rows: `Pairs`, or `MaskedOnly` for ``masked_ols`` and ``covariate``.
        estimator: one of `ESTIMATORS`.
        covariance: ``HC3``, ``CR3``, or ``None``: ``HC3`` with one row per task, ``CR3`` with several.
        known: for ``covariate`` alone: columns known before the masks were drawn.

    Raises:
        ConfigError: for an unknown estimator, one that needs bare runs which ``rows`` does not have, or ``known``
            given to, or lacking for, the wrong one.
        RankDeficientError: as the estimator.
        NoVariationError: as the estimator.
    """
    if estimator not in ESTIMATORS:
        raise ConfigError(f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    if (known is not None) != (estimator == "covariate"):
        raise ConfigError(f"columns known before the masks go with covariate, and only with it, got {estimator}")
    if known is not None:
        return covariate(rows, known, covariance)
    if estimator == "masked_ols":
        return masked_ols(rows.masked_only if isinstance(rows, Pairs) else rows, covariance)
    if isinstance(rows, MaskedOnly):
        raise ConfigError(f"{estimator} needs bare runs, and these rows have none; use masked_ols or covariate")
    by_name = {"paired_ols": paired_ols, "paired_ols_intercept": paired_ols_intercept, "ancova": ancova}
    return by_name[estimator](pairs=rows, covariance=covariance)


def history(earlier: Sequence[TaskValues]) -> dict[str, float]:
    """Return H: each task's mean bare reward over earlier rounds, each round less its own mean.

    Taking the round's mean out keeps a task that missed a round comparable: rounds differ because the checkpoint moved.

    Args:
        earlier: one mapping per earlier round, from task id to mean bare reward; rounds may hold different tasks.
    """
    values: dict[str, list[float]] = {}
    for rewards in (rewards for rewards in earlier if rewards):
        mean = fmean(rewards.values())
        for task_id, reward in rewards.items():
            values.setdefault(task_id, []).append(reward - mean)
    return {task_id: fmean(found) for task_id, found in values.items()}


def _intercept(rows: Pairs | MaskedOnly) -> dict[str, Vector]:
    return {"intercept": np.ones(len(rows.task_ids))}


def _known_columns(
    task_ids: Sequence[str], known: Mapping[str, TaskValues], taken: set[str]
) -> tuple[dict[str, Vector], tuple[str, ...]]:
    """Return centred columns, (N,) each, and what had to be done to make them."""
    if clashing := sorted(taken & set(known)):
        raise ConfigError(f"columns with a name of the design, {offenders(clashing)}; rename them")
    columns: dict[str, Vector] = {}
    notes: list[str] = []
    for name, values in known.items():
        column_N = np.array([values.get(task_id, np.nan) for task_id in task_ids], dtype=float)
        present = np.array([task_id in values for task_id in task_ids], dtype=bool)
        if bad := sorted({task_ids[n] for n in np.flatnonzero(present & ~np.isfinite(column_N)).tolist()}):
            raise ConfigError(f"{name} is not finite for tasks {offenders(bad)}; leave these tasks out of it")
        if not present.any() or np.ptp(column_N[present]) == 0.0:
            notes.append(f"{name} is {'constant' if present.any() else 'known for no task'} and left out")
            continue
        if lacking := sorted({task_ids[n] for n in np.flatnonzero(~present).tolist()}):
            notes.append(f"{name} is unknown for tasks {offenders(lacking)}; the mean of the others stands in")
        column_N[~present] = column_N[present].mean()
        columns[name] = column_N - column_N.mean()
    return columns, tuple(notes)
