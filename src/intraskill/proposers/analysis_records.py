"""One readable record per proposer call, so that a line of the skill can be followed back to what was read and tried.

While a pass runs, the ``calls`` of a proposal name its place, ``CALL~2``: the third proposal of that call. The pass
writes at its end each proposal's fate into its record and leaves the bare call ids on the proposals that go on.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from intraskill.environments.leaks import is_private_key
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Skill
from intraskill.proposers.schema import Prompts

_MAX_PAGE_CHARS = 1500
_MAX_ACTION_CHARS = 200
_SEEN_ALREADY = ("page_type", "actions", "last_action", "search_available")


def describe(rollout: Rollout, skill: Skill, prompts: Prompts) -> str:
    """Return the question about one rollout."""
    parts = ", ".join(f"{name}={value:g}" for name, value in sorted(rollout.parts.items()))
    outcome = f"reward {rollout.reward or 0.0:g}" + (f"; {parts}" if parts else "")
    return prompts.fill(
        "evidence",
        skill=describe_skill(skill, rollout),
        request=quoted(rollout.request),
        log="\n".join(_log(rollout)) or "(no action)",
        outcome=outcome + ("; cut off by a limit" if rollout.truncated else ""),
    )


def describe_skill(skill: Skill, rollout: Rollout | None = None) -> str:
    """Return every chunk with its id, and whether the rollout was shown it."""
    shown = frozenset() if rollout is None else rollout.visible
    chunks = [f"[{c.id}]{' (shown)' if c.id in shown else ''} {c.title}\n{c.body}" for c in skill.chunks]
    return "\n\n".join(chunks) or "(empty)"


def quoted(value: Any, limit: int | None = None) -> str:
    """Return JSON in which no markup survives, cut after ``limit`` characters."""
    text = json.dumps(value, ensure_ascii=False, default=str).replace("<", "\\u003c").replace(">", "\\u003e")
    return text if limit is None or len(text) <= limit else f"{text[:limit]}…"


def _log(rollout: Rollout) -> list[str]:
    lines = []
    before: Mapping[str, Any] = {}
    for number, turn in enumerate(rollout.turns, 1):
        call = f"{turn.tool}({quoted(turn.argument, _MAX_ACTION_CHARS)})" if turn.tool else _quoted_action(turn.action)
        lines.append(f"{number}. on {quoted(turn.page)}: {call} -> {turn.feedback}")
        if seen := _public({key: value for key, value in turn.state.items() if before.get(key) != value}):
            lines.append(f"   saw {quoted(seen, _MAX_PAGE_CHARS)}")
        before = turn.state
    return lines


def _quoted_action(action: str) -> str:
    """Return an action that was no valid call."""
    return f"no valid call {quoted(action, _MAX_ACTION_CHARS)}"


def _public(value: Any) -> Any:
    """Return a page's state without what stands elsewhere in the log; a private key would be an error upstream."""
    if isinstance(value, Mapping):
        return {
            key: _public(item) for key, item in value.items() if key not in _SEEN_ALREADY and not is_private_key(key)
        }
    return [_public(item) for item in value] if isinstance(value, list | tuple) else value


Kind = Literal["success", "failure", "reduce", "edit"]
_TO_GATE = "to_gate"


@dataclass(frozen=True, slots=True)
class TriedAction:
    """One decision of a live trial: the action's text and the environment's feedback code."""

    action: str
    feedback: str


@dataclass(frozen=True, slots=True)
class ProposalFate:
    """A proposal as its call made it, and what became of it.

    Attributes:
        proposal: as proposed.
        action: number of the logged action that it points at, from 1; 0 for none.
        fate: ``to_gate``, or the stage that let it fall, such as ``blocked_by_ledger``; empty while the pass runs.
        edit_id: the edit that carries it to the gate, alone or united with others; else empty.
    """

    proposal: Proposal
    action: int = 0
    fate: str = ""
    edit_id: str = ""


