"""Laws 3 to 6: planned visible sets, and the audit that makes `Pairs`."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import CONDITIONS, edit, ids, scored, skill, skills_with_edits, tasks

from intraskill.method.errors import ConfigError, PairingError, SplitError
from intraskill.method.gate.designs import Design, plan_masks
from intraskill.method.gate.pairs import MaskedOnly, Pairs, Scored, pair
from intraskill.method.skill.edits import Edit, pool, slots
from intraskill.method.skill.skill import BARE, Skill, Visible

DRAWS = 3000
FOUR_SIGMA = 4.0 * 0.5 / math.sqrt(DRAWS)
SHOWN = {"task-a": frozenset(ids("x")), "task-b": frozenset(ids("xy")), "task-c": BARE}
PLAN = {task: (shown,) for task, shown in SHOWN.items()}
Arm = list[Scored]


def bare_arm() -> Arm:
    return [scored(task, reward) for task, reward in zip(PLAN, (0.0, 1.0, 0.5), strict=True)]


def masked_arm() -> Arm:
    return [scored(task, reward, SHOWN[task]) for task, reward in zip(PLAN, (1.0, 1.0, 0.0), strict=True)]


def planned(
    current: Skill,
    edits: Sequence[Edit],
    number: int = 30,
    *,
    seed: int = 1,
    round_index: int = 4,
    design: Design = Design(),  # noqa: B008
) -> dict[str, Visible]:
    """The visible set of each task in a plan of one masked run per task."""
    plan = plan_masks(pool(current, edits), edits, tasks(number), design, seed=seed, round_index=round_index)
    return {task: visible for task, (visible,) in plan.items()}


@settings(max_examples=60, deadline=None)
@given(skills_with_edits(), st.integers(0, 99))
def test_two_sides_of_a_slot_are_never_visible_together(case: tuple[Skill, tuple[Edit, ...]], seed: int) -> None:
    for visible in planned(*case, seed=seed).values():
        for slot in slots(*case):
            assert not (visible & set(slot.old) and visible & set(slot.new))


@pytest.mark.parametrize(
    ("removes", "adds", "states"),
    [
        ("a", "X", ["", "a", "X"]),
        ("ab", "X", ["", "a", "b", "ab", "X"]),
        ("a", "XY", ["", "a", "X", "Y", "XY"]),
        ("a", "", ["", "a"]),
        ("", "X", ["", "X"]),
    ],
)
def test_every_legal_state_of_a_slot_is_equally_likely(removes: str, adds: str, states: list[str]) -> None:
    change = edit(removes, adds)
    current = skill("abz")
    plan = planned(current, [change], DRAWS, seed=5, round_index=0)
    members = set(change.removes + change.added_ids)
    counts = Counter(frozenset(visible & members) for visible in plan.values())
    assert set(counts) == {frozenset(ids(state)) for state in states}
    for count in counts.values():
        assert abs(count / DRAWS - 1 / len(states)) < FOUR_SIGMA
        assert abs(count / DRAWS - 1 / (2 * len(states))) > FOUR_SIGMA
    assert abs(sum(set(ids("z")) <= visible for visible in plan.values()) / DRAWS - 0.5) < FOUR_SIGMA


def test_inclusion_meets_its_probability() -> None:
    plan = planned(skill("a"), [], DRAWS, seed=0, round_index=0, design=Design(inclusion=0.8))
    share = sum(bool(visible) for visible in plan.values()) / DRAWS
    assert abs(share - 0.8) < FOUR_SIGMA
    assert abs(share - 0.5) > FOUR_SIGMA


@settings(max_examples=40, deadline=None)
@given(skills_with_edits())
def test_edits_of_other_chunks_change_no_draw(case: tuple[Skill, tuple[Edit, ...]]) -> None:
    current, edits = case
    touched = {chunk_id for change in edits for chunk_id in change.removes}
    without, with_edits = planned(current, ()), planned(current, edits)
    untouched = set(current.ids) - touched
    for task_id, visible in with_edits.items():
        assert visible & untouched == without[task_id] & untouched


def test_a_draw_does_not_depend_on_the_other_tasks_but_on_round_and_seed() -> None:
    many, few = planned(skill("abcd"), ()), planned(skill("abcd"), (), 10)
    assert {task: many[task] for task in few} == few
    assert planned(skill("abcd"), (), seed=2) != many
    assert planned(skill("abcd"), (), round_index=5) != many


def test_a_plan_refuses_tasks_of_another_split_and_impossible_inclusions() -> None:
    with pytest.raises(SplitError, match="the validation gate reads only skill_validation tasks, but got 3"):
        plan_masks(skill("a"), [], tasks(3, "test"), seed=0, round_index=0)
    with pytest.raises(ConfigError, match="inclusion must lie strictly between 0 and 1, got 1.0"):
        planned(skill("a"), [], design=Design(inclusion=1.0))


def test_pairs_hold_the_differences_of_each_task() -> None:
    pairs = pair(bare_arm(), masked_arm(), PLAN, ids("xy"))
    assert pairs.task_ids == ("task-a", "task-b", "task-c")
    np.testing.assert_array_equal(pairs.design_NJ, [[1, 0], [1, 1], [0, 0]])
    np.testing.assert_array_equal(pairs.delta_N, [1.0, 0.0, -0.5])
    np.testing.assert_array_equal(pairs.part_deltas["r_half"], [0.5, 0.0, -0.25])
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(pairs.part_deltas["r_half"], pairs.delta_N)
    assert pairs.conditions == CONDITIONS
    assert pairs.bare_N.mean() == 0.5


@given(st.permutations(range(3)), st.permutations(range(3)))
def test_input_order_does_not_matter(first: list[int], second: list[int]) -> None:
    shuffled = pair([bare_arm()[i] for i in first], [masked_arm()[i] for i in second], PLAN, ids("xy"))
    straight = pair(bare_arm(), masked_arm(), PLAN, ids("xy"))
    assert shuffled.task_ids == straight.task_ids
    np.testing.assert_array_equal(shuffled.delta_N, straight.delta_N)
    np.testing.assert_array_equal(shuffled.design_NJ, straight.design_NJ)


def test_a_failed_attempt_beside_a_completed_one_is_ignored() -> None:
    failed = scored("task-a", None, fault="timeout")
    assert pair([failed, *bare_arm()], masked_arm(), PLAN, ids("xy")).delta_N[0] == 1.0


def test_a_pool_without_chunks_still_pairs() -> None:
    pairs = pair([scored("t", 0.5)], [scored("t", 0.0)], {"t": (BARE,)}, ())
    assert pairs.design_NJ.shape == (1, 0)


def with_condition(name: str) -> Callable[[Scored], Scored]:
    return lambda s: dataclasses.replace(s, conditions=dataclasses.replace(s.conditions, **{name: "other"}))


REFUSALS: dict[str, tuple[Callable[[Arm, Arm], tuple[Arm, Arm]], str, str]] = {
    "missing bare": (lambda b, m: (b[1:], m), "bare rollouts are missing, 1: task-a#0", "nothing stands in"),
    "missing masked": (lambda b, m: (b, m[1:]), "masked rollouts are missing, 1: task-a#0", "run them at the same"),
    "missing both": (lambda b, m: (b[1:], m[1:]), "bare rollouts are missing, 1: task-a#0", "run them at the same"),
    "unplanned replicate": (
        lambda b, m: ([*b, scored("task-a", 0.0, sample=1)], m),
        "bare rollouts were run but never planned, 1: task-a#1",
        "remove",
    ),
    "duplicate": (lambda b, m: ([*b, b[0]], m), "bare rollouts were completed more than once", "keep the first"),
    "unplanned": (
        lambda b, m: ([*b, scored("task-z", 0.0)], [*m, scored("task-z", 0.0)]),
        "bare rollouts were run but never planned, 1: task-z#0",
        "remove",
    ),
    "faulted": (
        lambda b, m: (b, [scored("task-a", None, SHOWN["task-a"], fault="timeout"), *m[1:]]),
        "masked rollouts ended in a fault, 1: task-a#0",
        "never reward 0",
    ),
    "bare with skill": (
        lambda b, m: ([dataclasses.replace(b[0], visible=SHOWN["task-a"]), *b[1:]], m),
        "bare rollouts saw a non-empty context, 1: task-a#0",
        "without skill",
    ),
    "another visible set": (
        lambda b, m: (b, [dataclasses.replace(m[0], visible=BARE), *m[1:]]),
        "masked rollouts saw another visible set than the planned one, 1: task-a#0",
        "under the plan",
    ),
    "not finite": (
        lambda b, m: (b, [scored("task-a", math.nan, SHOWN["task-a"]), *m[1:]]),
        "rollouts have a reward that is not finite, 1: masked task-a#0",
        "as a fault",
    ),
    "missing component": (
        lambda b, m: (b, [dataclasses.replace(m[0], parts={"r_strict": 1.0}), *m[1:]]),
        r"rollouts lack a reward component of \['r_half', 'r_strict'\], 1: masked task-a#0",
        "score them again",
    ),
    "reward is not r_strict": (
        lambda b, m: (b, [dataclasses.replace(m[0], reward=0.25), *m[1:]]),
        "rollouts have a reward that differs from their r_strict, 1: masked task-a#0",
        "as the main reward",
    ),
    **{
        name: (
            lambda b, m, name=name: ([with_condition(name)(b[0]), *b[1:]], m),
            rf"rollouts ran under another {name} than {getattr(CONDITIONS, name)}, 1: bare task-a#0 \(other\)",
            "run both arms",
        )
        for name in ("checkpoint", "split", "sampling", "prompt", "environment")
    },
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_pair_refuses_each_kind_of_non_pair_with_its_own_message(kind: str) -> None:
    spoil, message, remedy = REFUSALS[kind]
    bare, masked = spoil(bare_arm(), masked_arm())
    with pytest.raises(PairingError, match=f"{message}.*; .*{remedy}"):
        pair(bare, masked, PLAN, ids("xy"))


def test_every_kind_of_non_pair_has_its_own_message() -> None:
    messages = {message for kind, (_, message, _) in REFUSALS.items() if kind != "missing both"}
    assert len(messages) == len(REFUSALS) - 1


def test_a_refusal_counts_all_and_names_three() -> None:
    plan = {f"t{i}": (BARE,) for i in range(5)}
    with pytest.raises(PairingError, match="bare rollouts are missing, 5: t0#0, t1#0, t2#0, …; run them"):
        pair([], [scored(task, 0.0) for task in plan], plan, ())


def test_a_whole_arm_on_another_split_is_refused() -> None:
    bare, masked = ([with_condition("split")(s) for s in arm] for arm in (bare_arm(), masked_arm()))
    with pytest.raises(PairingError, match="another split than skill_validation, 6"):
        pair(bare, masked, PLAN, ids("xy"))


def test_a_plan_without_tasks_or_of_another_pool_is_refused() -> None:
    with pytest.raises(PairingError, match="the plan holds no task"):
        pair([], [], {}, ())
    with pytest.raises(PairingError, match="chunks that are not in the pool, 1: chunk-y"):
        pair(bare_arm(), masked_arm(), PLAN, ids("x"))


def test_nothing_else_makes_pairs() -> None:
    zero = np.zeros(1)
    with pytest.raises(PairingError, match="come from pair"):
        Pairs(("t",), (), np.zeros((1, 0)), zero, {}, zero, zero, CONDITIONS)


def test_the_correlation_of_the_arms_is_reported_when_there_is_one() -> None:
    pairs = pair(bare_arm(), masked_arm(), PLAN, ids("xy"))
    assert pairs.correlation == pytest.approx(np.corrcoef([0, 1, 0.5], [1, 1, 0])[0, 1])
    assert pair([scored("t", 0.5)], [scored("t", 0.0)], {"t": (BARE,)}, ()).correlation is None


REPLICATED = {"task-a": (frozenset(ids("x")), BARE), "task-b": (frozenset(ids("xy")), frozenset(ids("y")))}


def replicated_arms() -> tuple[Arm, Arm]:
    bare = [
        scored("task-a", 0.0),
        scored("task-a", 1.0, sample=1),
        scored("task-b", 1.0),
        scored("task-b", 1.0, sample=1),
    ]
    masked = [
        scored(task, reward, REPLICATED[task][sample], sample=sample)
        for task, sample, reward in (("task-a", 0, 1.0), ("task-a", 1, 0.5), ("task-b", 0, 0.0), ("task-b", 1, 0.25))
    ]
    return bare, masked


def test_every_masked_replicate_is_a_row_over_the_mean_bare_reward_of_its_task() -> None:
    pairs = pair(*replicated_arms(), REPLICATED, ids("xy"), bare_replicates=2)
    assert pairs.task_ids == ("task-a", "task-a", "task-b", "task-b")
    np.testing.assert_array_equal(pairs.bare_N, [0.5, 0.5, 1.0, 1.0])
    np.testing.assert_array_equal(pairs.delta_N, [0.5, 0.0, -1.0, -0.75])
    np.testing.assert_array_equal(pairs.design_NJ, [[1, 0], [0, 0], [1, 1], [0, 1]])
    assert (pairs.num_bare, pairs.num_masked) == (4, 4)
    with pytest.raises(AssertionError):
        np.testing.assert_array_equal(pairs.bare_N, [0.0, 1.0, 1.0, 1.0])


def test_replicates_that_were_not_planned_or_are_missing_are_refused() -> None:
    bare, masked = replicated_arms()
    with pytest.raises(PairingError, match="bare rollouts were run but never planned, 2: task-a#1, task-b#1; remove"):
        pair(bare, masked, REPLICATED, ids("xy"))
    with pytest.raises(PairingError, match="bare rollouts are missing, 2: task-a#2, task-b#2; run them"):
        pair(bare, masked, REPLICATED, ids("xy"), bare_replicates=3)
    with pytest.raises(PairingError, match="masked rollouts are missing, 1: task-b#1; run them"):
        pair(bare, masked[:-1], REPLICATED, ids("xy"), bare_replicates=2)
    swapped = [dataclasses.replace(masked[0], sample=1), dataclasses.replace(masked[1], sample=0), *masked[2:]]
    with pytest.raises(PairingError, match="saw another visible set than the planned one, 2: task-a#0, task-a#1"):
        pair(bare, swapped, REPLICATED, ids("xy"), bare_replicates=2)
    with pytest.raises(PairingError, match="the plan holds no task"):
        pair([], [], {}, ())


def test_one_missing_pair_of_four_hundred_is_refused_by_name() -> None:
    plan = {task.id: (BARE,) for task in tasks(400)}
    bare, masked = [scored(task, 0.0) for task in plan], [scored(task, 1.0) for task in plan]
    assert len(pair(bare, masked, plan, ()).task_ids) == 400
    with pytest.raises(PairingError, match="masked rollouts are missing, 1: task-0317#0; run them"):
        pair(bare, [s for s in masked if s.task_id != "task-0317"], plan, ())


def test_masked_rows_alone_have_no_place_for_a_bare_reward_and_come_from_audited_pairs_only() -> None:
    pairs = pair(*replicated_arms(), REPLICATED, ids("xy"), bare_replicates=2)
    rows = pairs.masked_only
    assert rows.masked_parts["r_half"].tolist() == [0.5, 0.25, 0.0, 0.125] and rows.num_masked == 4
    assert (rows.task_ids, rows.design_NJ.tolist()) == (pairs.task_ids, pairs.design_NJ.tolist())
    assert not hasattr(rows, "bare_N") and not hasattr(rows, "bare_parts")
    with pytest.raises(PairingError, match="comes from the masked_only of audited Pairs"):
        MaskedOnly(("t",), (), np.zeros((1, 0)), {}, CONDITIONS, 1)


def test_a_part_of_audited_pairs_keeps_its_rows() -> None:
    pairs = pair(*replicated_arms(), REPLICATED, ids("xy"), bare_replicates=2)
    part = pairs.of_tasks(["task-b"])
    assert part.task_ids == ("task-b", "task-b") and part.delta_N.tolist() == [-1.0, -0.75]
    assert part.masked_parts["r_half"].tolist() == [0.0, 0.125] and (part.num_bare, part.num_masked) == (2, 2)
