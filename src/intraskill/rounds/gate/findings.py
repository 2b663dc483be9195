"""What a finished gate says beyond its verdicts: what it could see, if chunks add up, what noise looks like."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from intraskill.method.errors import NoVariationError, RankDeficientError
from intraskill.method.gate.diagnostics.additivity import AdditivityGap, additivity_gap
from intraskill.method.gate.diagnostics.interactions import InteractionScreen, screen_interactions
from intraskill.method.gate.diagnostics.placebo import EmpiricalNull
from intraskill.method.gate.planning import GatePlan
from intraskill.method.gate.power import gate_sigma
from intraskill.method.gate.regression import Contributions
from intraskill.method.gate.simultaneous import sides, together
from intraskill.method.skill.skill import ChunkId, Skill
from intraskill.rounds.gate.assess import Validation
from intraskill.rounds.gate.outlook import outlook
from intraskill.store.contents import ChunkRow
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


def find(validation: Validation) -> Findings:
    """Answer everything that the pairs of a gate allow; what they do not allow stays ``None``."""
    pairs, facts = validation.pairs, validation.facts
    published = validation.assessment.beside.get("paired_ols", validation.contributions)
    if not published.chunk_ids or published.estimator != "paired_ols":
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


def noise_band(null: EmpiricalNull) -> float:
    """Return how far from 0 a contribution still looks like noise, reward units.

    Twice the spread of the placebos, or of what their standard errors expect if that is more: one or two placebos may
    happen to lie close to 0.
    """
    return 2.0 * max(null.spread, null.expected)


def chunk_table(validation: Validation) -> list[dict[str, Any]]:
    """Return one row per chunk and placebo: every number that was measured, the verdict and its reason."""
    titles = {chunk.id: chunk.title for chunk in validation.facts.columns.chunks}
    incumbents, shrunk = set(validation.facts.skill.ids), validation.assessment.shrunk
    rows: list[dict[str, Any]] = []
    measured = _numbers(validation.contributions)
    for chunk_id in validation.facts.pool.ids:
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
                **measured.get(chunk_id, {}),
                **dict(zip(("shrunk", "shrunk_sd", "probability"), shrunk.get(chunk_id, ()), strict=False)),
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
    columns |= dict(
        zip(("together_low", "together_high"), map(np.ndarray.tolist, together(contributions)), strict=True)
    )
    return {
        chunk_id: {name: column[j] for name, column in columns.items()}
        for j, chunk_id in enumerate(contributions.chunk_ids)
    }


def findings_json(validation: Validation, findings: Findings) -> Mapping[str, Any]:
    """Return ``gate.json``: rewards, power, placebos and additivity as data."""
    power, screen = findings.power, findings.screen
    silent = validation.assessment.no_information
    return {
        **({"no_information": silent} if silent else {}),
        "estimator": validation.facts.gate.estimator,
        "policy": validation.facts.gate.policy,
        "pairs": len(validation.pairs.task_ids),
        "tasks": len(set(validation.pairs.task_ids)),
        "r_free": to_json(validation.r_free),
        "r_pair": to_json(validation.r_pair),
        "gap": to_json(validation.gap),
        "kept": list(validation.decision.kept),
        "sides": to_json(sides(validation.contributions, validation.facts.gate.negligible)),
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


def chunk_rows(
    validation: Validation,
    everything: Skill,
    exposure: Mapping[ChunkId, float],
    visible: Mapping[ChunkId, float],
    round_index: int,
) -> list[ChunkRow]:
    """Return one row per chunk of the pool: β̂ ± SE with its interval, exposure, P(visible) and what became of it.

    Under the policy ``probability`` a row also holds the shrunk value and P(α > 0). A draft that the first gate drops
    was never active: it is refused, not retired. After a gate without information a row holds no β̂ and a candidate
    waits.
    """
    decision, contributions = validation.decision, validation.contributions
    shrunk = validation.assessment.shrunk if validation.facts.gate.policy == "probability" else {}
    titles = {chunk.id: chunk.title for chunk in everything.chunks}
    columns = (contributions.beta_J, contributions.se_J, contributions.low_J, contributions.high_J)
    numbers = dict(zip(contributions.chunk_ids, zip(*map(np.ndarray.tolist, columns), strict=True), strict=True))
    rows: list[Any] = []
    for chunk_id in validation.facts.pool.ids:
        left = "retired" if chunk_id in decision.retired and round_index > 0 else "refused"
        left = "waiting" if validation.assessment.no_information else left
        status = "active" if chunk_id in exposure else left
        rows.append(
            {
                "id": chunk_id,
                "title": titles[chunk_id],
                **dict(zip(("beta", "se", "low", "high"), numbers.get(chunk_id, ()), strict=False)),
                **dict(zip(("shrunk", "shrunk_sd", "probability"), shrunk.get(chunk_id, ()), strict=False)),
                "exposure": exposure.get(chunk_id),
                "visible_probability": visible.get(chunk_id),
                "status": status,
                "reason": decision.reasons[chunk_id],
            }
        )
    return rows
