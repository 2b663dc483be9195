"""What the audited pairs of a gate say: contributions, verdicts and further findings, without any model.

`assess` and `find` read nothing but what a gate recorded; the gate, its refit and its report share them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from intraskill.config.config import ESTIMATORS
from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.decision import Decision, decide
from intraskill.method.gate.diagnostics.additivity import AdditivityGap, additivity_gap
from intraskill.method.gate.diagnostics.interactions import InteractionScreen, screen_interactions
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull, empirical_null
from intraskill.method.gate.diagnostics.slices import SliceReport, fit_slices
from intraskill.method.gate.estimators import Estimator, fit
from intraskill.method.gate.intervals import Interval
from intraskill.method.gate.pairs import Pairs, Scored
from intraskill.method.gate.power import GatePlan, gate_sigma
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.shrinkage import Posterior, shrink
from intraskill.method.skill.skill import ChunkId, Skill, Visible
from intraskill.rounds.gate.plan import GateFacts, outlook
from intraskill.store.contents import ChunkRow
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
        """β̂ ± SE of every chunk of the pool."""
        return self.assessment.contributions

    @property
    def decision(self) -> Decision:
        """The skill that the round commits."""
        return self.assessment.decision


@dataclass(frozen=True, eq=False)
class Findings:
    """Answers that need the pairs.

    Attributes:
        sigma: SD of R − B around C β, scaled to one rollout in each arm; ``None`` for an empty pool.
        power: what a gate of this size and spread can see; ``None`` when nothing can be said.
        additivity: Σβ̂ against the measured effect of the whole skill; ``None`` without a full arm.
        screen: pairs of chunks that seem to change one another's effect.
    """

    sigma: float | None = None
    power: GatePlan | None = None
    additivity: AdditivityGap | None = None
    screen: InteractionScreen | None = None


def find(validation: Validation) -> Findings:
    """Answer everything that the pairs of a gate allow; what they do not allow stays ``None``."""
    pairs, facts = validation.pairs, validation.facts
    if not pairs.chunk_ids:
        return Findings()
    published = validation.assessment.beside.get("paired_ols", validation.contributions)
    if published.estimator != "paired_ols":
        return Findings()
    sigma = gate_sigma(published.residual_sd, facts.design.bare_replicates)
    tasks = len(set(pairs.task_ids))
    return Findings(
        sigma=sigma,
        power=outlook(facts, tasks, sigma, pairs.correlation),
        additivity=_additivity(validation),
        screen=_screen(validation),
    )


def _additivity(validation: Validation) -> AdditivityGap | None:
    """Compare with the full arm; only a skill that was fixed before the masks were scored may be summed."""
    paired = set(validation.pairs.task_ids)
    full = [scored for scored in validation.full if scored.task_id in paired and scored.fault is None]
    if len({scored.task_id for scored in full}) < 2 or validation.shown != frozenset(validation.facts.skill.ids):
        return None
    return additivity_gap(validation.pairs, full, validation.shown)


def _screen(validation: Validation) -> InteractionScreen | None:
    try:
        return screen_interactions(validation.pairs, seed=validation.facts.seed)
    except (RankDeficientError, NoVariationError):
        return None


def sides(contributions: Contributions) -> dict[str, tuple[ChunkId, ...]]:
    """Sort chunks by their 95 % interval: it lies above 0, below 0, or holds 0."""
    columns = zip(contributions.chunk_ids, contributions.low_J, contributions.high_J, strict=True)
    by_side: dict[str, list[ChunkId]] = {"helps": [], "hurts": [], "unclear": []}
    for chunk_id, low, high in columns:
        by_side["helps" if low > 0.0 else "hurts" if high < 0.0 else "unclear"].append(chunk_id)
    return {side: tuple(chunk_ids) for side, chunk_ids in by_side.items()}


def noise_band(null: EmpiricalNull) -> float:
    """Return how far from 0 a contribution still looks like noise, reward units.

    Twice the spread of the placebos, or of what their standard errors expect if that is more: one or two placebos may
    happen to lie close to 0.
    """
    return 2.0 * max(null.spread, null.expected)


def chunk_table(validation: Validation) -> list[dict[str, Any]]:
    """Return one row per chunk and placebo: every number, the verdict and its reason."""
    titles = {chunk.id: chunk.title for chunk in validation.facts.columns.chunks}
    incumbents, shrunk = set(validation.facts.skill.ids), validation.assessment.shrunk
    rows: list[dict[str, Any]] = []
    for chunk_id, numbers in _numbers(validation.contributions).items():
        value, spread, probability = shrunk[chunk_id]
        beside = {
            f"{name}_{column}": _numbers(other)[chunk_id][column]
            for name, other in validation.assessment.beside.items()
            for column in ("beta", "se")
        }
        rows.append(
            {
                "id": chunk_id,
                "title": titles[chunk_id],
                "kind": "chunk" if chunk_id in incumbents else "candidate",
                **numbers,
                "shrunk": value,
                "shrunk_sd": spread,
                "probability": probability,
                **beside,
                "kept": chunk_id in validation.decision.kept,
                "verdict": str(validation.decision.fates[chunk_id]),
                "reason": validation.decision.reasons[chunk_id],
            }
        )
    for chunk_id, numbers in _numbers(validation.assessment.placebos).items():
        reason = "a placebo: neutral text, measured to see what noise looks like"
        row: dict[str, Any] = {"id": chunk_id, "title": titles[chunk_id], "kind": "placebo", **numbers}
        rows.append(row | {"kept": False, "verdict": "placebo", "reason": reason})
    return rows


def _numbers(contributions: Contributions | None) -> dict[ChunkId, dict[str, float]]:
    if contributions is None:
        return {}
    names = {"visible": "visible_J", "beta": "beta_J", "se": "se_J", "low": "low_J", "high": "high_J"}
    columns = {name: getattr(contributions, attribute).tolist() for name, attribute in names.items()}
    return {
        chunk_id: {name: column[j] for name, column in columns.items()}
        for j, chunk_id in enumerate(contributions.chunk_ids)
    }


def findings_json(validation: Validation, findings: Findings) -> Mapping[str, Any]:
    """Return ``gate.json``: rewards, power, placebos and additivity as data."""
    power, screen = findings.power, findings.screen
    return {
        "estimator": validation.facts.gate.estimator,
        "policy": validation.facts.gate.policy,
        "pairs": len(validation.pairs.task_ids),
        "tasks": len(set(validation.pairs.task_ids)),
        "r_free": to_json(validation.r_free),
        "r_pair": to_json(validation.r_pair),
        "gap": to_json(validation.gap),
        "kept": list(validation.decision.kept),
        "sides": to_json(sides(validation.contributions)),
        "sigma": findings.sigma,
        "smallest_effect": power.smallest_effect if power else None,
        "useless_passes": power.outlooks[0].useless_passes if power else None,
        "useless_stays": power.outlooks[0].useless_stays if power else None,
        "placebos": to_json(validation.assessment.null),
        "additivity": to_json(findings.additivity),
        "impossible": dict(validation.assessment.impossible),
        "interaction_warnings": [list(pair) for pair in screen.warnings] if screen else [],
        "excluded_tasks": list(validation.excluded),
    }


def contributions_json(assessment: Assessment, pairs: Pairs, excluded: list[str]) -> dict[str, Any]:
    """Return ``contributions.json``: the record that decides, then what stands beside it."""
    content: dict[str, Any] = to_json(assessment.contributions)
    content |= {"correlation": pairs.correlation, "excluded_tasks": excluded}
    if assessment.beside:
        content["beside"] = to_json(assessment.beside)
    if assessment.placebos is not None:
        content["placebos"] = to_json(assessment.placebos)
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


def chunk_rows(
    validation: Validation,
    everything: Skill,
    exposure: Mapping[ChunkId, float],
    visible: Mapping[ChunkId, float],
    round_index: int,
) -> list[ChunkRow]:
    """Return one row per chunk of the pool: β̂ ± SE with its interval, exposure, P(visible) and what became of it.

    Under the policy ``probability`` a row also holds the shrunk value and P(α > 0). A draft that the first gate drops
    was never active: it is refused, not retired.
    """
    decision, contributions = validation.decision, validation.contributions
    shrunk = validation.assessment.shrunk if validation.facts.gate.policy == "probability" else {}
    titles = {chunk.id: chunk.title for chunk in everything.chunks}
    numbers = (contributions.beta_J, contributions.se_J, contributions.low_J, contributions.high_J)
    rows: list[Any] = []
    for chunk_id, beta, se, low, high in zip(contributions.chunk_ids, *numbers, strict=True):
        left = "retired" if chunk_id in decision.retired and round_index > 0 else "refused"
        status = "active" if chunk_id in exposure else left
        rows.append(
            {
                "id": chunk_id,
                "title": titles[chunk_id],
                "beta": float(beta),
                "se": float(se),
                "low": float(low),
                "high": float(high),
                **dict(zip(("shrunk", "shrunk_sd", "probability"), shrunk.get(chunk_id, ()), strict=False)),
                "exposure": exposure.get(chunk_id),
                "visible_probability": visible.get(chunk_id),
                "status": status,
                "reason": decision.reasons[chunk_id],
            }
        )
    return rows
