"""The failure frontier: low mean and low dispersion."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from method_records import result

from intraskill.method.curriculum.frontier import FrontierRule, find_frontier, in_frontier, is_frontier
from intraskill.method.errors import ConfigError

ALL_WRONG = FrontierRule(max_mean=0.0, max_std=0.0)


@given(st.lists(st.sampled_from([0.0, 0.25, 1.0]), max_size=8))
def test_all_wrong_is_the_special_case_of_zero_thresholds(rewards: list[float]) -> None:
    assert is_frontier(rewards, ALL_WRONG) == (bool(rewards) and max(rewards) == 0.0)


def test_a_group_stuck_at_one_low_partial_reward_belongs_to_the_frontier() -> None:
    rule = FrontierRule(max_mean=0.3, max_std=0.05)
    assert is_frontier([0.25] * 8, rule)
    assert not is_frontier([0.0] * 7 + [1.0], rule)
    assert not is_frontier([0.5] * 8, rule)


def test_a_rule_may_read_success_where_the_reward_is_graded() -> None:
    stuck = result("t", [0.5, 0.5])
    graded = replace(stuck, rollouts=tuple(replace(rollout, parts={"r_success": 0.0}) for rollout in stuck.rollouts))
    assert not in_frontier(graded, ALL_WRONG)
    assert in_frontier(graded, replace(ALL_WRONG, part="r_success"))


def test_a_group_with_a_fault_has_no_verdict() -> None:
    assert find_frontier([result("t", [0.0, None])], ALL_WRONG) == ()
    assert len(find_frontier([result("t", [0.0, 0.0])], ALL_WRONG)) == 1


def test_the_latest_group_of_a_task_speaks_for_it() -> None:
    failed, solved = result("t", [0.0, 0.0], 0), result("t", [0.0, 1.0], 1)
    assert find_frontier([failed, solved], ALL_WRONG) == ()
    assert find_frontier([solved, failed], ALL_WRONG) == (failed,)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from([(0.0, 0.0), (0.0, 1.0), (0.0, None)])), max_size=8))
def test_the_frontier_holds_each_task_once(groups: list[tuple[str, tuple[float | None, ...]]]) -> None:
    found = find_frontier([result(task, rewards, i) for i, (task, rewards) in enumerate(groups)], ALL_WRONG)
    assert len({group.group.task.id for group in found}) == len(found)


def test_a_negative_dispersion_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_std must be 0 or more"):
        FrontierRule(0.0, -0.1)
