"""The rollback reward, case by case as published, and what lies beyond it."""

import pytest

from intraskill.editor.scoring import INVALID_MARGIN, Candidate, rollback_rewards
from intraskill.method.errors import ConfigError
from intraskill.rl.losses import group_advantages

NOOP = Candidate(True, (0.0,))
INVALID = Candidate(False, ())


def edit(*scores: float | None) -> Candidate:
    return Candidate(False, scores)


@pytest.mark.parametrize(
    ("case", "control", "candidates", "expected"),
    [
        ("an edit that turns failure into success", 0.0, [edit(1.0)], [1.0]),
        ("an edit that changes nothing on the query", 1.0, [edit(1.0)], [0.0]),
        ("an edit that does harm", 1.0, [edit(0.0)], [0.0]),
        ("a NOOP alone", 0.0, [NOOP], [1.0]),
        ("a NOOP beside an edit that does not win", 1.0, [NOOP, edit(1.0)], [1.0, 0.0]),
        ("a NOOP beside an edit that wins", 0.0, [NOOP, edit(1.0)], [0.0, 1.0]),
        ("two NOOPs do not spoil one another", 0.0, [NOOP, NOOP], [1.0, 1.0]),
        ("an invalid action", 0.0, [INVALID], [0.0]),
        ("an invalid action does not count against a NOOP", 0.0, [NOOP, INVALID], [1.0, 0.0]),
        ("a graded verifier: more is more", 0.4, [edit(0.5), edit(0.4), edit(0.3)], [1.0, 0.0, 0.0]),
    ],
)
def test_the_published_rule(case, control, candidates, expected):
    assert rollback_rewards([control], candidates) == tuple(expected), case


def test_a_fault_is_never_reward_zero():
    rewards = rollback_rewards([0.0], [edit(None), edit(1.0), NOOP])
    assert rewards == (None, 1.0, 0.0)


def test_without_a_control_score_no_valid_candidate_has_a_reward():
    assert rollback_rewards([None], [edit(1.0), NOOP, INVALID]) == (None, None, 0.0)


def test_several_anchors_are_compared_by_their_mean_over_those_that_both_sides_have():
    assert rollback_rewards([0.0, 1.0, None], [edit(1.0, 0.5, 0.0), edit(0.0, 1.0, 1.0)]) == (1.0, 0.0)
    assert rollback_rewards([0.0, 1.0], [edit(None, 0.5)]) == (0.0,)


def test_the_margin_is_the_difference_and_an_invalid_action_is_below_all():
    candidates = [edit(1.0, 0.5), edit(0.0, 0.0), Candidate(True, (0.0, 0.5)), INVALID]
    assert rollback_rewards([0.0, 0.5], candidates, "margin") == (0.5, -0.25, 0.0, INVALID_MARGIN)


def test_a_margin_without_a_control_gives_a_noop_no_reward():
    assert rollback_rewards([None], [NOOP], "margin") == (None,)


def test_the_plain_reward_is_the_verifiers_score_whatever_the_control():
    assert rollback_rewards([1.0], [edit(1.0), Candidate(True, (1.0,)), INVALID, edit(None)], "plain") == (
        1.0,
        1.0,
        0.0,
        None,
    )


def test_scores_of_another_number_of_anchors_are_refused():
    with pytest.raises(ConfigError, match="another number of scores"):
        rollback_rewards([0.0, 1.0], [edit(1.0)])


def test_an_unknown_kind_is_refused():
    with pytest.raises(ConfigError, match="binary, margin, plain"):
        rollback_rewards([0.0], [edit(1.0)], "sparse")


def test_margin_and_plain_give_one_group_the_same_advantages_unless_an_answer_is_invalid():
    """They differ by the control score, which GRPO's group mean takes out; `binary` and an invalid answer do not."""
    control, valid = (
        [0.0, 1.0, 0.0, 1.0],
        [edit(1.0, 1.0, 0.0, 1.0), edit(0.0, 0.0, 0.0, 1.0), edit(1.0, 1.0, 1.0, 1.0)],
    )
    group = [*valid, Candidate(True, tuple(control))]

    def advantages(candidates, kind):
        return group_advantages(rollback_rewards(control, candidates, kind), "grpo")

    assert advantages(group, "margin") == pytest.approx(advantages(group, "plain"))
    assert advantages(group, "margin") != pytest.approx(advantages(group, "binary"))
    assert advantages([*group, INVALID], "margin") != pytest.approx(advantages([*group, INVALID], "plain"))