@dataclass(frozen=True, slots=True)
class AnalysisRecord:
    """What one proposer call read, tried and proposed.

    Attributes:
        id: the call: kind, rollout and, where a prompt was asked, its hash.
        kind: what was read: a success, a failure, for ``reduce`` other proposals, for ``edit`` a batch of rollouts.
        analyst: who read it.
        rollout_id: of the rollout, empty for ``reduce`` and ``edit``.
        inputs: for ``reduce``, the calls whose proposals were read; for ``edit``, the rollouts.
        outcome: ``proposed``, ``no_proposal``, or why there is none: ``bad_answer``, ``fix_failed``, ``no_trial`` (the
            environment could not open the task again), ``no_action`` (an empty log); of an editor ``noop``, or
            ``invalid/`` and the reason's name (docs/skill_alpha.md).
        diagnosis: what was found, in words; of an editor its answer as it stands.
        lean_path: of a success, the numbers of the logged actions that were needed.
        responsible_action: of a failure, the number of the logged action that settled it; 0 for none.
        tried: of a failure, the decisions of the live trial.
        trial_reward: what the environment paid for the trial; ``None`` without one.
        private_notes: what only this task needed; it stays in this record.
        proposals: each with its fate.
    """

    id: str
    kind: Kind
    analyst: str
    rollout_id: str = ""
    inputs: tuple[str, ...] = ()
    outcome: str = "no_proposal"
    diagnosis: str = ""
    lean_path: tuple[int, ...] = ()
    responsible_action: int = 0
    tried: tuple[TriedAction, ...] = ()
    trial_reward: float | None = None
    private_notes: str = ""
    proposals: tuple[ProposalFate, ...] = ()

    def proposing(self, proposals: Sequence[Proposal], actions: Sequence[int] = ()) -> "AnalysisRecord":
        """Return the record with its proposals, each marked with its place."""
        made = []
        for place, proposal in enumerate(proposals):
            marked = replace(proposal, calls=(f"{self.id}~{place}",))
            made.append(ProposalFate(marked, actions[place] if actions else self.responsible_action))
        return replace(self, outcome="proposed" if made else "no_proposal", proposals=tuple(made))

    @property
    def proposed(self) -> tuple[Proposal, ...]:
        """The proposals alone."""
        return tuple(one.proposal for one in self.proposals)


def call_id(kind: Kind, name: str, prompt: object = None) -> str:
    """Return the id of a call, such as ``failure/t12#0@ab12cd/3fa91c02``."""
    return f"{kind}/{name}" + ("" if prompt is None else f"/{content_hash(prompt)[:8]}")


def rollout_id(rollout: Rollout) -> str:
    """Return an id of one rollout among all rollouts of a run: task, sample, context, weights, and what was done.

    The latter because a task may be played again in one context at the same weights, with other seeds: in the groups of
    a round and in its review.
    """
    done = rollout.token_ids, [turn.action for turn in rollout.turns]
    return f"{rollout.task_id}#{rollout.sample}@{content_hash(sorted(rollout.visible), rollout.checkpoint, *done)[:6]}"


def bare_calls(proposal: Proposal) -> Proposal:
    """Return a proposal whose calls are call ids only."""
    return replace(proposal, calls=tuple(sorted({call.partition("~")[0] for call in proposal.calls})))


def with_fates(
    records: Iterable[AnalysisRecord], fallen: Mapping[str, str], final: Sequence[Proposal]
) -> tuple[AnalysisRecord, ...]:
    """Write into each record what became of its proposals, in the order of the call ids.

    Args:
        records: of one pass.
        fallen: place of a proposal → the stage that let it fall.
        final: the proposals that go to the gate, still marked with the places that they united.
    """
    edits = {place: proposal.to_edit().id for proposal in final for place in proposal.calls}

    def closed(one: ProposalFate) -> ProposalFate:
        (place,) = one.proposal.calls
        fate = _TO_GATE if place in edits else fallen.get(place, "")
        return replace(one, proposal=bare_calls(one.proposal), fate=fate, edit_id=edits.get(place, ""))

    return tuple(
        replace(record, proposals=tuple(map(closed, record.proposals)))
        for record in sorted(records, key=lambda record: record.id)
    )


def without_edits(records: Iterable[AnalysisRecord], edit_ids: Collection[str]) -> tuple[AnalysisRecord, ...]:
    """Mark the proposals of edits that would have added more chunks than the pool has room for as ``too_large``."""

    def marked(one: ProposalFate) -> ProposalFate:
        return replace(one, fate="too_large", edit_id="") if one.edit_id in edit_ids else one

    return tuple(replace(record, proposals=tuple(map(marked, record.proposals))) for record in records)
