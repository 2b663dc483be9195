"""The signal controller of q: what the training groups themselves show."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intraskill.method.curriculum.visibility import Signal, signal_of, signal_q
from intraskill.method.errors import ConfigError
from intraskill.method.rollouts import Group, GroupResult, Rollout
from intraskill.method.tasks import Task

BOUNDS = {"enough": 0.5, "floor": 0.1, "ceiling": 0.95, "max_change": 0.5}
counts = st.integers(0, 200).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))).map(lambda c: Signal(*c))


def test_bare_groups_without_signal_beside_assisted_ones_with_it_send_q_to_the_floor():
    assert signal_q(0.2, Signal(64, 0), Signal(64, 40), **BOUNDS) == pytest.approx(
        0.1 + 0.85 * 0.5 / 65 / (0.5 * 40.5 / 65)
    )


def test_bare_groups_with_half_the_signal_take_over():
    assert signal_q(0.5, Signal(99, 30), Signal(99, 60), **BOUNDS) == 0.95


@pytest.mark.parametrize(
    ("bare", "assisted"),
    [(Signal(0, 0), Signal(64, 40)), (Signal(64, 9), Signal(0, 0)), (Signal(64, 0), Signal(64, 0))],
    ids=["no bare group", "no assisted group", "no signal at all"],
)
def test_a_round_that_says_nothing_leaves_q(bare, assisted):
    assert signal_q(0.4, bare, assisted, **BOUNDS) == 0.4


@given(st.floats(0.1, 0.95), counts, counts)
def test_q_stays_within_its_bounds_and_its_slew_limit(previous, bare, assisted):
    q = signal_q(previous, bare, assisted, **{**BOUNDS, "max_change": 0.2})
    assert 0.1 <= q <= 0.95
    assert abs(q - previous) <= 0.2 + 1e-12


@given(st.integers(0, 63))
def test_more_bare_signal_never_lowers_q(found):
    less, more = (signal_q(0.5, Signal(64, n), Signal(64, 32), **BOUNDS) for n in (found, found + 1))
    assert less <= more


def test_what_counts_as_enough_must_be_a_share():
    with pytest.raises(ConfigError, match="enough must lie in"):
        signal_q(0.5, Signal(1, 1), Signal(1, 1), **{**BOUNDS, "enough": 0.0})


def test_groups_are_counted_by_what_they_saw_and_whether_their_rewards_differ():
    results = [
        _group(frozenset(), (0.0, 1.0)),
        _group(frozenset(), (0.0, 0.0)),
        _group(frozenset({"brand"}), (1.0, 0.0)),
        _group(frozenset({"brand"}), (None, 1.0)),
        _group(frozenset({"brand", "size"}), (1.0, 1.0)),
    ]
    assert signal_of(results, bare=True) == Signal(2, 1)
    assert signal_of(results, bare=False) == Signal(2, 1)  # one is lost to a fault


def _group(visible: frozenset[str], rewards: tuple[float | None, ...]) -> GroupResult:
    task = Task("task", "shopping", "train")
    group = Group("r001/s0000/g00", 1, 0, 0, task, "assisted" if visible else "skill_free", visible)
    rollouts = tuple(
        Rollout(
            "task",
            visible,
            "weights",
            i,
            (1,),
            (2,),
            (1,),
            (-0.5,),
            reward,
            fault=None if reward is not None else "lost",
        )
        for i, reward in enumerate(rewards)
    )
    return GroupResult(group, rollouts)
