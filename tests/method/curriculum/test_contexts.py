"""Laws 3, 5, 11 and 12: contexts are functions of their address, and plans are prefix-stable."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import tasks

from intraskill.method.curriculum.contexts import (
    Curriculum,
    bare_probability,
    draw_context,
    plan_groups,
    visible_probability,
)
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.rollouts import Group
from intraskill.method.skill.skill import BARE

DRAWS = 4000
FOUR_SIGMA = 4.0 * 0.5 / math.sqrt(DRAWS)
CURRICULUM = Curriculum(0.2, {"a": 0.9, "b": 0.3})


def plan(number: int, steps: int, per_step: int, *, seed: int = 1, reverse: bool = False) -> tuple[Group, ...]:
    train = tasks(number, "train")
    return plan_groups(
        train[::-1] if reverse else train, CURRICULUM, seed=seed, round_index=2, steps=steps, groups_per_step=per_step
    )


@pytest.mark.parametrize("q", [0.0, 1.0, -0.1, math.nan])
def test_a_skill_free_probability_outside_the_open_interval_is_refused(q: float) -> None:
    with pytest.raises(ConfigError, match="skill_free_prob must lie strictly between 0 and 1"):
        Curriculum(q, {})


@pytest.mark.parametrize("rho", [0.0, 1.0, 1.2])
def test_an_exposure_outside_the_open_interval_is_refused(rho: float) -> None:
    with pytest.raises(ConfigError, match=r"1: c=" + str(rho)):
        Curriculum(0.2, {"b": 0.5, "c": rho})


def test_empirical_inclusion_meets_its_probability() -> None:
    drawn = [draw_context(CURRICULUM, f"g{i}", seed=3) for i in range(DRAWS)]
    for chunk_id in ("a", "b"):
        share = sum(chunk_id in visible for _, visible in drawn) / DRAWS
        assert abs(share - visible_probability(CURRICULUM, chunk_id)) < FOUR_SIGMA
        assert abs(share - CURRICULUM.exposure[chunk_id]) > FOUR_SIGMA
    bare = sum(not visible for _, visible in drawn) / DRAWS
    assert abs(bare - bare_probability(CURRICULUM)) < FOUR_SIGMA
    assert abs(bare - CURRICULUM.skill_free_prob) > FOUR_SIGMA


def test_probabilities_are_those_of_the_method() -> None:
    assert visible_probability(CURRICULUM, "a") == pytest.approx(0.8 * 0.9)
    assert bare_probability(CURRICULUM) == pytest.approx(0.2 + 0.8 * 0.1 * 0.7)
    assert bare_probability(Curriculum(0.2, {})) == pytest.approx(1.0)
    assert bare_probability(CURRICULUM) != pytest.approx(0.2)


def test_an_assisted_group_without_a_chunk_is_not_a_skill_free_group() -> None:
    kinds = Counter(draw_context(Curriculum(0.2, {"a": 0.1}), f"g{i}", seed=0) for i in range(500))
    assert {kind for kind, visible in kinds if not visible} == {"skill_free", "assisted_empty"}
    assert all(visible for kind, visible in kinds if kind == "assisted")


def test_adding_a_chunk_changes_no_draw_of_another() -> None:
    wider = Curriculum(0.2, {**CURRICULUM.exposure, "new": 0.5})
    for i in range(200):
        assert draw_context(wider, f"g{i}", seed=0)[1] - {"new"} == draw_context(CURRICULUM, f"g{i}", seed=0)[1]
    assert any(
        draw_context(wider, f"g{i}", seed=0)[1] != draw_context(CURRICULUM, f"g{i}", seed=0)[1] for i in range(99)
    )


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(0, 6), st.integers(0, 6), st.data())
def test_a_plan_is_prefix_stable_and_ignores_task_order(
    number: int, steps: int, more: int, data: st.DataObject
) -> None:
    per_step = data.draw(st.integers(1, number))
    short = plan(number, steps, per_step)
    assert plan(number, steps + more, per_step, reverse=True)[: len(short)] == short
    assert len(short) == steps * per_step


@settings(max_examples=40)
@given(st.integers(1, 12), st.integers(1, 8), st.data())
def test_tasks_cycle_epoch_by_epoch_and_never_twice_in_a_step(number: int, steps: int, data: st.DataObject) -> None:
    per_step = data.draw(st.integers(1, number))
    groups = plan(number, steps, per_step)
    for step in range(steps):
        used = [group.task.id for group in groups if group.step == step]
        assert len(set(used)) == per_step
    uses = Counter(group.task.id for group in groups)
    assert max(uses.values()) - min(uses.get(task.id, 0) for task in tasks(number, "train")) <= 1


def test_another_seed_gives_another_plan() -> None:
    assert plan(12, 3, 4) == plan(12, 3, 4)
    assert plan(12, 3, 4) != plan(12, 3, 4, seed=2)


def test_a_plan_refuses_tasks_of_another_split() -> None:
    with pytest.raises(SplitError, match=r"training reads only train tasks, but got 2: task-0000 \(test\)"):
        plan_groups(tasks(2, "test"), CURRICULUM, seed=0, round_index=0, steps=1, groups_per_step=1)


def test_a_step_larger_than_the_task_set_is_refused() -> None:
    with pytest.raises(ConfigError, match="a step of 5 groups needs as many different train tasks, but there are 4"):
        plan(4, 1, 5)


def test_an_empty_skill_plans_bare_groups_only() -> None:
    groups = plan_groups(tasks(3, "train"), Curriculum(0.5, {}), seed=0, round_index=0, steps=9, groups_per_step=3)
    assert {group.visible for group in groups} == {BARE}
    assert {group.kind for group in groups} == {"skill_free", "assisted_empty"}
