"""The contribution gate: which chunks stay, enter and leave (method §7.3), the published rule ``positive_topk``.

1. In a slot the new side wins when Σ β̂(adds) > Σ β̂(removes); a tie keeps the old side. DELETE is the same inequality
   with nothing on the new side.
2. A winner stays only with β̂ > 0.
3. Of these the K largest β̂, without padding.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import fsum

from intraskill.method.attribution import Contributions
from intraskill.method.edits import Edit, Slot, check_edits, pool, slots
from intraskill.method.errors import ConfigError, EditError, offenders
from intraskill.method.skill import ChunkId, Skill


class Fate(StrEnum):
    """What became of a chunk or an edit, and why."""

    SELECTED = "selected"
    NON_POSITIVE = "non_positive"
    BUDGET_EXCLUDED = "budget_excluded"
    SLOT_LOSER = "slot_loser"
    FIREWALL = "rejected_by_firewall"
    NO_PROPOSAL = "no_proposal"


@dataclass(frozen=True, slots=True)
class GateRule:
    """The published rule.

    Attributes:
        top_k: K ≥ 0, the most chunks that a skill may hold.
    """

    top_k: int

    def __post_init__(self) -> None:
        if self.top_k < 0:
            raise ConfigError(f"top_k must be 0 or more, got {self.top_k}")


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate decided. Every chunk of the pool is in exactly one of `kept`, ``retired``, ``refused_chunks``.

    Attributes:
        skill: S_{t+1}, in document order.
        taken: edits that changed the skill.
        refused: the other edits.
        retired: chunks of the old skill that left.
        refused_chunks: candidate chunks that did not enter.
        fates: by chunk id and by edit id.
        reasons: the same in words, with the numbers.
    """

    skill: Skill
    taken: tuple[Edit, ...]
    refused: tuple[Edit, ...]
    retired: tuple[ChunkId, ...]
    refused_chunks: tuple[ChunkId, ...]
    fates: Mapping[str, Fate]
    reasons: Mapping[str, str]

    @property
    def kept(self) -> tuple[ChunkId, ...]:
        """Chunks of the new skill, incumbents and newcomers."""
        return self.skill.ids


def decide(skill: Skill, edits: Sequence[Edit], contributions: Contributions, rule: GateRule) -> Decision:
    """Apply the published rule to the pool ``skill`` ∪ ``edits`` (method §7.3).

    Raises:
        EditError: if the edits do not fit the skill, or the contributions are not those of the pool.
    """
    check_edits(skill, edits)
    everything = pool(skill, edits)
    beta = contributions.by_chunk
    if differing := sorted(set(beta) ^ set(everything.ids)):
        raise EditError(f"contributions and pool differ in chunks, {offenders(differing)}; fit on this very pool")
    fates: dict[str, Fate] = {}
    for slot in slots(skill, edits):
        fates |= _contest(slot, beta)
    winners = [chunk_id for chunk_id in everything.ids if chunk_id not in fates]
    fates |= {chunk_id: Fate.NON_POSITIVE for chunk_id in winners if beta[chunk_id] <= 0.0}
    ranked = sorted((chunk_id for chunk_id in winners if beta[chunk_id] > 0.0), key=lambda chunk_id: -beta[chunk_id])
    fates |= {chunk_id: Fate.SELECTED for chunk_id in ranked[: rule.top_k]}
    fates |= {chunk_id: Fate.BUDGET_EXCLUDED for chunk_id in ranked[rule.top_k :]}
    fates |= {edit.id: _edit_fate(edit, beta, fates) for edit in edits}
    kept = tuple(chunk for chunk in everything.chunks if fates[chunk.id] is Fate.SELECTED)
    return Decision(
        skill=Skill(skill.preamble, kept),
        taken=tuple(edit for edit in edits if fates[edit.id] is Fate.SELECTED),
        refused=tuple(edit for edit in edits if fates[edit.id] is not Fate.SELECTED),
        retired=tuple(chunk_id for chunk_id in skill.ids if fates[chunk_id] is not Fate.SELECTED),
        refused_chunks=tuple(
            chunk_id for edit in edits for chunk_id in edit.added_ids if fates[chunk_id] is not Fate.SELECTED
        ),
        fates=fates,
        reasons=_reasons(edits, contributions, fates, rule),
    )


def _side(ids: Sequence[ChunkId], beta: Mapping[ChunkId, float]) -> float:
    return fsum(beta[chunk_id] for chunk_id in ids)


def _new_side_wins(slot: Slot, beta: Mapping[ChunkId, float]) -> bool:
    return _side(slot.new, beta) > _side(slot.old, beta)


def _contest(slot: Slot, beta: Mapping[ChunkId, float]) -> dict[ChunkId, Fate]:
    """Return the losers of a slot with two sides; a side without opponent only has to be positive."""
    if not slot.old or not slot.new:
        return {}
    return dict.fromkeys(slot.old if _new_side_wins(slot, beta) else slot.new, Fate.SLOT_LOSER)


def _edit_fate(edit: Edit, beta: Mapping[ChunkId, float], fates: Mapping[str, Fate]) -> Fate:
    """Return SELECTED if the edit changed the skill, else the fate of its strongest new chunk."""
    if edit.op == "DELETE":
        wins = _new_side_wins(Slot(edit.removes, ()), beta)
        return Fate.SELECTED if wins else Fate.SLOT_LOSER
    if any(fates[chunk_id] is Fate.SELECTED for chunk_id in edit.added_ids):
        return Fate.SELECTED
    return fates[max(edit.added_ids, key=lambda chunk_id: beta[chunk_id])]


def _reasons(
    edits: Sequence[Edit], contributions: Contributions, fates: Mapping[str, Fate], rule: GateRule
) -> dict[str, str]:
    """Say every fate in words, each with the numbers that decided it."""
    beta = contributions.by_chunk
    words = {
        Fate.SELECTED: f"its contribution is positive and among the top {rule.top_k}",
        Fate.NON_POSITIVE: "its contribution is not positive",
        Fate.BUDGET_EXCLUDED: f"its contribution is positive but not among the top {rule.top_k}",
        Fate.SLOT_LOSER: "the other side of its slot contributes more, or as much and is the old one",
    }
    reasons = {
        chunk_id: f"{value:+.4f} ± {se:.4f}: {words[fates[chunk_id]]}"
        for chunk_id, value, se in zip(contributions.chunk_ids, contributions.beta_J, contributions.se_J, strict=True)
    }
    for edit in edits:
        sums = f"old {_side(edit.removes, beta):+.4f}, new {_side(edit.added_ids, beta):+.4f}"
        verb = "taken" if fates[edit.id] is Fate.SELECTED else "refused"
        reasons[edit.id] = f"{sums}: {verb}, {fates[edit.id].value}"
    return reasons
