"""Estimators: five models of the same audited rows, each returning `Contributions` (method §7.2).

    paired_ols             R − B on C           the method, always computed: no intercept, no centring; α̂_j := β̂_j
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

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.gate.pairs import MaskedOnly, Pairs, Vector
from intraskill.method.gate.regression import Contributions, Regression, contributions_of

Estimator = Literal["paired_ols", "paired_ols_intercept", "ancova", "masked_ols", "covariate"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
TaskValues: TypeAlias = Mapping[str, float]
"""A number per task that was known before the masks were drawn; tasks may be missing."""


def fit(
    rows: Pairs | MaskedOnly, estimator: Estimator = "paired_ols", *, known: Mapping[str, TaskValues] | None = None
) -> Contributions:
    """Estimate the contributions of a gate; a pool without chunks (J = 0) is legal.

    Args:
        rows: `Pairs`, or `MaskedOnly` for ``masked_ols`` and for ``covariate`` without B.
        estimator: one of `ESTIMATORS`.
        known: for ``covariate`` alone: by column name, a value per task that was known before the masks were drawn;
            `history` makes the one of earlier rounds. A column is centred over the rows. A task without a value gets
            the mean of the others, which is fair because the gap too was there before the masks; a column that is
            known nowhere or constant is left out. Both are said in ``notes``.

    Raises:
        ConfigError: for an unknown estimator, one that needs bare runs which ``rows`` does not have, ``known`` given
            to, or lacking for, the wrong one, a value that is not finite, or a column named like another one.
        RankDeficientError: if the rows cannot separate the columns or leave no freedom for a standard error; the
            message names the columns or the tasks.
        NoVariationError: if all rewards that the model compares are equal, or each equals its bare one. A component
            whose bare rewards are all equal is fitted without them and named in ``notes``.
    """
    if estimator not in ESTIMATORS:
        raise ConfigError(f"unknown estimator {estimator!r}; choose one of {', '.join(ESTIMATORS)}")
    if (known is not None) != (estimator == "covariate"):
        raise ConfigError(f"columns known before the masks go with covariate, and only with it, got {estimator}")
    if isinstance(rows, MaskedOnly) and estimator not in ("masked_ols", "covariate"):
        raise ConfigError(f"{estimator} needs bare runs, and these rows have none; use masked_ols or covariate")
    return contributions_of(_model(rows, estimator, known or {}))


def _model(rows: Pairs | MaskedOnly, estimator: Estimator, known: Mapping[str, TaskValues]) -> Regression:
    """Return outcome and nuisance columns of an estimator."""
    columns, notes = _known_columns(rows.task_ids, known, taken={"intercept", "bare", *rows.chunk_ids})
    intercept = {} if estimator == "paired_ols" else {"intercept": np.ones(len(rows.task_ids))}
    outcomes, own = rows.masked_parts, {}
    if isinstance(rows, Pairs) and estimator in ("paired_ols", "paired_ols_intercept"):
        outcomes = rows.part_deltas
    elif isinstance(rows, Pairs) and estimator in ("ancova", "covariate"):
        own = {"bare": rows.bare_parts}
    names = rows.task_ids, rows.chunk_ids
    return Regression(estimator, *names, rows.design_NJ, outcomes, {**intercept, **columns}, own, notes)


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
    return {task_id: fmean(rewards) for task_id, rewards in values.items()}


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
