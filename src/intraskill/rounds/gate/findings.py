"""What a finished gate says beyond its verdicts: what it could see, if chunks add up."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.diagnostics.additivity import AdditivityGap, additivity_gap
from intraskill.method.gate.diagnostics.interactions import InteractionScreen, screen_interactions
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull
from intraskill.method.gate.power import GatePlan, gate_sigma
from intraskill.method.gate.regression import Contributions
from intraskill.method.skill.skill import ChunkId
from intraskill.rounds.gate.plan import outlook
from intraskill.rounds.gate.run import Validation
from intraskill.store.records import to_json


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


def find(found: Validation) -> Findings:
    """Answer everything that the pairs of a gate allow; what they do not allow stays ``None``."""
    pairs, facts = found.pairs, found.facts
    if not pairs.chunk_ids:
        return Findings()
    published = found.assessment.beside.get("paired_ols", found.contributions)
    if published.estimator != "paired_ols":
        return Findings()
    sigma = gate_sigma(published.residual_sd, facts.design.bare_replicates)
    tasks = len(set(pairs.task_ids))
    return Findings(
        sigma=sigma,
        power=outlook(facts, tasks, sigma, pairs.correlation),
        additivity=_additivity(found),
        screen=_screen(found),
    )


def _additivity(found: Validation) -> AdditivityGap | None:
    """Compare with the full arm; only a skill that was fixed before the masks were scored may be summed."""
    paired = set(found.pairs.task_ids)
    full = [scored for scored in found.full if scored.task_id in paired and scored.fault is None]
    if len({scored.task_id for scored in full}) < 2 or found.shown != frozenset(found.facts.skill.ids):
        return None
    return additivity_gap(found.pairs, full, found.shown)


def _screen(found: Validation) -> InteractionScreen | None:
    try:
        return screen_interactions(found.pairs, seed=found.facts.seed)
    except (RankDeficientError, NoVariationError):
        return None


def sides(contributions: Contributions) -> dict[str, tuple[ChunkId, ...]]:
    """Sort chunks by their 95 % interval: it lies above 0, below 0, or holds 0."""
    columns = zip(contributions.chunk_ids, contributions.low_J, contributions.high_J, strict=True)
    found: dict[str, list[ChunkId]] = {"helps": [], "hurts": [], "unclear": []}
    for chunk_id, low, high in columns:
        found["helps" if low > 0.0 else "hurts" if high < 0.0 else "unclear"].append(chunk_id)
    return {side: tuple(chunk_ids) for side, chunk_ids in found.items()}


def noise_band(null: EmpiricalNull) -> float:
    """Return how far from 0 a contribution still looks like noise, reward units.

    Twice the spread of the placebos, or of what their standard errors expect if that is more: one or two placebos may
    happen to lie close to 0.
    """
    return 2.0 * max(null.spread, null.expected)


def chunk_table(found: Validation) -> list[dict[str, Any]]:
    """Return one row per chunk and placebo: every number, the verdict and its reason."""
    titles = {chunk.id: chunk.title for chunk in found.facts.columns.chunks}
    incumbents, shrunk = set(found.facts.skill.ids), found.assessment.shrunk
    rows: list[dict[str, Any]] = []
    for chunk_id, numbers in _numbers(found.contributions).items():
        value, spread, probability = shrunk[chunk_id]
        beside = {
            f"{name}_{column}": _numbers(other)[chunk_id][column]
            for name, other in found.assessment.beside.items()
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
                "kept": chunk_id in found.decision.kept,
                "verdict": str(found.decision.fates[chunk_id]),
                "reason": found.decision.reasons[chunk_id],
            }
        )
    for chunk_id, numbers in _numbers(found.assessment.placebos).items():
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


def findings_json(found: Validation, findings: Findings) -> Mapping[str, Any]:
    """Return ``gate.json``: rewards, power, placebos and additivity as data."""
    power, screen = findings.power, findings.screen
    return {
        "estimator": found.facts.gate.estimator,
        "policy": found.facts.gate.policy,
        "pairs": len(found.pairs.task_ids),
        "tasks": len(set(found.pairs.task_ids)),
        "r_free": to_json(found.r_free),
        "r_pair": to_json(found.r_pair),
        "gap": to_json(found.gap),
        "kept": list(found.decision.kept),
        "sides": to_json(sides(found.contributions)),
        "sigma": findings.sigma,
        "smallest_effect": power.smallest_effect if power else None,
        "useless_passes": power.outlooks[0].useless_passes if power else None,
        "useless_stays": power.outlooks[0].useless_stays if power else None,
        "placebos": to_json(found.assessment.null),
        "additivity": to_json(findings.additivity),
        "impossible": dict(found.assessment.impossible),
        "interaction_warnings": [list(pair) for pair in screen.warnings] if screen else [],
        "excluded_tasks": list(found.excluded),
    }
