"""Mask designs: balance, exogeneity, replicates, and slots with any number of versions."""

import math
import time
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from method_records import chunk, edit, ids, skill, skills_with_edits, tasks
from numpy.typing import NDArray

from intraskill.method.errors import ConfigError, EditError, SplitError
from intraskill.method.gate import designs
from intraskill.method.gate.designs import Design, plan_masks, states
from intraskill.method.randomness import content_hash
from intraskill.method.skill.edits import Edit, Slot, check_edits, pool, slots
from intraskill.method.skill.skill import Skill, Visible

BALANCED = Design("balanced")
DRAWS = 3000
FOUR_SIGMA = 4.0 * 0.5 / math.sqrt(DRAWS)
# Hash of the plan below, drawn before there were designs: a recorded masks.json stays valid.
PUBLISHED_PLAN = "1793efee08fb1b90"

# Hash of a balanced plan of 8 chunks and two contested slots: every machine draws this one.
BALANCED_PLAN = "539bf1015ece6c25"


def balanced(current: Skill, edits: tuple[Edit, ...], number: int, *, seed: int = 1) -> dict[str, Visible]:
    everything = pool(current, edits, alternatives=True)
    plan = plan_masks(everything, edits, tasks(number), BALANCED, seed=seed, round_index=4)
    return {task: visible for task, (visible,) in plan.items()}


def test_the_published_design_draws_the_same_plan_as_before_there_were_others() -> None:
    edits = [edit("ab", "X"), edit("c", "YZ"), edit("", "W"), edit("d", "")]
    plan = plan_masks(pool(skill("abcde"), edits), edits, tasks(40), seed=11, round_index=3)
    assert content_hash(sorted((task, sorted(visible)) for task, (visible,) in plan.items())) == PUBLISHED_PLAN
    other = plan_masks(pool(skill("abcde"), edits), edits, tasks(40), seed=12, round_index=3)
    assert content_hash(sorted((task, sorted(visible)) for task, (visible,) in other.items())) != PUBLISHED_PLAN
    assert plan == plan_masks(pool(skill("abcde"), edits), edits, tasks(40), Design(), seed=11, round_index=3)


@pytest.mark.parametrize("number", [40, 101, 400])
def test_a_balanced_plan_shows_each_chunk_in_half_of_the_tasks_and_each_pair_in_a_quarter(number: int) -> None:
    names = "abcdefghijkl"
    plan = balanced(skill(names), (), number)
    design = np.array([[c in visible for c in ids(names)] for visible in plan.values()], dtype=float)
    assert np.abs(design.sum(axis=0) - number / 2).max() <= 0.5
    together = design.T @ design
    worst = max(abs(together[a, b] - number / 4) for a, b in combinations(range(12), 2))
    assert worst <= 1.5
    chance = plan_masks(skill(names), [], tasks(number), Design(), seed=1, round_index=4)
    drawn = np.array([[c in v[0] for c in ids(names)] for v in chance.values()], dtype=float)
    assert max(abs((drawn.T @ drawn)[a, b] - number / 4) for a, b in combinations(range(12), 2)) > 1.5


@settings(max_examples=30, deadline=None)
@given(skills_with_edits(), st.integers(0, 99), st.integers(40, 70))
def test_every_state_of_every_slot_is_equally_frequent(
    case: tuple[Skill, tuple[Edit, ...]], seed: int, number: int
) -> None:
    plan = balanced(*case, number, seed=seed)
    for slot in slots(*case):
        counts = Counter(visible & frozenset(slot.ids) for visible in plan.values())
        assert set(counts) <= set(states(slot))
        frequencies = [counts[state] for state in states(slot)]
        assert max(frequencies) - min(frequencies) <= 1


def test_a_balanced_plan_is_a_function_of_seed_round_and_the_set_of_tasks_alone() -> None:
    current, edits = skill("abcde"), (edit("a", "X"), edit("bc", "Y"))
    everything = pool(current, edits)
    plan = plan_masks(everything, edits, tasks(60), BALANCED, seed=1, round_index=2)
    assert plan == plan_masks(everything, edits[::-1], tasks(60)[::-1], BALANCED, seed=1, round_index=2)
    assert plan != plan_masks(everything, edits, tasks(60), BALANCED, seed=2, round_index=2)
    assert plan != plan_masks(everything, edits, tasks(60), BALANCED, seed=1, round_index=3)
    fewer = plan_masks(everything, edits, tasks(59), BALANCED, seed=1, round_index=2)
    assert any(fewer[task] != plan[task] for task in fewer)  # it cannot be prefix-stable; the other design is
    published = [plan_masks(everything, edits, tasks(n), Design(), seed=1, round_index=2) for n in (59, 60)]
    assert all(published[1][task] == visible for task, visible in published[0].items())


