"""Trace2Skill: from rollouts to a few candidate edits, many to one (method §4, §6.3).

MAP (a proposer reads each rollout against a frozen skill) → screen (ledger, fit, leak filter; each proposal alone)
→ REDUCE (equal proposals are united; an LLM proposer also unites those that say the same in other words, and its texts
are screened again) → at most ``limit`` candidates. The cold start is the same path, where
only additions pass and every candidate becomes a draft chunk. What is proposed does not depend on the order of the
rollouts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from intraskill.method.curriculum.frontier import suspect_harm
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.rollouts import GroupResult, Rollout
from intraskill.method.skill.edits import Edit
from intraskill.method.skill.proposals import Proposal, unite_equals
from intraskill.method.skill.skill import Skill
from intraskill.proposers.analysis_records import AnalysisRecord, bare_calls, with_fates
from intraskill.proposers.proposal_filter import Memory, ProposalFilter
from intraskill.proposers.reduce import Allows, Reduction
from intraskill.store.contents import ProposedEdits, Refusal
from intraskill.store.usage import Usage


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a proposer made of some rollouts.

    Attributes:
        proposals: one per finding, not yet merged.
        counts: findings by name, such as ``failure/search_features``, and losses, such as ``no_proposal``.
        records: one per rollout that was read, where the proposer keeps them.
    """

    proposals: tuple[Proposal, ...]
    counts: Mapping[str, int] = field(default_factory=dict)
    records: tuple[AnalysisRecord, ...] = ()


class Reducer(Protocol):
    """Unites proposals that say the same in other words."""

    def reduce(self, proposals: Sequence[Proposal], skill: Skill, allows: Allows) -> Reduction:
        """Return the united proposals; an output that ``allows`` refuses is not made."""


class Proposer(Protocol):
    """Reads public evidence only: requests, logged turns, reward parts."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    @property
    def reducer(self) -> Reducer | None:
        """What unites its proposals beyond equal texts, or ``None``."""

    @property
    def prompts_hash(self) -> str:
        """Hash of the prompts that it asks with; empty for a proposer without prompts."""

    @property
    def usage(self) -> Usage | None:
        """What the run has spent on its answers so far; ``None`` for a proposer that asks nobody."""

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Read every rollout against the frozen current skill."""


@dataclass(frozen=True)
class OwnProposer:
    """The proposer that a world brings along."""

    propose: Callable[[Sequence[Rollout], Skill], tuple[Proposal, ...]]
    name: str = "rules"
    reducer: Reducer | None = None
    prompts_hash: str = ""
    usage: Usage | None = None

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Pass on what the world proposes."""
        return Analysis(tuple(self.propose(rollouts, skill)))


@dataclass(frozen=True, slots=True)
class ProposalBatch(ProposedEdits):
    """Outcome of one Trace2Skill pass.

    Its counts by stage are ``not_at_start``, ``blocked_by_ledger``, ``misfit`` (they do not fit the skill),
    ``rejected_by_firewall``, ``merged``, ``merged_level_1`` and so on, ``rival`` (a better supported one has the same
    target), ``over_limit``.

    Attributes:
        records: one per proposer call, with the fate of its proposals; they hold private notes.
    """

    records: tuple[AnalysisRecord, ...] = ()

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The candidate edits."""
        return tuple(proposal.to_edit() for proposal in self.proposals)


_COLD_START = Memory()


def propose_batch(
    rollouts: Sequence[Rollout],
    skill: Skill,
    proposer: Proposer,
    leak_filter: LeakFilter,
    *,
    limit: int,
    memory: Memory = _COLD_START,
    groups: Sequence[GroupResult] = (),
) -> ProposalBatch:
    """Return at most ``limit`` candidate edits of ``skill`` that the rollouts speak for (method §6.3).

    Args:
        rollouts: evidence, in any order; online, those of tasks with a skill deficit.
        skill: the frozen current skill.
        proposer: reads the rollouts.
        leak_filter: refuses what must not enter the pool, nor another prompt.
        limit: most candidates; in the published run 6 online, and 16 at the cold start.
        groups: the round's training groups, whose randomised contexts may speak for a DELETE.
        memory: keeps recent losers away; at round 0, the cold start, only additions pass (method §4).

    Raises:
        EndpointError: when the proposer's endpoint gives no answer.
    """
    analysis = proposer.analyse(rollouts, skill)
    found = sorted((*analysis.proposals, *suspect_harm(groups, skill)), key=_canonical)
    proposal_filter = ProposalFilter(skill, leak_filter, memory, Counter(analysis.counts))
    proposal_filter.counts["mapped"] = len(found)
    screened = proposal_filter.unite(proposal_filter.screen(found))
    records = analysis.records
    if proposer.reducer is not None:
        reduction = proposer.reducer.reduce(screened, skill, proposal_filter.allows)
        screened, records = list(reduction.proposals), (*records, *reduction.records)
        proposal_filter.counts.update(reduction.counts)
    final = proposal_filter.compile(screened, limit)
    refused = tuple(Refusal(bare_calls(one.proposal), one.rejections) for one in proposal_filter.refused.values())
    blocked = tuple(memory.blocked(bare_calls(proposal)) for proposal in unite_equals(proposal_filter.kept_away))
    records = with_fates(records, proposal_filter.fallen, final)
    counts = dict(sorted(proposal_filter.counts.items()))
    return ProposalBatch(tuple(map(bare_calls, final)), refused, counts, proposer.name, blocked, records)


def _canonical(proposal: Proposal) -> tuple[object, ...]:
    texts = tuple((chunk.title, chunk.body) for chunk in proposal.chunks)
    return proposal.op, proposal.targets, texts, proposal.root_cause, proposal.support, proposal.calls
