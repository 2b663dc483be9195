"""Suspicion of harm: a fair comparison of randomised contexts, by groups."""

from dataclasses import replace

from method_records import chunk, ids, result, skill

from intraskill.method.curriculum.frontier import MIN_GROUPS_PER_SIDE, suspect_harm
from intraskill.method.rollouts import ContextKind, GroupResult
from intraskill.method.skill.skill import BARE, Visible


def groups(reward: float, count: int, visible: Visible, kind: ContextKind = "assisted") -> list[GroupResult]:
    found = [result(f"t{i}", [reward + 0.01 * (i % 3)] * 8, i) for i in range(count)]
    return [replace(one, group=replace(one.group, visible=visible, kind=kind)) for one in found]


def test_a_chunk_whose_groups_earn_less_is_suspected() -> None:
    shown, hidden = groups(0.1, 10, frozenset(ids("a"))), groups(0.3, 12, BARE, "assisted_empty")
    (proposal,) = suspect_harm([*shown, *hidden], skill("ab"))
    assert (proposal.op, proposal.targets, len(proposal.support)) == ("DELETE", (chunk("a").id,), 10)
    assert suspect_harm([*groups(0.3, 10, frozenset(ids("a"))), *groups(0.1, 12, BARE)], skill("ab")) == ()


def test_too_few_groups_are_no_suspicion() -> None:
    few = groups(0.1, MIN_GROUPS_PER_SIDE - 1, frozenset(ids("a")))
    assert suspect_harm([*few, *groups(0.3, 20, BARE)], skill("ab")) == ()


def test_skill_free_groups_do_not_stand_for_hidden_ones() -> None:
    shown, free = groups(0.1, 10, frozenset(ids("a"))), groups(0.3, 12, BARE, "skill_free")
    assert suspect_harm([*shown, *free], skill("ab")) == ()


def test_a_difference_within_two_standard_errors_is_no_suspicion() -> None:
    shown, hidden = groups(0.299, 10, frozenset(ids("a"))), groups(0.3, 12, BARE)
    assert suspect_harm([*shown, *hidden], skill("ab")) == ()
