"""What the audited pairs of a gate say: contributions, verdicts and further findings, without any model.

`assess` and `find` read nothing but what a gate recorded; the gate, its refit and its report share them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from intraskill.config.config import ESTIMATORS
from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.decision import Decision, decide
from intraskill.method.gate.designs import Masks
from intraskill.method.gate.diagnostics.attrition import ChunkAttrition, MaskedRun, attrition
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull, empirical_null
from intraskill.method.gate.diagnostics.slices import SliceReport, fit_slices
from intraskill.method.gate.estimators import Estimator, fit
from intraskill.method.gate.holding import hold, with_waiting
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.pairs import Pairs, Scored, pair
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import Evidence, Posterior, shrink
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import BARE, ChunkId, Visible
from intraskill.rounds.arms import score, task_means
from intraskill.rounds.gate.plan import GateFacts
from intraskill.rounds.run import Run
from intraskill.store.records import to_json

PUBLISHED = "paired_ols"


@dataclass(frozen=True, eq=False)
class Assessment:
    """What the pairs of one gate say.

    Attributes:
        contributions: of the pool by the estimator that decides; of no chunk when there was no information.
        decision: the skill that follows.
        posterior: after shrinkage; with what earlier rounds said when the policy listens to them. ``None`` for an
            empty pool and without information.
        beside: contributions of the pool by other estimators, `PUBLISHED` always among them.
        impossible: estimators that these pairs cannot be fitted by, and why.
        placebos: β̂ and SE of the placebo chunks by the estimator that decides; empty without any.
        null: what the placebos say together, or ``None``.
        slices: contributions on every registered slice, placebo columns included; ``None`` without any.
        no_information: what did not vary, so that no chunk was measured; empty after a measurement.
        faults: of masked runs with and without each chunk; empty when none faulted.
        kept_by: which chunks the policy keeps by each estimator that was fitted, the deciding one first.
    """

    contributions: Contributions
    decision: Decision
    posterior: Posterior | None
    beside: Mapping[str, Contributions] = field(default_factory=dict)
    impossible: Mapping[str, str] = field(default_factory=dict)
    placebos: Contributions | None = None
    null: EmpiricalNull | None = None
    slices: SliceReport | None = None
    no_information: str = ""
    faults: Mapping[ChunkId, ChunkAttrition] = field(default_factory=dict)
    kept_by: Mapping[str, tuple[ChunkId, ...]] = field(default_factory=dict)

    @property
    def shrunk(self) -> dict[ChunkId, tuple[float, float, float]]:
        """(shrunk value, its SD, P(α > 0)) by chunk."""
        if self.posterior is None:
            return {}
        columns = (self.posterior.mean_J, self.posterior.sd_J, self.posterior.probability_J)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return dict(zip(self.contributions.chunk_ids, rows, strict=True))


def assess(
    facts: GateFacts,
    pairs: Pairs,
    *,
    every_estimator: bool = False,
    faults: Mapping[ChunkId, ChunkAttrition] | None = None,
) -> Assessment:
    """Fit, shrink and decide; rewards that do not vary measure no chunk, and everything stays as it is.

    Args:
        facts: what the gate fixed before its first rollout.
        pairs: its audited pairs, placebo columns included.
        every_estimator: fit all of them beside the one that decides; otherwise `PUBLISHED` only.
        faults: from `attrition`. A candidate under which runs fault, so that what is left could hide the sign of its
            contribution, waits.

    Raises:
        RankDeficientError: when the pairs cannot be fitted by the estimator that decides.
    """
    beside, impossible = _beside(facts, pairs, every_estimator=every_estimator)
    slices = fit_slices(pairs, facts.slices, _in_slices(facts.gate.estimator)) if facts.slices else None
    try:
        everything = estimate(facts, pairs, facts.gate.estimator)
    except NoVariationError as error:
        why = str(error)
        nothing = estimate(facts, replace(pairs, chunk_ids=(), design_NJ=pairs.design_NJ[:, :0]), facts.gate.estimator)
        decision = hold(facts.skill, facts.edits, facts.gate.top_k, why)
        return Assessment(nothing, decision, None, beside, impossible, slices=slices, no_information=why)
    contributions = everything.without(facts.placebo_ids)
    suspects = {chunk_id: one for chunk_id, one in (faults or {}).items() if one.alarm}
    earlier = facts.earlier if facts.gate.policy == "probability" else {}
    fits = {facts.gate.estimator: contributions, **beside}
    decisions = {name: _decision(facts, one, suspects, earlier) for name, one in fits.items()}
    return Assessment(
        contributions=contributions,
        decision=decisions[facts.gate.estimator],
        posterior=shrink(contributions, earlier) if contributions.chunk_ids else None,
        beside=beside,
        impossible=impossible,
        placebos=everything.without(set(facts.pool.ids)) if facts.placebos else None,
        null=empirical_null(everything, facts.placebo_ids),
        slices=slices,
        faults=faults or {},
        kept_by={name: decision.kept for name, decision in decisions.items()},
    )


def _decision(
    facts: GateFacts,
    contributions: Contributions,
    suspects: Mapping[ChunkId, ChunkAttrition],
    earlier: Mapping[ChunkId, Evidence],
) -> Decision:
    """Decide on every edit but those that add a suspect: these wait."""
    waiting = [edit for edit in facts.edits if suspects.keys() & set(edit.added_ids)]
    judged = [edit for edit in facts.edits if edit not in waiting]
    left = contributions.without({chunk_id for edit in waiting for chunk_id in edit.added_ids})
    decision = decide(facts.skill, judged, left, facts.rule, earlier)
    return with_waiting(decision, waiting, {chunk_id: one.words for chunk_id, one in suspects.items()})


def _beside(
    facts: GateFacts, pairs: Pairs, *, every_estimator: bool
) -> tuple[dict[str, Contributions], dict[str, str]]:
    """Return what the other estimators say, and why some cannot."""
    beside: dict[str, Contributions] = {}
    impossible: dict[str, str] = {}
    for name in ESTIMATORS if every_estimator else (PUBLISHED,):
        if name == facts.gate.estimator or (name == "covariate" and not facts.history):
            continue
        try:
            beside[name] = estimate(facts, pairs, name).without(facts.placebo_ids)
        except (RankDeficientError, NoVariationError) as error:
            impossible[name] = str(error)
    return beside, impossible


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


@dataclass(frozen=True)
class Validation:
    """What one gate found.

    Attributes:
        facts: what it fixed before its first rollout.
        pairs: its audited pairs.
        assessment: contributions, posterior and decision.
        excluded: tasks that left both arms because some rollout of theirs only faulted.
        shown: chunks of the full arm: the committed skill, or the skill that a gate alone was asked about.
        full: scored rollouts that saw exactly these; empty when that arm did not run.
        r_free: mean skill-free reward.
        r_pair: mean reward with `shown`, whole; ``None`` when the arm is switched off.
        gap: R_pair − R_free over the same tasks (method §8.2).
        stopped: where a sequential gate stopped and what that saved, in words; empty when it was not sequential.
    """

    facts: GateFacts
    pairs: Pairs
    assessment: Assessment
    excluded: tuple[str, ...]
    shown: Visible
    full: tuple[Scored, ...]
    r_free: Interval
    r_pair: Interval | None
    gap: Interval | None
    stopped: str = ""

    @property
    def contributions(self) -> Contributions:
        """β̂ ± SE of every chunk of the pool; of none when the gate had no information."""
        return self.assessment.contributions

    @property
    def decision(self) -> Decision:
        """The skill that the round commits."""
        return self.assessment.decision


def contributions_json(assessment: Assessment, pairs: Pairs, excluded: list[str]) -> dict[str, Any]:
    """Return ``contributions.json``: the record that decides, then what stands beside it."""
    content: dict[str, Any] = to_json(assessment.contributions)
    content |= {"correlation": pairs.correlation, "excluded_tasks": excluded}
    if assessment.no_information:
        content["no_information"] = assessment.no_information
    if assessment.beside:
        content["beside"] = to_json(assessment.beside)
    if assessment.placebos is not None:
        content["placebos"] = to_json(assessment.placebos)
    if assessment.faults:
        content["faults"] = to_json(assessment.faults)
    if assessment.slices is not None:
        content["slices"] = slice_rows(assessment.slices)
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


def faults_of(
    pairs: Pairs, masks: Masks, bare: Sequence[Rollout], masked: Sequence[Rollout], bounds: tuple[float, float]
) -> Mapping[ChunkId, ChunkAttrition]:
    """Return faults of masked runs with and without each chunk of the pool."""
    worth = task_means(bare)
    runs = [
        MaskedRun(
            rollout.task_id,
            rollout.sample,
            masks[rollout.task_id][rollout.sample],
            faulted=rollout.fault is not None or rollout.attempts > 1,
            bare=worth.get(rollout.task_id),
        )
        for rollout in masked
    ]
    return attrition(pairs, runs, bounds)


def paired(
    run: Run, facts: GateFacts, masks: Masks, bare: Sequence[Rollout], masked: Sequence[Rollout]
) -> tuple[Pairs, list[str]]:
    """Pair the arms; tasks with a rollout whose every attempt faulted leave both arms and are reported."""
    faulted = sorted({rollout.task_id for rollout in (*bare, *masked) if rollout.fault is not None})
    number, conditions = facts.design.bare_replicates, run.learner.conditions
    if not facts.columns.chunks:  # the bare run is its own masked run
        masks = dict.fromkeys(masks, (BARE,) * number)
    kept = {task_id: visible for task_id, visible in masks.items() if task_id not in faulted}
    arms = [
        score((rollout for rollout in arm if rollout.task_id in kept), conditions, "skill_validation")
        for arm in (bare, masked)
    ]
    return pair(arms[0], arms[1], kept, facts.columns.ids, bare_replicates=number), faulted
