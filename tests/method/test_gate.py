"""Laws 8 and 9: the published rule, slot by slot, then positive, then top K."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import contributions, edit, ids, skill, skills_with_edits

from intraskill.method.edits import Edit, pool, slots
from intraskill.method.errors import ConfigError, EditError
from intraskill.method.gate import Decision, Fate, GateRule, decide
from intraskill.method.skill import Skill

BETAS = st.sampled_from([-0.2, -0.1, 0.0, 0.05, 0.1, 0.1, 0.2])


def decided(names: str, edits: list[Edit], beta: dict[str, float], top_k: int = 10) -> Decision:
    by_id = {ids(name)[0]: value for name, value in beta.items()}
    return decide(skill(names), edits, contributions(by_id), GateRule(top_k))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Skill, tuple[Edit, ...], dict[str, float], int]:
    current, edits = draw(skills_with_edits())
    beta = {chunk_id: draw(BETAS) for chunk_id in pool(current, edits).ids}
    return current, edits, beta, draw(st.integers(0, 6))


@settings(max_examples=200, deadline=None)
@given(cases())
def test_the_gate_keeps_at_most_k_positive_chunks_and_never_both_sides(
    case: tuple[Skill, tuple[Edit, ...], dict[str, float], int],
) -> None:
    current, edits, beta, top_k = case
    got = decide(current, edits, contributions(beta), GateRule(top_k))
    assert len(got.kept) <= top_k
    assert all(beta[chunk_id] > 0 for chunk_id in got.kept)
    for slot in slots(current, edits):
        assert slot.allows(frozenset(got.kept))
    everything = pool(current, edits).ids
    assert got.kept == tuple(chunk_id for chunk_id in everything if chunk_id in got.kept)
    assert sorted(got.kept + got.retired + got.refused_chunks) == sorted(everything)
    assert set(got.retired) <= set(current.ids)
    assert {change.id for change in got.taken + got.refused} == {change.id for change in edits}
    assert set(got.reasons) == set(got.fates) == set(everything) | {change.id for change in edits}


@settings(max_examples=200, deadline=None)
@given(cases(), st.data())
def test_the_gate_is_monotone_in_beta(
    case: tuple[Skill, tuple[Edit, ...], dict[str, float], int], data: st.DataObject
) -> None:
    current, edits, beta, top_k = case
    kept = decide(current, edits, contributions(beta), GateRule(top_k)).kept
    if kept:
        lucky = data.draw(st.sampled_from(kept))
        raised = beta | {lucky: beta[lucky] + data.draw(st.floats(0.0, 0.5))}
        assert lucky in decide(current, edits, contributions(raised), GateRule(top_k)).kept


@pytest.mark.parametrize(
    ("removes", "adds", "beta", "kept"),
    [
        ("a", "X", {"a": 0.1, "X": 0.2}, "X"),
        ("a", "X", {"a": 0.2, "X": 0.1}, "a"),
        ("a", "X", {"a": 0.1, "X": 0.1}, "a"),
        ("ab", "X", {"a": 0.1, "b": 0.1, "X": 0.3}, "X"),
        ("ab", "X", {"a": 0.1, "b": 0.25, "X": 0.3}, "ab"),
        ("a", "XY", {"a": 0.15, "X": 0.2, "Y": 0.1}, "XY"),
        ("a", "XY", {"a": 0.15, "X": 0.2, "Y": -0.04}, "X"),
        ("a", "XY", {"a": 0.15, "X": 0.2, "Y": -0.06}, "a"),
        ("", "X", {"X": 0.1}, "X"),
        ("", "X", {"X": 0.0}, ""),
        ("a", "", {"a": -0.1}, ""),
        ("a", "", {"a": 0.1}, "a"),
    ],
)
def test_one_inequality_decides_all_five_shapes(removes: str, adds: str, beta: dict[str, float], kept: str) -> None:
    change = edit(removes, adds)
    got = decided(removes, [change], beta)
    assert got.kept == ids(kept)
    assert (got.taken == (change,)) == (kept != removes)


def test_a_deletion_is_taken_exactly_when_its_chunk_contributes_negatively() -> None:
    assert decided("a", [edit("a", "")], {"a": -0.1}).taken
    assert not decided("a", [edit("a", "")], {"a": 0.1}).taken
    unjudged = decided("a", [], {"a": -0.1})
    assert unjudged.retired == ids("a")
    assert unjudged.fates[ids("a")[0]] is Fate.NON_POSITIVE


def test_the_top_k_are_chosen_by_signed_beta_without_padding() -> None:
    beta = {"a": 0.1, "b": 0.3, "c": -0.5, "d": 0.2}
    assert decided("abcd", [], beta, top_k=2).kept == ids("bd")
    assert decided("abcd", [], beta, top_k=4).kept == ids("abd")
    assert decided("abcd", [], beta, top_k=0).kept == ()


def test_equal_contributions_are_ranked_in_document_order() -> None:
    assert decided("ab", [edit("", "X")], {"a": 0.1, "b": 0.1, "X": 0.1}, top_k=2).kept == ids("ab")


def test_each_fate_says_why_in_words_with_its_standard_error() -> None:
    changes = [edit("a", "X"), edit("", "Y"), edit("", "Z")]
    got = decided("ab", changes, {"a": 0.3, "X": 0.2, "b": 0.1, "Y": 0.05, "Z": -0.1}, top_k=2)
    by_name = {name: got.fates[ids(name)[0]] for name in "abXYZ"}
    assert by_name == {
        "a": Fate.SELECTED,
        "b": Fate.SELECTED,
        "X": Fate.SLOT_LOSER,
        "Y": Fate.BUDGET_EXCLUDED,
        "Z": Fate.NON_POSITIVE,
    }
    assert [got.fates[change.id] for change in changes] == [by_name["X"], by_name["Y"], by_name["Z"]]
    assert got.reasons[ids("Z")[0]] == "-0.1000 ± 0.0100: its contribution is not positive"
    assert got.reasons[changes[0].id] == "old +0.3000, new +0.2000: refused, slot_loser"


def test_an_empty_pool_is_legal() -> None:
    got = decided("", [], {})
    assert (got.skill, got.retired, got.refused_chunks) == (skill(""), (), ())


def test_contributions_of_another_pool_are_refused() -> None:
    with pytest.raises(EditError, match="contributions and pool differ in chunks, 1: chunk-b"):
        decided("ab", [], {"a": 0.1})


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="top_k must be 0 or more, got -1"):
        GateRule(-1)
