"""Laws 8 and 9: the published rule, slot by slot, then positive, then top K; and the two careful rules."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import contributions, edit, ids, skill, skills_with_edits

from intraskill.method.errors import ConfigError, EditError
from intraskill.method.gate.decision import Decision, decide
from intraskill.method.gate.rules import DecisionRule, Fate, FdrRule, GateRule, KeepRule, ProbabilityRule
from intraskill.method.gate.shrinkage import Evidence
from intraskill.method.skill.edits import Edit, pool, slots
from intraskill.method.skill.skill import Skill

BETAS = st.sampled_from([-0.2, -0.1, 0.0, 0.05, 0.1, 0.1, 0.2])


def refused_chunks(got: Decision, edits: Sequence[Edit]) -> tuple[str, ...]:
    """Candidate chunks that did not enter, those that wait for more evidence included."""
    stays = (Fate.SELECTED, Fate.HELD_AT_FLOOR)
    return tuple(c for change in edits for c in change.added_ids if got.fates[c] not in stays)


def decided(names: str, edits: list[Edit], beta: dict[str, float], top_k: int = 10) -> Decision:
    by_id = {ids(name)[0]: value for name, value in beta.items()}
    return decide(skill(names), edits, contributions(by_id), GateRule(top_k))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Skill, tuple[Edit, ...], dict[str, float], int]:
    current, edits = draw(skills_with_edits())
    beta = {chunk_id: draw(BETAS) for chunk_id in pool(current, edits).ids}
    return current, edits, beta, draw(st.integers(0, 6))


def judged(names: str, edits: list[Edit], beta: dict[str, float], rule: DecisionRule, se: float = 0.05) -> Decision:
    by_id = {ids(name)[0]: value for name, value in beta.items()}
    found = contributions(by_id)
    covariance_JJ = se**2 * np.eye(len(beta))
    return decide(skill(names), edits, replace(found, se_J=np.full(len(beta), se), covariance_JJ=covariance_JJ), rule)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from([0.01, 0.1]), st.sampled_from([GateRule, ProbabilityRule, FdrRule, KeepRule]))
def test_under_every_rule_each_chunk_has_one_fate_and_no_slot_shows_two_sides(
    case: tuple[Skill, tuple[Edit, ...], dict[str, float], int], se: float, kind: type[DecisionRule]
) -> None:
    current, edits, beta, top_k = case
    found = replace(contributions(beta), se_J=np.full(len(beta), se))
    got = decide(current, edits, found, kind(top_k))
    everything = pool(current, edits).ids
    assert len(got.kept) <= top_k
    assert sorted(got.kept + got.retired + refused_chunks(got, edits)) == sorted(everything)
    assert set(got.held) <= set(got.kept) & set(current.ids)
    assert {change.id for change in got.taken + got.refused} == {change.id for change in edits}
    assert set(got.reasons) == set(got.fates) == set(everything) | {change.id for change in edits}
    for slot in slots(current, edits):
        assert slot.allows(frozenset(got.kept))


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
    assert sorted(got.kept + got.retired + refused_chunks(got, edits)) == sorted(everything)
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


SUM = 0.1 + 0.2
"""0.30000000000000004: as much as 0.3, had it not been rounded."""


def test_sides_that_differ_by_rounding_are_tied_and_the_old_text_stays() -> None:
    assert SUM > 0.3
    assert decided("a", [edit("a", "X")], {"a": 0.3, "X": SUM}).kept == ids("a")
    assert decided("a", [edit("a", "X")], {"a": 0.3, "X": 0.3001}).kept == ids("X")
    rivals = [edit("a", "X"), edit("a", "Y")]
    everything = {ids(name)[0]: value for name, value in {"a": 0.1, "X": 0.3, "Y": SUM}.items()}
    assert decide(skill("a"), rivals, contributions(everything), GateRule(10)).kept == ids("X")
    better = everything | {ids("Y")[0]: 0.3001}
    assert decide(skill("a"), rivals, contributions(better), GateRule(10)).kept == ids("Y")


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
    for rule in (GateRule(10), ProbabilityRule(10), FdrRule(10)):
        got = decide(skill(""), [], contributions({}), rule)
        assert (got.skill, got.retired, got.refused) == (skill(""), (), ())


def test_contributions_of_another_pool_are_refused() -> None:
    with pytest.raises(EditError, match="contributions and pool differ in chunks, 1: chunk-b"):
        decided("ab", [], {"a": 0.1})


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ConfigError, match="top_k must be 0 or more, got -1"):
        GateRule(-1)


@pytest.mark.parametrize(
    ("beta", "kept", "taken"),
    [
        ({"a": 0.1, "X": 0.2, "Y": 0.3}, "Y", 1),
        ({"a": 0.1, "X": 0.3, "Y": 0.2}, "X", 0),
        ({"a": 0.3, "X": 0.3, "Y": 0.2}, "a", None),
        ({"a": -0.1, "X": -0.2, "Y": -0.3}, "", None),
    ],
)
def test_among_rival_versions_of_one_slot_the_best_wins(beta: dict[str, float], kept: str, taken: int | None) -> None:
    rivals = [edit("a", "X"), edit("a", "Y")]
    got = decided("a", rivals, beta)
    assert got.kept == ids(kept)
    assert got.taken == (() if taken is None else (rivals[taken],))
    sure = judged("a", rivals, beta, FdrRule(9), se=0.01)
    assert sure.kept == ids(kept)
    assert judged("a", rivals, beta, ProbabilityRule(9), se=0.001).kept == ids(kept)


def test_a_deletion_beside_a_rewrite_that_wins_is_not_what_happened() -> None:
    delete, rewrite = edit("a", ""), edit("a", "X")
    got = decided("a", [delete, rewrite], {"a": -0.1, "X": 0.2})
    assert got.taken == (rewrite,) and got.kept == ids("X")
    assert decided("a", [delete, rewrite], {"a": -0.1, "X": -0.2}).taken == (delete,)


CLEAR = {"a": 0.3, "b": 0.02, "c": -0.3, "X": 0.3, "Y": 0.02, "Z": -0.3}


def test_a_probability_gate_holds_unclear_incumbents_and_lets_unclear_candidates_wait() -> None:
    edits = [edit("", name) for name in "XYZ"]
    got = judged("abc", edits, CLEAR, ProbabilityRule(9))
    fates = {name: got.fates[ids(name)[0]] for name in CLEAR}
    assert fates == {
        "a": Fate.SELECTED,
        "b": Fate.HELD_AT_FLOOR,
        "c": Fate.UNLIKELY,
        "X": Fate.SELECTED,
        "Y": Fate.WAITING,
        "Z": Fate.UNLIKELY,
    }
    assert got.kept == ids("abX") and got.held == ids("b")
    assert got.retired == ids("c") and refused_chunks(got, edits) == ids("YZ")
    reason = got.reasons[ids("Y")[0]]
    assert reason.startswith("+0.0200 ± 0.0500, shrunk +0.0") and "P(> 0) = 0.6" in reason
    assert reason.endswith("so it waits for more evidence")
    published = decided("abc", [edit("", "X"), edit("", "Y"), edit("", "Z")], CLEAR)
    assert published.kept == ids("abXY")


def test_a_held_chunk_never_displaces_an_admitted_one() -> None:
    got = judged("ab", [edit("", "X")], {"a": 0.3, "b": 0.04, "X": 0.3}, ProbabilityRule(2))
    assert got.kept == ids("aX")
    assert got.fates[ids("b")[0]] is Fate.BUDGET_EXCLUDED


@pytest.mark.parametrize(
    ("beta", "kept", "fate"),
    [
        ({"a": 0.05, "X": 0.4}, "X", Fate.SELECTED),
        ({"a": 0.30, "X": 0.32}, "a", Fate.WAITING),
        ({"a": 0.30, "X": 0.05}, "a", Fate.SLOT_LOSER),
        ({"a": -0.30, "X": 0.01}, "", Fate.WAITING),
    ],
)
def test_a_probability_gate_compares_the_sides_of_a_slot_by_their_difference(
    beta: dict[str, float], kept: str, fate: Fate
) -> None:
    change = edit("a", "X")
    got = judged("a", [change], beta, ProbabilityRule(9))
    assert got.kept == ids(kept)
    assert got.fates[ids("X")[0]] is fate
    assert "P(new > old) = " in got.reasons[change.id]
    assert "taken as independent" not in got.reasons[change.id]


def test_a_rule_without_the_covariance_says_that_it_took_the_coefficients_as_independent() -> None:
    change = edit("a", "X")
    found = contributions({ids("a")[0]: 0.1, ids("X")[0]: 0.2})
    assert found.covariance_JJ is None
    got = decide(skill("a"), [change], found, ProbabilityRule(9))
    assert "coefficients taken as independent" in got.reasons[change.id]


def test_evidence_of_earlier_rounds_can_decide_what_this_gate_cannot() -> None:
    found = replace(contributions({ids("a")[0]: 0.04}), se_J=np.array([0.05]))
    rule = ProbabilityRule(9)
    assert decide(skill("a"), [], found, rule).held == ids("a")
    told = {ids("a")[0]: Evidence(0.12, 0.04)}
    assert decide(skill("a"), [], found, rule, told).held == ()
    against = {ids("a")[0]: Evidence(-0.2, 0.04)}
    assert decide(skill("a"), [], found, rule, against).retired == ids("a")
    assert decide(skill("a"), [], found, GateRule(9), against).kept == ids("a")


def test_a_discovery_gate_keeps_what_survives_benjamini_and_hochberg() -> None:
    beta = {"a": 0.2, "b": 0.1, "c": 0.06, "d": -0.2}
    got = judged("abcd", [], beta, FdrRule(9, rate=0.1))
    assert got.kept == ids("ab")
    assert got.fates[ids("c")[0]] is Fate.NOT_DISCOVERED
    assert got.reasons[ids("c")[0]].endswith("p = 0.1154: no discovery at rate 0.1")
    assert judged("abcd", [], beta, FdrRule(9, rate=0.2)).kept == ids("abc")
    assert judged("abcd", [], beta, FdrRule(1, rate=0.2)).fates[ids("b")[0]] is Fate.BUDGET_EXCLUDED


@pytest.mark.parametrize(("beta", "kept"), [({"a": 0.2, "X": 0.24}, "a"), ({"a": 0.2, "X": 0.5}, "X")])
def test_a_discovery_gate_replaces_text_only_by_text_that_is_better_beyond_chance(
    beta: dict[str, float], kept: str
) -> None:
    change = edit("a", "X")
    got = judged("a", [change], beta, FdrRule(9))
    assert got.kept == ids(kept)
    assert ", p = 0." in got.reasons[change.id]
    assert decided("a", [change], beta).kept == ids("X")


DELETES_A = edit("a", "")


def test_a_deletion_is_taken_when_a_careful_rule_finds_harm() -> None:
    for rule in (ProbabilityRule(9), FdrRule(9)):
        assert judged("a", [DELETES_A], {"a": -0.3}, rule).taken
        refuted = judged("a", [DELETES_A], {"a": 0.3}, rule)
        assert not refuted.taken and refuted.kept == ids("a")
        assert refuted.fates[DELETES_A.id] is Fate.SLOT_LOSER


@pytest.mark.parametrize(
    ("beta", "kept", "fate"),
    [
        (-0.090, "", Fate.SELECTED),
        (-0.030, "a", Fate.WAITING),
        (0.090, "a", Fate.SLOT_LOSER),
    ],
)
def test_under_probability_a_deletion_asks_for_harm_as_clear_as_the_help_that_admits(
    beta: float, kept: str, fate: Fate
) -> None:
    """P(α > 0) is about 0.12, 0.35 and 0.88; a rule that retires at 0.05 would hold all three."""
    rule = ProbabilityRule(9, admit=0.8, retire=0.05)
    got = judged("a", [DELETES_A], {"a": beta}, rule)
    assert (got.kept, got.fates[DELETES_A.id]) == (ids(kept), fate)
    assert judged("a", [], {"a": beta}, rule).kept == ids("a"), "without the DELETE the chunk would have stayed"
    if not kept:
        assert got.reasons[ids("a")[0]].endswith("at most 0.2, and a DELETE names it")


def test_under_fdr_a_deletion_is_a_hypothesis_of_its_own_and_harm_must_be_a_discovery() -> None:
    rule = FdrRule(9, rate=0.1)
    clear, unclear = (judged("a", [DELETES_A], {"a": beta}, rule) for beta in (-0.12, -0.04))
    assert clear.fates[DELETES_A.id] is Fate.SELECTED and clear.kept == ()
    assert unclear.fates[DELETES_A.id] is Fate.NOT_DISCOVERED and unclear.kept == ()
    assert ", p = 0.0" in clear.reasons[DELETES_A.id] and ", p = 0.2" in unclear.reasons[DELETES_A.id]
    accused = {"a": 0.1, "b": 0.2}
    assert judged("ab", [], accused, rule).kept == judged("ab", [DELETES_A], accused, rule).kept == ids("ab")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ProbabilityRule(-1), "top_k must be 0 or more"),
        (lambda: ProbabilityRule(1, admit=0.4), "0 < retire < 0.5 < admit < 1, got retire 0.2, admit 0.4"),
        (lambda: ProbabilityRule(1, retire=0.0), "retire 0.0"),
        (lambda: ProbabilityRule(1, discount=1.0), r"must lie in \[0, 1\), got 1.0"),
        (lambda: FdrRule(1, rate=1.0), "strictly between 0 and 1, got 1.0"),
    ],
)
def test_impossible_rules_are_refused(make: Callable[[], DecisionRule], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_the_control_that_keeps_everything_takes_every_edit_whatever_was_measured() -> None:
    edits = [edit("a", "A"), edit("b", ""), edit("", "N")]
    got = judged("abc", edits, {"a": 0.2, "A": -0.2, "b": 0.2, "c": -0.1, "N": -0.3}, KeepRule(10))
    assert sorted(got.kept) == sorted(ids("AcN"))
    assert got.taken == tuple(edits) and not got.refused
    assert "-0.2000 ± 0.0500, not used: everything is kept" in got.reasons.values()


def test_the_control_that_keeps_everything_keeps_the_first_k_in_document_order() -> None:
    got = judged("abc", [], {"a": -0.1, "b": 0.0, "c": 0.3}, KeepRule(2))
    assert got.kept == ids("ab") and got.retired == ids("c")
    assert got.fates[ids("c")[0]] is Fate.BUDGET_EXCLUDED
