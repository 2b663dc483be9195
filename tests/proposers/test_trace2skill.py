"""Trace2Skill end to end: order of the rollouts does not matter, losers stay away, leaks never reach the gate."""

import dataclasses
import random

import pytest
from method_records import result
from shop_rollouts import play

from intraskill.environments.protocol import secrets_of
from intraskill.environments.shop_evidence.reader import ShopReader
from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL, lesson_chunk, mechanism_of
from intraskill.method.gate.rules import Fate
from intraskill.method.leakage.filter import LeakFilter, Secrets
from intraskill.method.skill.edits import pool
from intraskill.method.skill.proposals import Ledger, Proposal
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.proposers.analysis_records import rollout_id
from intraskill.proposers.proposal_filter import Memory
from intraskill.proposers.reduce import Reduction
from intraskill.proposers.rules import RulesProposer
from intraskill.proposers.trace2skill import Analysis, ProposalBatch, propose_batch
from intraskill.rounds.review import analyses_line

OPEN, EMPTY = LeakFilter(Secrets()), Skill("p")
GUARDED = LeakFilter(Secrets(product_ids=("b100",), product_titles=("kestrel steel nonstick modern kettle",)))


class ProposerWhoSays:
    """Returns the given proposals whatever it reads."""

    name, reducer, prompts_hash = "says", None, ""

    def __init__(self, *proposals: Proposal) -> None:
        self.proposals = proposals

    def analyse(self, rollouts, skill):
        return Analysis(self.proposals)


def add(title, body="Do it well.", support=("r1",)):
    return Proposal("ADD", (), (Chunk(title, body),), "cause", support)


@pytest.fixture(scope="module")
def world() -> ShopWorld:
    return ShopWorld("tiny", page_size=5, language="plain")


@pytest.fixture(scope="module")
def played(world):
    """Each train task once without any rule, once with all, and once with the harmful one as well."""
    tasks = world.tasks("train")
    return [
        play(world, task.id, rules, sample=sample)
        for task in tasks
        for sample, rules in enumerate([(), USEFUL, (*USEFUL, "open_last"), USEFUL[:2]])
    ]


@pytest.mark.golden
def test_the_cold_start_finds_the_rules_that_the_shop_needs(world, played, golden) -> None:
    leak_filter = LeakFilter(secrets_of(world))
    empty = Skill("Advice for shopping.")
    batch = propose_batch(played, empty, RulesProposer(ShopReader("plain")), leak_filter, limit=16)
    skill = pool(empty, batch.edits)
    assert set(USEFUL) <= {mechanism_of(chunk) for chunk in skill.chunks}
    assert batch.refused == () and batch.counts["over_limit"] == 0
    golden("cold_start_skill.md", skill.to_markdown())


