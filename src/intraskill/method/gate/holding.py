"""Verdicts that are held (method §7.3): a candidate waits, and may be proposed again.

A gate without information holds all of them: nothing varied, so no chunk was measured and nothing changes. Such a gate
has no β̂ at all: a 0 with some error would be a measurement, and this is none. A chunk under which runs fault is held
alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from intraskill.method.gate.decision import Decision
from intraskill.method.gate.rules import Fate
from intraskill.method.skill.edits import Edit, pool
from intraskill.method.skill.skill import ChunkId, Skill


def hold(skill: Skill, edits: Sequence[Edit], top_k: int, why: str) -> Decision:
    """Keep the skill as it is; candidates wait and may be proposed again.

    Args:
        skill: S_t.
        edits: this round's candidates.
        top_k: K. Of a first draft with more chunks the first K in document order stay, and the others wait.
        why: what did not vary.
    """
    everything = pool(skill, edits, alternatives=True)
    kept = Skill(skill.preamble, skill.chunks[:top_k])
    fates = {chunk_id: Fate.NO_INFORMATION if chunk_id in kept.ids else Fate.WAITING for chunk_id in everything.ids}
    fates |= {edit.id: Fate.WAITING for edit in edits}
    words = {
        Fate.NO_INFORMATION: f"{why}; no information: it stays as it is",
        Fate.WAITING: f"{why}; no information: it waits and may be proposed again",
    }
    return Decision(
        skill=kept,
        taken=(),
        refused=tuple(edits),
        retired=skill.ids[top_k:],
        fates=fates,
        reasons={name: words[fate] for name, fate in fates.items()},
    )


def with_waiting(decision: Decision, waiting: Sequence[Edit], why: Mapping[ChunkId, str]) -> Decision:
    """Add edits that were not judged: they and their chunks wait.

    Args:
        decision: on the other edits.
        waiting: edits that add a chunk of ``why``.
        why: in words, by chunk.
    """
    fates, reasons = dict(decision.fates), dict(decision.reasons)
    for edit in waiting:
        words = "; ".join(why[chunk_id] for chunk_id in edit.added_ids if chunk_id in why)
        for name in (edit.id, *edit.added_ids):
            fates[name], reasons[name] = Fate.WAITING, f"{words}: it waits and may be proposed again"
    return replace(decision, refused=(*decision.refused, *waiting), fates=fates, reasons=reasons)
