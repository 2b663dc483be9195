"""The contribution gate: which chunks stay, enter and leave (method §7.3), by the published rule or a more careful one.

The published rule, ``positive_topk`` (`GateRule`):

1. In a slot the new side wins when Σ β̂(adds) > Σ β̂(removes); a tie keeps the old side. DELETE is the same inequality
   with nothing on the new side. Among several new sides the largest sum wins.
2. A winner stays only with β̂ > 0.
3. Of these the K largest β̂, without padding.

`ProbabilityRule` and `FdrRule` ask the same three questions of a posterior or of p-values (`gate_policies`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from intraskill.method.attribution import Contributions
from intraskill.method.edits import Edit, Slot, check_edits, pool, slots
from intraskill.method.errors import EditError, offenders
from intraskill.method.gate_policies import Judge, judge
from intraskill.method.gate_rules import DecisionRule as DecisionRule
from intraskill.method.gate_rules import Fate as Fate
from intraskill.method.gate_rules import FdrRule as FdrRule
from intraskill.method.gate_rules import GateRule as GateRule
from intraskill.method.gate_rules import ProbabilityRule as ProbabilityRule
from intraskill.method.shrinkage import Evidence
from intraskill.method.skill import ChunkId, Skill

_STAYS = (Fate.SELECTED, Fate.HELD_AT_FLOOR)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the gate decided. Every chunk of the pool is in exactly one of `kept`, ``retired``, ``refused_chunks``.

    Attributes:
        skill: S_{t+1}, in document order.
        taken: edits that changed the skill.
        refused: the other edits.
        retired: chunks of the old skill that left.
        refused_chunks: candidate chunks that did not enter, those that wait for more evidence included.
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

    @property
    def held(self) -> tuple[ChunkId, ...]:
        """Chunks of the new skill that stay only at the lowest exposure ρ_min."""
        return tuple(chunk_id for chunk_id in self.kept if self.fates[chunk_id] is Fate.HELD_AT_FLOOR)


def decide(
    skill: Skill,
    edits: Sequence[Edit],
    contributions: Contributions,
    rule: DecisionRule,
    earlier: Mapping[ChunkId, Evidence] | None = None,
) -> Decision:
    """Apply ``rule`` to the pool ``skill`` ∪ ``edits`` (method §7.3).

    Args:
        skill: S_t.
        edits: this round's candidates.
        contributions: fitted on this very pool.
        rule: one of `DecisionRule`.
        earlier: what earlier rounds said (`shrinkage.carry_over`); only a `ProbabilityRule` listens.

    Raises:
        EditError: if the edits do not fit the skill, or the contributions are not those of the pool.
    """
    check_edits(skill, edits, alternatives=True)
    everything = pool(skill, edits, alternatives=True)
    if differing := sorted(set(contributions.by_chunk) ^ set(everything.ids)):
        raise EditError(f"contributions and pool differ in chunks, {offenders(differing)}; fit on this very pool")
    contested = [slot for slot in slots(skill, edits) if len(slot.versions) > 1]
    judged = judge(contributions, contested, rule, earlier)
    found = _chunk_fates(skill, everything, contested, judged, rule.top_k)
    fates = {chunk_id: found[chunk_id] for chunk_id in everything.ids}
    reasons = {chunk_id: judged.chunk_words(chunk_id, fate) for chunk_id, fate in fates.items()}
    edit_fates = _edit_fates(edits, judged, fates)
    reasons |= {edit.id: _edit_words(edit, judged, edit_fates[edit.id]) for edit in edits}
    return Decision(
        skill=Skill(skill.preamble, tuple(chunk for chunk in everything.chunks if fates[chunk.id] in _STAYS)),
        taken=tuple(edit for edit in edits if edit_fates[edit.id] is Fate.SELECTED),
        refused=tuple(edit for edit in edits if edit_fates[edit.id] is not Fate.SELECTED),
        retired=tuple(chunk_id for chunk_id in skill.ids if fates[chunk_id] not in _STAYS),
        refused_chunks=tuple(
            chunk_id for edit in edits for chunk_id in edit.added_ids if fates[chunk_id] not in _STAYS
        ),
        fates=fates | edit_fates,
        reasons=reasons,
    )


def _chunk_fates(
    skill: Skill, everything: Skill, contested: Sequence[Slot], judged: Judge, top_k: int
) -> dict[str, Fate]:
    """Slots first, then every chunk by itself, then the top K: the selected before the merely held, then by value."""
    fates: dict[str, Fate] = {}
    for slot in contested:
        fates |= judged.losers(slot)
    incumbents = set(skill.ids)
    fates |= {
        chunk_id: judged.standing(chunk_id, incumbent=chunk_id in incumbents)
        for chunk_id in everything.ids
        if chunk_id not in fates
    }
    staying = [chunk_id for chunk_id in everything.ids if fates[chunk_id] in _STAYS]
    ranked = sorted(staying, key=lambda chunk_id: (_STAYS.index(fates[chunk_id]), -judged.value[chunk_id]))
    return fates | dict.fromkeys(ranked[top_k:], Fate.BUDGET_EXCLUDED)


def _edit_fates(edits: Sequence[Edit], judged: Judge, fates: Mapping[str, Fate]) -> dict[str, Fate]:
    """Return SELECTED for an edit that changed the skill, else the fate of its strongest new chunk."""
    found: dict[str, Fate] = {}
    replaced: set[ChunkId] = set()
    for edit in sorted(edits, key=lambda edit: edit.op == "DELETE"):
        if edit.op == "DELETE":
            taken = judged.deletes(edit.removes) and replaced.isdisjoint(edit.removes)
            found[edit.id] = Fate.SELECTED if taken else Fate.SLOT_LOSER
        elif any(fates[chunk_id] is Fate.SELECTED for chunk_id in edit.added_ids):
            found[edit.id] = Fate.SELECTED
            replaced.update(edit.removes)
        else:
            found[edit.id] = fates[max(edit.added_ids, key=lambda chunk_id: judged.value[chunk_id])]
    return {edit.id: found[edit.id] for edit in edits}


def _edit_words(edit: Edit, judged: Judge, fate: Fate) -> str:
    verb = "taken" if fate is Fate.SELECTED else "refused"
    return f"{judged.slot_words(Slot(edit.removes, edit.added_ids))}: {verb}, {fate.value}"