def test_the_same_rollouts_in_any_order_give_the_same_proposals(played) -> None:
    skill = Skill("p", (lesson_chunk("search_features"),))
    expected = propose_batch(
        played, skill, RulesProposer(ShopReader("plain")), OPEN, limit=6, memory=Memory(round_index=1)
    )
    assert len(expected.proposals) > 1
    for seed in range(5):
        shuffled = random.Random(seed).sample(played, len(played))
        assert (
            propose_batch(
                shuffled, skill, RulesProposer(ShopReader("plain")), OPEN, limit=6, memory=Memory(round_index=1)
            )
            == expected
        )
    assert (
        propose_batch(
            played[: len(played) // 2],
            skill,
            RulesProposer(ShopReader("plain")),
            OPEN,
            limit=6,
            memory=Memory(round_index=1),
        )
        != expected
    )


def test_prevalence_is_counted_from_the_rollouts(played) -> None:
    proposals = propose_batch(played, Skill("p"), RulesProposer(ShopReader("plain")), OPEN, limit=16).proposals
    supports = [len(p.support) for p in proposals]
    assert supports == sorted(supports, reverse=True)
    assert set(proposals[0].support) <= {rollout_id(r) for r in played}


def test_rollout_ids_differ_by_task_sample_and_context(played) -> None:
    assert len({rollout_id(r) for r in played}) == len(played)


def test_a_task_played_again_at_the_same_weights_has_another_rollout_id(played) -> None:
    again = dataclasses.replace(played[0], turns=played[0].turns[:-1])
    assert rollout_id(again) != rollout_id(played[0]) == rollout_id(dataclasses.replace(played[0]))


def test_no_more_than_the_limit_goes_to_the_gate(played) -> None:
    everything = propose_batch(played, Skill("p"), RulesProposer(ShopReader("plain")), OPEN, limit=16).proposals
    batch = propose_batch(played, Skill("p"), RulesProposer(ShopReader("plain")), OPEN, limit=2)
    assert batch.proposals == everything[:2]
    assert batch.counts["over_limit"] == len(everything) - 2 > 0
    assert propose_batch(played, Skill("p"), RulesProposer(ShopReader("plain")), OPEN, limit=0).edits == ()


def test_a_loser_stays_away_for_some_rounds_and_then_returns() -> None:
    proposal = add("Care")
    ledger = Ledger().record(3, proposal, Fate.NON_POSITIVE)
    for round_index, expected in ((4, 0), (5, 0), (6, 1)):
        memory = Memory(ledger, round_index, rounds=2)
        batch = propose_batch([], Skill("p"), ProposerWhoSays(proposal), OPEN, limit=6, memory=memory)
        assert len(batch.proposals) == expected
        assert batch.counts["blocked_by_ledger"] == len(batch.blocked) == 1 - expected


def test_what_the_ledger_keeps_away_is_told_once_with_the_whole_support_and_until_when() -> None:
    ledger = Ledger().record(3, add("Care"), Fate.NON_POSITIVE)
    proposer = ProposerWhoSays(add("Care", support=("r2",)), add("Other", "Buy late."), add("Care", support=("r3",)))
    batch = propose_batch([], Skill("p"), proposer, OPEN, limit=6, memory=Memory(ledger, 4, rounds=2))
    (blocked,) = batch.blocked
    assert blocked.proposal.support == ("r2", "r3") and [p.chunks[0].title for p in batch.proposals] == ["Other"]
    assert "in round 3 (non_positive)" in blocked.reason and blocked.reason.endswith("kept away until round 5")


def test_a_leak_is_refused_with_its_reason_and_takes_no_place() -> None:
    leak_filter = LeakFilter(Secrets(product_ids=("b100",)))
    proposer = ProposerWhoSays(add("Leak", "Open b100.", support=("r1", "r2")), add("Care"))
    batch = propose_batch([], Skill("p"), proposer, leak_filter, limit=1)
    assert [p.chunks[0].title for p in batch.proposals] == ["Care"]
    assert batch.refused[0].reason.startswith("product_id")
    assert batch.counts["rejected_by_firewall"] == 1


class ReducerWhoSees:
    """Keeps every proposal that it is shown, and answers with the given one when the screen allows it."""

    def __init__(self, answer=None):
        self.seen, self.answer, self.allowed = [], answer, None

    def reduce(self, proposals, skill, allows):
        self.seen = list(proposals)
        self.allowed = None if self.answer is None else allows(self.answer)
        return Reduction((*proposals, self.answer) if self.allowed else tuple(proposals), {}, ())


def seen_by_reduce(*proposals, leak_filter=GUARDED, answer=None, skill=EMPTY, round_index=1):
    proposer, memory = ProposerWhoSays(*proposals), Memory(round_index=round_index)
    proposer.reducer = ReducerWhoSees(answer)
    return proposer.reducer, propose_batch([], skill, proposer, leak_filter, limit=6, memory=memory)


def titles_of(proposals):
    return [chunk.title for proposal in proposals for chunk in proposal.chunks]


def test_a_leak_does_not_take_the_harmless_proposals_of_the_same_body_with_it() -> None:
    leak = [add("Open b100", support=("r1", "r2")), add("Open b100", support=("r3",))]
    reducer, batch = seen_by_reduce(*leak, add("Care", support=("r4",)), add("Caution", support=("r5",)))
    (kept,) = batch.proposals
    assert titles_of(reducer.seen) == titles_of([kept]) == ["Care"] and kept.support == ("r4", "r5")
    assert batch.counts["rejected_by_firewall"] == 2 and batch.counts["merged"] == 1
    (refused,) = batch.refused
    assert refused.proposal.support == ("r1", "r2", "r3")


def test_a_text_of_reduce_is_screened_again() -> None:
    inputs = (add("One", "Prefer steel.", ("r1", "r2")), add("Care"))
    reducer, batch = seen_by_reduce(*inputs, answer=add("Open b100"))
    assert reducer.allowed is False and sorted(titles_of(batch.proposals)) == ["Care", "One"]
    reducer, batch = seen_by_reduce(*inputs, answer=add("Units", "Convert units before comparing."))
    assert reducer.allowed is True and "Units" in titles_of(batch.proposals)


def test_a_reduce_that_ignores_the_screen_reaches_no_gate() -> None:
    class Reckless(ReducerWhoSees):
        def reduce(self, proposals, skill, allows):
            return Reduction((*proposals, add("Open b100")), {}, ())

    proposer = ProposerWhoSays(add("One", "Prefer steel.", ("r1", "r2")))
    proposer.reducer = Reckless()
    batch = propose_batch([], EMPTY, proposer, GUARDED, limit=6)
    assert titles_of(batch.proposals) == ["One"] and len(batch.refused) == 1


def test_a_disguised_copy_of_a_loser_stays_away() -> None:
    ledger = Ledger().record(3, add("Care", "Open the size chart of the page."), Fate.NON_POSITIVE)
    again = add("Care", "Op\u200ben the s\u0456ze ch\u00e1rt of the page.")
    assert again.meaning == add("Care", "OPEN the size chart of the page").meaning
    batch = propose_batch([], EMPTY, ProposerWhoSays(again), OPEN, limit=6, memory=Memory(ledger, 4, rounds=2))
    assert batch.counts["blocked_by_ledger"] == 1


def test_a_proposal_for_a_chunk_that_is_not_there_is_counted_and_dropped() -> None:
    present = Chunk("Care", "Do it well.")
    misfits = ProposerWhoSays(Proposal("DELETE", ("gone-1",), (), "cause", ("r1",)), add("Care"))
    batch = propose_batch([], Skill("p", (present,)), misfits, OPEN, limit=6, memory=Memory(round_index=1))
    assert batch.edits == () and batch.counts["misfit"] == 2


def test_only_additions_make_a_cold_start() -> None:
    old = Chunk("Old", "Old advice.")
    deletion = Proposal("DELETE", (old.id,), (), "cause", ("r1",))
    proposer = ProposerWhoSays(deletion, add("New", "Other advice entirely."))
    first = propose_batch([], Skill("p", (old,)), proposer, OPEN, limit=16)
    assert [edit.op for edit in first.edits] == ["ADD"]
    online = propose_batch([], Skill("p", (old,)), proposer, OPEN, limit=6, memory=Memory(round_index=1))
    assert sorted(edit.op for edit in online.edits) == ["ADD", "DELETE"]


def test_training_groups_that_suffer_from_a_chunk_speak_for_its_deletion() -> None:
    harmful = Chunk("Old", "Old advice.")
    groups = [
        dataclasses.replace(one, group=dataclasses.replace(one.group, kind="assisted", visible=visible))
        for visible, reward in ((frozenset({harmful.id}), 0.0), (frozenset(), 0.5))
        for one in (result(f"t{i}", [reward, reward + 0.01 * (i % 2)], i) for i in range(10))
    ]
    skill, memory = Skill("p", (harmful,)), Memory(round_index=1)
    batch = propose_batch([], skill, ProposerWhoSays(), OPEN, limit=6, memory=memory, groups=groups)
    assert [edit.op for edit in batch.edits] == ["DELETE"]
    assert propose_batch([], skill, ProposerWhoSays(), OPEN, limit=6, memory=memory, groups=groups[:10]).edits == ()


def test_whoever_watches_is_told_why_an_llm_proposed_nothing():
    counts = {"mapped": 0, "parsed": 2, "bad_answer": 22, "fix_failed": 2, "faults": 0}
    found = ProposalBatch((), (), counts, "llm:m")
    assert analyses_line(found) == "llm:m made 0 proposals; rollouts without one: 22 bad_answer, 2 fix_failed"
    assert (
        analyses_line(dataclasses.replace(found, counts={"mapped": 3, "parsed": 3, "bad_answer": 0}))
        == "llm:m made 3 proposals"
    )
