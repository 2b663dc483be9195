"""Which estimator would have been cheaper: rollouts for one and the same standard error, from the data at hand.

    relative rollouts = (mean SE² × rollouts it reads) / (mean SE² × rollouts `paired_ols` reads)

Two accountings: every rollout counts; or the bare run is wanted anyway, as the reported skill-free score, and only the
masked rollouts count. `paired_ols` has no intercept, so its β̂ includes a share of what showing any text at all does;
the others take that out. The comparison is of variances, read off one gate, not of what they estimate.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.estimators import (
    TaskValues,
    ancova,
    covariate,
    masked_ols,
    paired_ols,
    paired_ols_intercept,
)
from intraskill.method.gate.pairs import Pairs
from intraskill.method.gate.regression import Contributions


@dataclass(frozen=True, slots=True)
class EstimatorCost:
    """What one estimator would cost.

    Attributes:
        estimator: its name.
        nuisance: its columns beside the chunks.
        se: √ mean SE² over the chunks, reward units.
        all_counted: rollouts for the standard error of `paired_ols`, every rollout counted; 1 for `paired_ols`.
        bare_sunk: the same when the bare run is wanted anyway.
    """

    estimator: str
    nuisance: tuple[str, ...]
    se: float
    all_counted: float
    bare_sunk: float

    @property
    def name(self) -> str:
        """Estimator and what it adjusts by, such as ``covariate (bare, history)``."""
        columns = sorted(set(self.nuisance) - {"intercept"})
        return f"{self.estimator} ({', '.join(columns)})" if self.estimator == "covariate" else self.estimator


@dataclass(frozen=True, slots=True)
class EstimatorComparison:
    """All estimators that one gate's rows allow.

    Attributes:
        correlation: corr(R, B); differencing pays when it exceeds ½.
        costs: `paired_ols` first.
        skipped: why others are missing, by name, in words.
    """

    correlation: float | None
    costs: tuple[EstimatorCost, ...]
    skipped: Mapping[str, str]

    @property
    def cheapest_all_counted(self) -> EstimatorCost:
        """The estimator that needs the fewest rollouts."""
        return min(self.costs, key=lambda cost: cost.all_counted)

    @property
    def cheapest_bare_sunk(self) -> EstimatorCost:
        """The estimator that needs the fewest rollouts beside a bare run that is wanted anyway."""
        return min(self.costs, key=lambda cost: cost.bare_sunk)

    def __str__(self) -> str:
        every, sunk = self.cheapest_all_counted, self.cheapest_bare_sunk
        correlation = "undefined (an arm is constant)" if self.correlation is None else f"{self.correlation:.2f}"
        return (
            f"corr(R, B) = {correlation}; for the same standard error {every.name} needs {every.all_counted:.2f} of "
            f"the rollouts when all count, {sunk.name} {sunk.bare_sunk:.2f} when the bare run is wanted anyway"
        )


def cheaper_estimator(pairs: Pairs, known: Mapping[str, TaskValues] | None = None) -> EstimatorComparison:
    """Fit every estimator that the rows allow and compare what they would have cost.

    Args:
        pairs: audited pairs, with at least one chunk.
        known: columns known before the masks were drawn, for ``covariate``.

    Raises:
        RankDeficientError: if even `paired_ols` cannot be fitted.
        NoVariationError: if every difference is 0.
    """
    reference = paired_ols(pairs)
    both, alone = pairs.num_bare + pairs.num_masked, pairs.num_masked
    models: dict[str, tuple[Callable[[], Contributions], int]] = {
        "paired_ols_intercept": (partial(paired_ols_intercept, pairs), both),
        "ancova": (partial(ancova, pairs), both),
        "masked_ols": (partial(masked_ols, pairs.masked_only), alone),
    }
    if known:
        models["covariate without bare"] = (partial(covariate, pairs.masked_only, known), alone)
        models["covariate with bare"] = (partial(covariate, pairs, known), both)
    costs, skipped = [_cost(reference, reference, 1.0)], dict[str, str]()
    for name, (estimate, rollouts) in models.items():
        try:
            costs.append(_cost(estimate(), reference, rollouts / both))
        except (RankDeficientError, NoVariationError) as error:
            skipped[name] = str(error)
    return EstimatorComparison(pairs.correlation, tuple(costs), skipped)


def _cost(found: Contributions, reference: Contributions, share: float) -> EstimatorCost:
    variance, published = (float(np.mean(np.square(c.se_J))) for c in (found, reference))
    ratio = variance / published if published else 1.0
    return EstimatorCost(found.estimator, found.nuisance, float(np.sqrt(variance)), ratio * share, ratio)
