"""What answers came to: counts, words, and the complaint about answers that are no calls."""

from dataclasses import replace

from method_records import rollout

from intraskill.method.answers import Answers, an_unreadable, answers_in, answers_of
from intraskill.method.rollouts import Rollout, Turn


def acted(*feedback: str, **changes: object) -> Rollout:
    turns = tuple(Turn("home", f"answer {i}", "", "", code) for i, code in enumerate(feedback))
    return replace(rollout("t", 0.5), turns=turns, **changes)  # type: ignore[arg-type]


def test_counts_are_of_scored_episodes_by_feedback() -> None:
    rollouts = [
        acted("executed", "invalid_format", "unavailable_action"),
        acted("invalid_format", truncated=True),
        acted("invalid_format", reward=None, parts={}, fault="server gone"),
    ]
    found = answers_of(rollouts)
    assert found == Answers(rollouts=2, truncated=1, actions=4, invalid=2, refused=1)
    assert found.words() == "50.0 % of 4 actions invalid, 25.0 % refused; 50.0 % of 2 episodes truncated"
    assert an_unreadable(rollouts) == "answer 1" and an_unreadable(rollouts[:0]) == ""
    assert answers_in({"rollouts": 2, **found.metrics("eval")}, "eval", 2) == found
    assert answers_in({"eval/reward": 0.1}, "eval", 2) is None
    assert Answers().words() == "no actions"


def test_only_a_majority_of_unreadable_answers_is_a_complaint() -> None:
    assert Answers(1, 0, 4, 2, 0).complaint("x") == ""
    said = Answers(10, 0, 40, 39, 0).complaint("<function=click>" + "y" * 500)
    assert said.startswith("97.5 % of 40 answers are no call that can be read, such as '<function=click>yyy")
    assert len(said) < 400 and "intraskill doctor" in said
