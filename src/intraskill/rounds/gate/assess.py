"""From audited pairs to verdicts: one pure function that the gate, its refit and its report share."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from intraskill.config.config import ESTIMATORS
from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.decision import Decision, decide
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull, empirical_null
from intraskill.method.gate.diagnostics.slices import SliceReport, fit_slices
from intraskill.method.gate.estimators import Estimator, fit
from intraskill.method.gate.pairs import Pairs
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import Posterior, shrink
from intraskill.method.skill.skill import ChunkId
from intraskill.rounds.gate.plan import GateFacts
from intraskill.store.records import to_json

PUBLISHED = "paired_ols"


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the pairs of one gate say.

    Attributes:
        contributions: of the pool by the estimator that decides.
        decision: the skill that follows.
        posterior: after shrinkage; with what earlier rounds said when the policy listens to them. ``None`` for an
            empty pool.
        beside: contributions of the pool by other estimators, `PUBLISHED` always among them.
        impossible: estimators that these pairs cannot be fitted by, and why.
        placebos: β̂ and SE of the placebo chunks by the estimator that decides; empty without any.
        null: what the placebos say together, or ``None``.
        slices: contributions on every registered slice, placebo columns included; ``None`` without any.
    """

    contributions: Contributions
    decision: Decision
    posterior: Posterior | None
    beside: Mapping[str, Contributions] = field(default_factory=dict)
    impossible: Mapping[str, str] = field(default_factory=dict)
    placebos: Contributions | None = None
    null: EmpiricalNull | None = None
    slices: SliceReport | None = None

    @property
    def shrunk(self) -> dict[ChunkId, tuple[float, float, float]]:
        """(shrunk value, its SD, P(α > 0)) by chunk."""
        if self.posterior is None:
            return {}
        columns = (self.posterior.mean_J, self.posterior.sd_J, self.posterior.probability_J)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(self.contributions.chunk_ids, rows, strict=True))


def assess(facts: GateFacts, pairs: Pairs, *, every_estimator: bool = False) -> Assessment:
    """Fit, shrink and decide.

    Args:
        facts: what the gate fixed before its first rollout.
        pairs: its audited pairs, placebo columns included.
        every_estimator: fit all of them beside the one that decides; otherwise `PUBLISHED` only.

    Raises:
        RankDeficientError: when the pairs cannot be fitted by the estimator that decides.
        NoVariationError: when the rewards that it compares do not vary.
    """
    everything = estimate(facts, pairs, facts.gate.estimator)
    contributions = everything.without(facts.placebo_ids)
    earlier = facts.earlier if facts.gate.policy == "probability" else {}
    decision = decide(facts.skill, facts.edits, contributions, facts.rule, earlier)
    beside: dict[str, Contributions] = {}
    impossible: dict[str, str] = {}
    for name in ESTIMATORS if every_estimator else (PUBLISHED,):
        if name == facts.gate.estimator or (name == "covariate" and not facts.history):
            continue
        try:
            beside[name] = estimate(facts, pairs, name).without(facts.placebo_ids)
        except (RankDeficientError, NoVariationError) as error:
            impossible[name] = str(error)
    return Assessment(
        contributions=contributions,
        decision=decision,
        posterior=shrink(contributions, earlier) if contributions.chunk_ids else None,
        beside=beside,
        impossible=impossible,
        placebos=everything.without(set(facts.pool.ids)) if facts.placebos else None,
        null=empirical_null(everything, facts.placebo_ids),
        slices=fit_slices(pairs, facts.slices, _in_slices(facts.gate.estimator)) if facts.slices else None,
    )


def _in_slices(estimator: str) -> Estimator:
    """Return the estimator for slices, where columns of earlier rounds have no place."""
    return "ancova" if estimator == "covariate" else cast(Estimator, estimator)


def estimate(facts: GateFacts, pairs: Pairs, estimator: str) -> Contributions:
    """Fit one estimator, placebo columns included.

    Raises:
        RankDeficientError: when the pairs cannot be fitted by it.
        NoVariationError: when the rewards that it compares do not vary.
    """
    known = {"earlier bare": facts.history} if estimator == "covariate" else None
    return fit(pairs, cast(Estimator, estimator), known=known)


def contributions_json(found: Assessment, pairs: Pairs, excluded: list[str]) -> dict[str, Any]:
    """Return ``contributions.json``: the record that decides, then what stands beside it."""
    content: dict[str, Any] = to_json(found.contributions)
    content |= {"correlation": pairs.correlation, "excluded_tasks": excluded}
    if found.beside:
        content["beside"] = to_json(found.beside)
    if found.placebos is not None:
        content["placebos"] = to_json(found.placebos)
    if found.slices is not None:
        content["slices"] = slice_rows(found.slices)
    return content


def slice_rows(report: SliceReport) -> list[dict[str, Any]]:
    """Return one row per slice and chunk, with the interval that all of them cover together; or why there is none."""
    rows: list[dict[str, Any]] = []
    for one in report.fits:
        name: dict[str, Any] = {"feature": one.feature, "value": one.value, "tasks": one.num_tasks}
        if one.contributions is None:
            rows.append(name | {"refused": one.refused})
            continue
        low_J, high_J = report.simultaneous(one.contributions)
        numbers = (one.contributions.beta_J, one.contributions.se_J, low_J, high_J)
        for chunk_id, beta, se, low, high in zip(one.contributions.chunk_ids, *numbers, strict=True):
            row = {
                "estimator": one.contributions.estimator,
                "chunk": chunk_id,
                "beta": float(beta),
                "se": float(se),
                "low": float(low),
                "high": float(high),
            }
            rows.append(name | row)
    return rows
