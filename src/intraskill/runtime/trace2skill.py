"""Trace2Skill: from rollouts to a few candidate edits, many to one (method §4, §6.3).

MAP (an analyst reads each rollout against a frozen skill) → REDUCE (`merge_proposals`) → ledger (equal losers stay
away) → firewall → at most ``limit`` candidates. The cold start is the same path with an empty skill, where every
candidate becomes a draft chunk. What is proposed does not depend on the order of the rollouts.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from intraskill.environments.protocol import Environment
from intraskill.environments.shopworld.secrets import shop_secrets
from intraskill.environments.shopworld.world import Shop
from intraskill.method.edits import Edit
from intraskill.method.firewall import Firewall, Rejection, Secrets
from intraskill.method.proposals import Ledger, Proposal, merge_proposals
from intraskill.method.randomness import content_hash
from intraskill.method.rollouts import GroupResult, Rollout
from intraskill.method.skill import Chunk, Skill
from intraskill.method.suspicion import suspect_harm
from intraskill.method.tasks import SPLITS


@dataclass(frozen=True, slots=True)
class Analysis:
    """What an analyst made of some rollouts.

    Attributes:
        proposals: one per finding, not yet merged.
        counts: findings by name, such as ``failure/search_features``, and losses, such as ``no_proposal``.
    """

    proposals: tuple[Proposal, ...]
    counts: Mapping[str, int] = field(default_factory=dict)


class Analyst(Protocol):
    """Reads public evidence only: requests, logged turns, reward parts."""

    @property
    def name(self) -> str:
        """What the report calls it."""

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Read every rollout against the frozen current skill."""


@dataclass(frozen=True)
class OwnAnalyst:
    """The analyst that a world brings along."""

    propose: Callable[[Sequence[Rollout], Skill], tuple[Proposal, ...]]
    name: str = "rules"

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Pass on what the world proposes."""
        return Analysis(tuple(self.propose(rollouts, skill)))


@dataclass(frozen=True, slots=True)
class Refusal:
    """A proposal that never reached the gate because the firewall refused it."""

    proposal: Proposal
    rejections: tuple[Rejection, ...]

    @property
    def reason(self) -> str:
        """Every broken rule with its span."""
        return "; ".join(str(rejection) for rejection in self.rejections)


@dataclass(frozen=True, slots=True)
class Harvest:
    """Outcome of one Trace2Skill pass.

    Attributes:
        proposals: those that go to the gate, best supported first.
        refused: those that the firewall refused.
        counts: the analyst's counts, and how many proposals each later stage let fall: ``merged``,
            ``blocked_by_ledger``, ``misfit`` (they do not fit the skill), ``rejected_by_firewall``, ``over_limit``.
        analyst: name of the analyst.
    """

    proposals: tuple[Proposal, ...]
    refused: tuple[Refusal, ...]
    counts: Mapping[str, int]
    analyst: str

    @property
    def edits(self) -> tuple[Edit, ...]:
        """The candidate edits."""
        return tuple(proposal.to_edit() for proposal in self.proposals)


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


COLD_START = Memory()


def harvest_edits(
    rollouts: Sequence[Rollout],
    skill: Skill,
    analyst: Analyst,
    firewall: Firewall,
    *,
    limit: int,
    memory: Memory = COLD_START,
    groups: Sequence[GroupResult] = (),
) -> Harvest:
    """Return at most ``limit`` candidate edits of ``skill`` that the rollouts speak for (method §6.3).

    Args:
        rollouts: evidence, in any order; online, those of tasks with a skill deficit.
        skill: the frozen current skill.
        analyst: reads the rollouts.
        firewall: refuses what must not enter the pool.
        limit: most candidates; in the published run 6 online, and 16 at the cold start.
        groups: the round's training groups, whose randomised contexts may speak for a DELETE.
        memory: keeps recent losers away; at round 0, the cold start, only additions pass (method §4).
    """
    analysis = analyst.analyse(rollouts, skill)
    counts = Counter(analysis.counts)
    found = (*analysis.proposals, *suspect_harm(groups, skill))
    offered = sorted((p for p in found if p.op == "ADD" or memory.round_index > 0), key=_canonical)
    merged = merge_proposals(offered, limit=len(offered))
    counts["merged"] = len(offered) - len(merged)
    admitted = memory.ledger.admissible(merged, memory.round_index, rounds=memory.rounds)
    counts["blocked_by_ledger"] = len(merged) - len(admitted)
    fitting = [p for p in admitted if _fits(p, skill)]
    counts["misfit"] = len(admitted) - len(fitting)
    passed, refused = _screen(fitting, skill, firewall)
    counts["rejected_by_firewall"] = len(refused)
    counts["over_limit"] = max(0, len(passed) - limit)
    return Harvest(passed[:limit], refused, dict(sorted(counts.items())), analyst.name)


def rollout_id(rollout: Rollout) -> str:
    """Return an id of one rollout among all rollouts of a run: task, sample, context, weights."""
    context = content_hash(sorted(rollout.visible), rollout.checkpoint)
    return f"{rollout.task_id}#{rollout.sample}@{context[:6]}"


def secrets_of(environment: Environment) -> Secrets:
    """Return what no chunk may hold: all that a `Shop` keeps private, and the task ids of any other world."""
    if isinstance(environment, Shop):
        return shop_secrets(environment)
    return Secrets(task_ids=tuple(task.id for split in SPLITS for task in environment.tasks(split)))


def _screen(
    proposals: Sequence[Proposal], skill: Skill, firewall: Firewall
) -> tuple[tuple[Proposal, ...], tuple[Refusal, ...]]:
    """Split proposals by the firewall; the pool's chunks beside a candidate are those it does not replace."""
    passed: list[Proposal] = []
    refused: list[Refusal] = []
    accepted: list[Chunk] = []
    for proposal in proposals:
        beside = [chunk for chunk in skill.chunks if chunk.id not in proposal.targets]
        found = tuple(r for chunk in proposal.chunks for r in firewall.inspect(chunk, [*beside, *accepted]))
        if found:
            refused.append(Refusal(proposal, found))
        else:
            passed.append(proposal)
            accepted += proposal.chunks
    return tuple(passed), tuple(refused)


def _fits(proposal: Proposal, skill: Skill) -> bool:
    present = set(skill.ids)
    return set(proposal.targets) <= present and present.isdisjoint(chunk.id for chunk in proposal.chunks)


def _canonical(proposal: Proposal) -> tuple[object, ...]:
    texts = tuple((chunk.title, chunk.body) for chunk in proposal.chunks)
    return proposal.op, proposal.targets, texts, proposal.root_cause, proposal.support, proposal.expected_effect
