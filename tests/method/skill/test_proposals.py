"""Proposals: reduced to a few, supports united, losers kept away for a while."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from method_records import chunk, ids

from intraskill.method.errors import EditError
from intraskill.method.gate.rules import Fate
from intraskill.method.skill.edits import Op
from intraskill.method.skill.proposals import PERSON, Ledger, LedgerEntry, Proposal, merge_proposals
from intraskill.method.skill.skill import Chunk


def add(name: str, *support: str, cause: str = "cause") -> Proposal:
    return Proposal("ADD", (), (chunk(name),), cause, support)


def rewrite(old: str, new: str, *support: str) -> Proposal:
    return Proposal("REWRITE", ids(old), (chunk(new),), "cause", support)


PROPOSALS = st.lists(
    st.builds(
        lambda old, new, support: rewrite(old, new, *support) if old else add(new, *support),
        st.sampled_from(["", "a", "b"]),
        st.sampled_from("XYZ"),
        st.lists(st.sampled_from(["r1", "r2", "r3"]), max_size=3),
    ),
    max_size=8,
)


def test_a_proposal_becomes_the_edit_that_the_gate_tests() -> None:
    made = rewrite("a", "X", "r1").to_edit()
    assert (made.removes, made.adds, made.reason, made.support) == (ids("a"), (chunk("X"),), "cause", ("r1",))


def test_a_proposal_whose_shape_contradicts_its_operation_is_refused() -> None:
    with pytest.raises(EditError, match="says MERGE but has the shape of REWRITE: 1 targets, 1 chunks"):
        Proposal("MERGE", ids("a"), (chunk("X"),), "cause")


def test_equal_meanings_become_one_with_the_union_of_their_supports() -> None:
    shouted = Proposal("ADD", (), (Chunk("Other title", "DO  x!"),), "cause", ("r3",))
    merged = merge_proposals([add("x", "r1", "r2"), add("x", "r2"), shouted], limit=6)
    assert [p.support for p in merged] == [("r1", "r2", "r3")]
    assert merged[0].chunks == (chunk("x"),)
    assert len(merge_proposals([add("x"), add("y")], limit=6)) == 2


def test_the_better_supported_proposal_keeps_its_target() -> None:
    merged = merge_proposals([rewrite("a", "X", "r1"), rewrite("a", "Y", "r1", "r2"), rewrite("b", "Z")], limit=6)
    assert [p.chunks[0] for p in merged] == [chunk("Y"), chunk("Z")]


def test_the_cap_keeps_the_best_supported() -> None:
    merged = merge_proposals([add("x", "r1"), add("y", "r1", "r2"), add("z")], limit=2)
    assert [p.chunks[0] for p in merged] == [chunk("y"), chunk("x")]
    assert merge_proposals([add("x")], limit=0) == ()


@given(PROPOSALS, st.randoms(use_true_random=False))
def test_reduction_ignores_order_and_never_touches_a_chunk_twice(proposals: list[Proposal], random: object) -> None:
    merged = merge_proposals(proposals, limit=6)
    mixed = list(proposals)
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert merge_proposals(mixed, limit=6) == merged
    touched = [t for p in merged for t in (*p.targets, *(c.id for c in p.chunks))]
    assert len(touched) == len(set(touched))


def test_an_equal_loser_stays_away_for_the_stated_rounds() -> None:
    ledger = Ledger().record(2, add("x", "r1"), Fate.NON_POSITIVE, "too weak")
    assert ledger.blocked_by(add("x", "r9"), 4, rounds=2)
    assert not ledger.blocked_by(add("x", "r9"), 5, rounds=2)
    assert not ledger.blocked_by(add("y"), 3, rounds=2)
    assert [p for p in (add("x"), add("y")) if not ledger.blocked_by(p, 3, rounds=2)] == [add("y")]


def test_a_winner_and_an_empty_answer_block_nothing() -> None:
    ledger = Ledger().record(2, add("x"), Fate.SELECTED).record(2, None, Fate.NO_PROPOSAL, "nothing new")
    assert not ledger.blocked_by(add("x"), 3, rounds=9)
    assert [entry.fate for entry in ledger.entries] == [Fate.SELECTED, Fate.NO_PROPOSAL]
    assert ledger.entries[0].edit_id == add("x").to_edit().id


def test_a_waiting_proposal_has_not_lost_and_may_come_back_at_once() -> None:
    assert not Ledger().record(2, add("x"), Fate.WAITING).blocked_by(add("x"), 3, rounds=9)
    assert Ledger().record(2, add("x"), Fate.UNLIKELY).blocked_by(add("x"), 3, rounds=9)
    assert Ledger().record(2, add("x"), Fate.REFUSED_BY_PERSON).blocked_by(add("x"), 3, rounds=9)


def reworded(op: Op, targets: tuple[str, ...], body: str) -> Proposal:
    return Proposal(op, targets, (Chunk("Any title", body),), "cause")


BODY = "Open the product page, press the size of the request, then buy."


def test_a_loser_that_comes_back_in_other_words_stays_away_too() -> None:
    ledger = Ledger().record(2, reworded("ADD", (), BODY), Fate.NON_POSITIVE)
    again = reworded("ADD", (), "Please press the request's size: open its product page, press the size, then buy.")
    assert not ledger.blocked_by(again, 3, rounds=2), "another sentence"
    closer = reworded("ADD", (), "First, press the sizes of the request; open the product page. Then buy it.")
    assert not ledger.blocked_by(closer, 3, rounds=2), "an order of the steps is said"
    same = reworded("ADD", (), "Press the sizes of the request; open the product page. Then please buy it.")
    assert ledger.blocked_by(same, 3, rounds=2) and same.meaning != reworded("ADD", (), BODY).meaning
    assert not ledger.blocked_by(reworded("REWRITE", ids("a"), same.chunks[0].body), 3, rounds=2), "another experiment"
    assert not ledger.blocked_by(reworded("ADD", (), BODY.replace("then buy", "never buy")), 3, rounds=2)


def test_the_text_that_a_winner_replaced_stays_away_for_a_while() -> None:
    there = rewrite("a", "b")
    ledger = Ledger().record(2, there, Fate.SELECTED, "better", replaced=[chunk("a")])
    back = rewrite("b", "a")
    assert ledger.blocked_by(back, 3, rounds=2) and ledger.blocked_by(add("a"), 3, rounds=2)
    assert not ledger.blocked_by(back, 5, rounds=2)
    assert not ledger.blocked_by(rewrite("b", "c"), 3, rounds=2)
    assert not Ledger().record(2, there, Fate.SLOT_LOSER).blocked_by(back, 3, rounds=2)


def test_a_refused_deletion_of_one_chunk_keeps_only_that_deletion_away() -> None:
    delete = Proposal("DELETE", ids("a"), (), "harm")
    ledger = Ledger().record(2, delete, Fate.SLOT_LOSER)
    assert ledger.blocked_by(delete, 3, rounds=2)
    assert not ledger.blocked_by(Proposal("DELETE", ids("b"), (), "harm"), 3, rounds=2)


def test_an_entry_says_whose_proposal_it_was() -> None:
    ledger = Ledger().record(1, add("x", "r1"), Fate.SELECTED).record(1, add("y", PERSON), Fate.SELECTED)
    assert [entry.origin for entry in ledger.entries] == ["analyst", "person"]


def test_an_entry_of_an_older_file_still_keeps_its_exact_equal_away() -> None:
    entry = LedgerEntry(2, "add-1", "ADD", add("x").meaning, Fate.NON_POSITIVE)
    assert Ledger((entry,)).blocked_by(add("x"), 3, rounds=2)
    assert not Ledger((entry,)).blocked_by(add("y"), 3, rounds=2)
