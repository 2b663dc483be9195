"""Pre-registered slices: contributions on the tasks that share a public feature (method §7.2).

Slices are made from task features before any reward is seen, and their hash belongs to the plan. A slice with few pairs
is refused rather than read. Of 20 intervals at 95 % one misses by chance: the report counts them and gives
simultaneous ones, which all cover together with 95 % (Bonferroni).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intraskill.method.errors import ConfigError, NoVariationError, RankDeficientError, offenders
from intraskill.method.gate.estimators import Estimator, fit
from intraskill.method.gate.intervals import t_quantile
from intraskill.method.gate.pairs import Pairs, Vector
from intraskill.method.gate.regression import CONFIDENCE, Contributions
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import Task

MIN_TASKS = 30
_MIN_TASKS_PER_CHUNK = 5


@dataclass(frozen=True, slots=True)
class Slices:
    """Which tasks share which value of which public feature; fixed before any reward.

    Attributes:
        tasks: sorted task ids by feature, then value.
    """

    tasks: Mapping[str, Mapping[str, tuple[str, ...]]]

    @property
    def hash(self) -> str:
        """Content hash, to be written into the plan before the first rollout."""
        return content_hash("slices", {f: {v: list(t) for v, t in by.items()} for f, by in self.tasks.items()})


@dataclass(frozen=True, slots=True, eq=False)
class SliceFit:
    """One slice.

    Attributes:
        feature: public feature.
        value: its value.
        num_tasks: paired tasks of the slice.
        contributions: ``None`` when refused.
        refused: why there are none, in words; empty otherwise.
    """

    feature: str
    value: str
    num_tasks: int
    contributions: Contributions | None
    refused: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class SliceReport:
    """All slices of one gate.

    Attributes:
        fits: every registered slice, fitted or refused.
    """

    fits: tuple[SliceFit, ...]

    @property
    def num_intervals(self) -> int:
        """How many intervals are read at once."""
        return sum(len(f.contributions.chunk_ids) for f in self.fits if f.contributions)

    @property
    def multiplicity(self) -> str:
        """The warning that belongs beside the table."""
        expected = (1.0 - CONFIDENCE) * self.num_intervals
        return (
            f"{self.num_intervals} intervals of 95 %: about {expected:.1f} miss by chance; read the simultaneous ones "
            "before naming a slice"
        )

    def simultaneous(self, found: Contributions) -> tuple[Vector, Vector]:
        """Return lower and upper ends, (J,) each, of intervals that all cover together with 95 %."""
        level = 1.0 - (1.0 - CONFIDENCE) / max(1, self.num_intervals)
        half_J = t_quantile(0.5 + level / 2, found.degrees) * found.se_J
        return found.beta_J - half_J, found.beta_J + half_J


def register_slices(tasks: Sequence[Task], features: Sequence[str]) -> Slices:
    """Sort tasks into slices by public features, before any reward.

    Args:
        tasks: the gate's tasks.
        features: names of `Task.features`; tasks without one are in no slice of it.

    Raises:
        ConfigError: for a feature that no task has.
    """
    known = {feature for task in tasks for feature in task.features}
    if unknown := sorted(set(features) - known):
        choice = f"choose of {', '.join(sorted(known))}" if known else "these tasks have no features to slice by"
        raise ConfigError(f"no task has these features, {offenders(unknown)}; {choice}")
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for feature in features:
        values = sorted({task.features[feature] for task in tasks if feature in task.features})
        found[feature] = {
            value: tuple(sorted(task.id for task in tasks if task.features.get(feature) == value)) for value in values
        }
    return Slices(found)


def fit_slices(pairs: Pairs, slices: Slices, estimator: Estimator = "paired_ols") -> SliceReport:
    """Fit the contributions of every registered slice.

    A slice needs `MIN_TASKS` paired tasks, and `_MIN_TASKS_PER_CHUNK` for every chunk; fewer are refused by name.

    Raises:
        ConfigError: for ``covariate``, whose columns have no place here.
    """
    fits = []
    paired = set(pairs.task_ids)
    for feature, by_value in slices.tasks.items():
        for value, task_ids in by_value.items():
            fits.append(_fit_slice(pairs, (feature, value), paired.intersection(task_ids), estimator))
    return SliceReport(tuple(fits))


def _fit_slice(pairs: Pairs, name: tuple[str, str], tasks: set[str], estimator: Estimator) -> SliceFit:
    needed = max(MIN_TASKS, _MIN_TASKS_PER_CHUNK * len(pairs.chunk_ids))
    if len(tasks) < needed:
        reason = f"{len(tasks)} paired tasks, {needed} needed for {len(pairs.chunk_ids)} chunks"
        return SliceFit(*name, len(tasks), None, reason)
    try:
        return SliceFit(*name, len(tasks), fit(pairs.of_tasks(tasks), estimator))
    except (RankDeficientError, NoVariationError) as error:
        return SliceFit(*name, len(tasks), None, str(error))