def test_a_balanced_plan_is_the_same_whatever_the_order_in_which_a_machine_adds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current, edits = skill("abcdefgh"), (edit("a", "XY"), edit("b", "Z"))
    plan = balanced(current, edits, 101)
    dealt = sorted((task, sorted(visible)) for task, visible in plan.items())
    assert content_hash(dealt) == BALANCED_PLAN
    assert content_hash(dealt[1:]) != BALANCED_PLAN
    exchange = designs._exchange

    def other_machine(
        code_N: NDArray[np.int64], earlier_NS: NDArray[np.int64], number: int, rng: np.random.Generator
    ) -> None:
        """The same sums by other kernels: columns in another order, floats in place of integers."""
        order = np.random.default_rng(number).permutation(earlier_NS.shape[1])
        exchange(code_N, np.asfortranarray(earlier_NS[:, order].astype(np.float64)), number, rng)  # type: ignore[arg-type]

    monkeypatch.setattr(designs, "_exchange", other_machine)
    assert balanced(current, edits, 101) == plan


def test_no_task_of_a_balanced_plan_is_favoured() -> None:
    seeds, names = 200, "abc"
    shown = np.array(
        [
            [[c in v for c in ids(names)] for v in balanced(skill(names), (), 12, seed=seed).values()]
            for seed in range(seeds)
        ]
    )
    assert np.abs(shown.mean(axis=0) - 0.5).max() < 4.0 * 0.5 / math.sqrt(seeds)
    first, second = shown[:, 0, 0], shown[:, 1, 0]
    assert (first & second).mean() == pytest.approx(5 / 22, abs=4.0 * 0.5 / math.sqrt(seeds))


def test_replicates_have_plans_of_their_own() -> None:
    for kind in ("bernoulli", "balanced"):
        plan = plan_masks(skill("abcd"), [], tasks(200), Design(kind, masked_replicates=3), seed=1, round_index=0)
        alone = plan_masks(skill("abcd"), [], tasks(200), Design(kind), seed=1, round_index=0)
        assert {task: sets[:1] for task, sets in plan.items()} == alone
        assert {len(sets) for sets in plan.values()} == {3}
        same = sum(sets[a] == sets[b] for sets in plan.values() for a, b in ((0, 1), (0, 2), (1, 2)))
        assert same / 600 == pytest.approx(1 / 16, abs=0.05)


def rivals(number: int) -> tuple[Edit, ...]:
    return tuple(Edit(ids("a"), (chunk(f"version {i}"),)) for i in range(number))


@pytest.mark.parametrize("kind", ["bernoulli", "balanced"])
def test_any_number_of_versions_of_one_chunk_are_never_shown_together(kind: str) -> None:
    edits = (*rivals(4), edit("a", ""), edit("b", "YZ"))
    everything = pool(skill("abc"), edits, alternatives=True)
    plan = plan_masks(everything, edits, tasks(DRAWS), Design(kind), seed=3, round_index=0)
    versions = [ids("a")[0], *(change.added_ids[0] for change in edits[:4])]
    counts = Counter(visible & frozenset(versions) for (visible,) in plan.values())
    assert set(counts) == {frozenset(), *(frozenset({version}) for version in versions)}
    tolerance = FOUR_SIGMA if kind == "bernoulli" else 1 / DRAWS
    for count in counts.values():
        assert abs(count / DRAWS - 1 / 6) <= tolerance
        assert abs(count / DRAWS - 1 / 5) > tolerance / 2


@pytest.mark.parametrize("kind", ["bernoulli", "balanced"])
def test_the_order_of_rival_edits_changes_no_draw(kind: str) -> None:
    edits = (*rivals(4), edit("bc", "Y"), edit("cb", "Z"))
    plans = [
        plan_masks(pool(skill("abc"), order, alternatives=True), order, tasks(60), Design(kind), seed=3, round_index=0)
        for order in (edits, edits[::-1])
    ]
    assert plans[0] == plans[1]


