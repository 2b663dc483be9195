"""Edits of all five shapes, and the pool that they make."""

import pytest
from hypothesis import given
from method_records import chunk, edit, ids, skill, skills_with_edits

from intraskill.method.errors import EditError
from intraskill.method.skill.edits import Edit, check_edits, pool, slots
from intraskill.method.skill.skill import Skill


@pytest.mark.parametrize(
    ("removes", "adds", "op"),
    [("", "X", "ADD"), ("a", "X", "REWRITE"), ("a", "", "DELETE"), ("ab", "X", "MERGE"), ("a", "XY", "SPLIT")],
)
def test_the_operation_is_read_off_the_shape(removes: str, adds: str, op: str) -> None:
    assert edit(removes, adds).op == op
    assert edit(removes, adds).id.startswith(op.lower())


@pytest.mark.parametrize(("removes", "adds"), [("", ""), ("", "XY"), ("ab", ""), ("ab", "XY")])
def test_other_shapes_are_refused(removes: str, adds: str) -> None:
    with pytest.raises(EditError, match=rf"got \({len(removes)},{len(adds)}\)"):
        edit(removes, adds)


def test_an_edit_id_is_a_hash_of_both_sides_only() -> None:
    assert edit("ab", "X").id == edit("ba", "X").id
    assert Edit(ids("a"), (chunk("X"),), "why", ("r1",)).id == edit("a", "X").id
    assert edit("a", "X").id != edit("a", "Y").id
    assert edit("a", "X").id != edit("b", "X").id


def test_new_text_stands_right_after_what_it_replaces_and_an_addition_at_the_end() -> None:
    edits = [edit("", "Z"), edit("b", "Y"), edit("ac", "X")]
    assert pool(skill("abcd"), edits).ids == ids("abYcXdZ")


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([edit("z", "X")], "remove chunks that the skill does not have, 1: chunk-z"),
        ([edit("a", "b")], "add chunks that the skill already has, 1: chunk-b"),
        ([edit("a", "X"), edit("ab", "Y")], "removed by several edits, 1: chunk-a"),
        ([edit("a", "X"), edit("", "X")], "added by several edits, 1: chunk-x"),
    ],
)
def test_contradictory_edits_are_refused_by_name(edits: list[Edit], message: str) -> None:
    with pytest.raises(EditError, match=message):
        check_edits(skill("ab"), edits)


def test_an_edit_that_names_a_chunk_twice_is_refused() -> None:
    with pytest.raises(EditError, match="names chunks twice, 1: chunk-a"):
        edit("aa", "X")


@given(skills_with_edits())
def test_slots_partition_the_pool(case: tuple[Skill, tuple[Edit, ...]]) -> None:
    current, edits = case
    everything = pool(current, edits)
    members = [chunk_id for slot in slots(current, edits) for chunk_id in slot.ids]
    assert sorted(members) == sorted(everything.ids)
    assert set(slots(everything, edits)) == set(slots(current, edits))


@given(skills_with_edits())
def test_the_pool_keeps_the_old_document_order(case: tuple[Skill, tuple[Edit, ...]]) -> None:
    current, edits = case
    old = [chunk_id for chunk_id in pool(current, edits).ids if chunk_id in current.ids]
    assert tuple(old) == current.ids
