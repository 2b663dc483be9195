"""What a step learns from: groups with signal, read through one reward component if the config says so."""

import dataclasses

from method_records import result

from intraskill.method.curriculum.frontier import with_signal
from intraskill.rounds.training import rescored


def graded(task_id, rewards, successes, number=0):
    group = result(task_id, rewards, number)
    pairs = zip(group.rollouts, successes, strict=True)
    return dataclasses.replace(
        group, rollouts=tuple(dataclasses.replace(r, parts={"r_success": success}) for r, success in pairs)
    )


def test_the_policy_gradient_reads_the_component_it_is_told():
    group = graded("t", [0.5, 1.0, None], [0.0, 1.0, 0.0])
    assert rescored(group, "r_success").rewards == (0.0, 1.0)
    assert rescored(group, "r_success").rollouts[2].reward is None
    assert rescored(group, "") is group
    assert group.rewards == (0.5, 1.0), "the group itself keeps its rewards"


def test_partial_credit_is_no_signal_when_only_success_pays():
    stuck, found = graded("a", [0.2, 0.5], [0.0, 0.0]), graded("b", [0.2, 1.0], [0.0, 1.0], 1)
    assert with_signal([stuck, found], 2) == [stuck, found]
    assert [g.group.task.id for g in with_signal([rescored(g, "r_success") for g in (stuck, found)], 2)] == ["b"]
