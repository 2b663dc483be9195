"""What a proposal must pass between MAP and the gate; each stage counts what falls and says what became of it."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from intraskill.method.leakage.filter import LeakFilter, Rejection
from intraskill.method.skill.proposals import Ledger, Proposal, merge_proposals, precedence, unite_equals
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.store.contents import Blocked, Refusal


@dataclass(frozen=True, slots=True)
class Memory:
    """What keeps an equal loser of a recent gate away.

    Attributes:
        ledger: every proposal so far.
        round_index: the current round t.
        rounds: for how many rounds a loser stays away.
    """

    ledger: Ledger = field(default_factory=Ledger)
    round_index: int = 0
    rounds: int = 0

    def blocks(self, proposal: Proposal) -> bool:
        """Whether a proposal says what lost, or was replaced, in the last ``rounds`` rounds."""
        return self.ledger.blocked_by(proposal, self.round_index, rounds=self.rounds) is not None

    def blocked(self, proposal: Proposal) -> Blocked:
        """Return a proposal that `blocks` with what keeps it away.

        Raises:
            ValueError: when nothing does.
        """
        entry = self.ledger.blocked_by(proposal, self.round_index, rounds=self.rounds)
        if entry is None:
            raise ValueError(f"nothing keeps {proposal.to_edit().id} away")
        loss = f"lost as {entry.op} {entry.edit_id}" if entry.lost_as(proposal) else f"was replaced by {entry.edit_id}"
        until = entry.round_index + self.rounds
        return Blocked(
            proposal, f"{loss} in round {entry.round_index} ({entry.fate.value}); kept away until round {until}"
        )


@dataclass(slots=True)
class ProposalFilter:
    """The stages of one pass, in the order in which they are called.

    Attributes:
        skill: the frozen current skill.
        leak_filter: refuses what must not enter a pool or a prompt.
        memory: keeps recent losers away; at round 0, the cold start, only additions pass (method §4).
        counts: proposals that fell, by stage.
        fallen: place of a proposal (`intraskill.proposers.analysis_records`) → the stage that let it fall.
        refused: edit → what the leak filter refused, equal texts united.
        kept_away: what the ledger blocks.
    """

    skill: Skill
    leak_filter: LeakFilter
    memory: Memory
    counts: Counter[str] = field(default_factory=Counter)
    fallen: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    kept_away: list[Proposal] = field(default_factory=list)

    def screen(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Leave out what a cold start cannot do, recent losers, misfits and leaks, before anything is united.

        So that a leak takes nothing harmless with it: equal bodies may stand under another title.
        """
        possible = self._keep("not_at_start", proposals, lambda p: p.op == "ADD" or self.memory.round_index > 0)
        admitted = self._keep("blocked_by_ledger", possible, lambda proposal: not self.memory.blocks(proposal))
        self.kept_away += [proposal for proposal in possible if proposal not in admitted]
        fitting = self._keep("misfit", admitted, self._fits)
        return self._keep("rejected_by_firewall", fitting, lambda proposal: self._passes(proposal, ()))

    def unite(self, proposals: Sequence[Proposal]) -> list[Proposal]:
        """Make one of equal proposals, with the union of their supports; the best supported ones come first."""
        united = unite_equals(proposals)
        self.counts["merged"] += len(proposals) - len(united)
        return sorted(united, key=precedence)

    def allows(self, proposal: Proposal) -> bool:
        """Whether a text of REDUCE passes what its inputs passed. Counts nothing."""
        return not self.memory.blocks(proposal) and self._fits(proposal) and not self._rejections(proposal, ())

    def compile(self, proposals: Sequence[Proposal], limit: int) -> tuple[Proposal, ...]:
        """Return at most ``limit`` proposals, the best supported first: one per target, no copies of one another."""
        distinct = merge_proposals(proposals, limit=len(proposals))
        chosen = {proposal.meaning for proposal in distinct}
        self._keep("rival", proposals, lambda proposal: proposal.meaning in chosen)
        accepted: list[Chunk] = []

        def new(proposal: Proposal) -> bool:
            passes = self._passes(proposal, accepted)
            accepted.extend(proposal.chunks if passes else ())
            return passes

        originals = self._keep("rejected_by_firewall", distinct, new)
        self.counts["over_limit"] += 0
        kept = {proposal.meaning for proposal in originals[:limit]}
        return tuple(self._keep("over_limit", originals, lambda proposal: proposal.meaning in kept))

    def _keep(self, stage: str, proposals: Sequence[Proposal], holds: Callable[[Proposal], bool]) -> list[Proposal]:
        kept = []
        for proposal in proposals:
            if holds(proposal):
                kept.append(proposal)
            else:
                self.fallen.update(dict.fromkeys(proposal.calls, stage))
        self.counts[stage] += len(proposals) - len(kept)
        return kept

    def _fits(self, proposal: Proposal) -> bool:
        present = set(self.skill.ids)
        return set(proposal.targets) <= present and present.isdisjoint(chunk.id for chunk in proposal.chunks)

    def _passes(self, proposal: Proposal, accepted: Sequence[Chunk]) -> bool:
        rejections = self._rejections(proposal, accepted)
        if rejections:
            equal = self.refused.get(proposal.to_edit().id, Refusal(proposal, rejections))
            (united,) = unite_equals((equal.proposal, proposal))
            self.refused[proposal.to_edit().id] = Refusal(united, equal.rejections)
        return not rejections

    def _rejections(self, proposal: Proposal, accepted: Sequence[Chunk]) -> tuple[Rejection, ...]:
        """Inspect a proposal's own words, and its chunks beside those that it leaves and those accepted before it."""
        words = self.leak_filter.inspect_reasons((proposal.root_cause, proposal.expected_effect))
        return words or self.leak_filter.inspect_edit(proposal.chunks, self.skill, proposal.targets, accepted)