def test_many_versions_are_drawn_without_many_attempts() -> None:
    edits = rivals(30)
    everything = pool(skill("a"), edits, alternatives=True)
    start = time.process_time()
    plan = plan_masks(everything, edits, tasks(200), Design(), seed=0, round_index=0)
    assert time.process_time() - start < 2.0  # a coin per chunk would need 2 ** 31 / 32 attempts a task
    assert len({visible for (visible,) in plan.values()}) > 25


def test_edits_of_the_very_same_chunks_share_a_slot_and_only_where_alternatives_are_allowed() -> None:
    edits = [edit("ab", "X"), edit("ba", "Y"), edit("c", "Z")]
    first, *_ = slots(skill("abcd"), edits)
    assert first == Slot(ids("ab"), ids("X"), (ids("Y"),))
    assert first.versions == (ids("ab"), ids("X"), ids("Y")) and first.ids == ids("abXY")
    assert first.allows(frozenset(ids("ab"))) and not first.allows(frozenset(ids("XY")))
    assert pool(skill("abcd"), edits, alternatives=True).ids == ids("abXYcZd")
    with pytest.raises(EditError, match="chunks removed by several edits, 2: chunk-a"):
        check_edits(skill("abcd"), edits)
    with pytest.raises(EditError, match="chunks removed by several edits, 1: chunk-a"):
        check_edits(skill("abcd"), [edit("a", "X"), edit("ab", "Y")], alternatives=True)


def test_a_directed_deletion_is_a_slot_with_one_version() -> None:
    change = edit("a", "")
    plan = balanced(skill("ab"), (change,), 50)
    assert sum(set(ids("a")) <= visible for visible in plan.values()) == 25


def test_impossible_designs_are_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="unknown mask design 'latin'; choose one of bernoulli, balanced"):
        Design("latin")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="shows every chunk in half of the tasks, got 0.3; use 0.5"):
        Design("balanced", inclusion=0.3)
    with pytest.raises(ConfigError, match="replicates must be 1 or more, got 0 masked and 1 bare"):
        Design(masked_replicates=0)
    with pytest.raises(ConfigError, match=r"the slot of chunk-a-\w+ has 9 states and there are 5 tasks"):
        balanced(skill("abc"), (edit("abc", "X"),), 5)
    with pytest.raises(SplitError, match="reads only skill_validation tasks, but got 3"):
        plan_masks(skill("a"), [], tasks(3, "test"), BALANCED, seed=0, round_index=0)


def test_a_large_balanced_plan_takes_seconds() -> None:
    start = time.process_time()
    balanced(skill("abcdefghijkl"), (), 3200)
    assert time.process_time() - start < 5.0  # about 0.2 s alone


def test_a_mirrored_run_shows_exactly_what_the_run_before_hid() -> None:
    everything = skill("abcdefgh")
    plan = plan_masks(everything, [], tasks(60), Design("mirrored", masked_replicates=2), seed=2, round_index=1)
    assert all(first | second == set(everything.ids) and not first & second for first, second in plan.values())
    free = plan_masks(everything, [], tasks(60), Design("balanced", masked_replicates=2), seed=2, round_index=1)
    assert [first for first, _ in plan.values()] == [first for first, _ in free.values()]
    assert not all(first | second == set(everything.ids) for first, second in free.values())


def test_a_mirrored_run_shows_another_version_of_a_contested_place_each_equally_often() -> None:
    current, edits = skill("ab"), [edit("a", "X")]
    everything = pool(current, edits)
    plan = plan_masks(everything, edits, tasks(300), Design("mirrored", masked_replicates=2), seed=2, round_index=1)
    places = [[v & set(ids("aX")) for v in pair] for pair in plan.values()]
    assert all(len(v) <= 1 for pair in places for v in pair) and all(first != second for first, second in places)
    counts = Counter(second for _, second in places)
    assert len(counts) == 3 and all(abs(count - 100) < 4 * math.sqrt(300 * 2 / 9) for count in counts.values())


def test_a_mirrored_design_refuses_an_odd_number_of_runs() -> None:
    with pytest.raises(ConfigError, match="even number of times, got 1; use 2"):
        Design("mirrored")
    assert Design("mirrored", masked_replicates=4).kind == "mirrored"
