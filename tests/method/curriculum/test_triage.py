"""Law 13: triage is total, and a faulted review is never a skill deficit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from intraskill.method.curriculum.frontier import Review, TriageRule, Verdict, triage
from intraskill.method.errors import ConfigError

RULE = TriageRule(solved=1.0, min_valid=2)
RUNS = st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), max_size=6).map(tuple)


@pytest.mark.parametrize(
    ("full", "solvable", "verdict"),
    [
        ((0.0, 1.0), None, Verdict.MODEL_DEFICIT),
        ((1.0, None, None), None, Verdict.MODEL_DEFICIT),
        ((0.0, 0.5), None, Verdict.SKILL_DEFICIT),
        ((0.0, 0.0), True, Verdict.SKILL_DEFICIT),
        ((0.0, 0.0), False, Verdict.ENVIRONMENT),
        ((None, None), None, Verdict.ENVIRONMENT),
        ((0.0, None), None, Verdict.UNDECIDED),
        ((), None, Verdict.UNDECIDED),
    ],
)
def test_each_outcome_has_its_verdict(full: tuple[float | None, ...], solvable: bool | None, verdict: Verdict) -> None:
    assert triage(Review("t", full, (0.0, 0.0), solvable), RULE) is verdict


@given(RUNS, RUNS, st.sampled_from([None, True, False]), st.integers(1, 4))
def test_triage_is_total_and_only_enough_scored_failures_are_a_skill_deficit(
    full: tuple[float | None, ...], bare: tuple[float | None, ...], solvable: bool | None, min_valid: int
) -> None:
    verdict = triage(Review("t", full, bare, solvable), TriageRule(1.0, min_valid))
    scored = [reward for reward in full if reward is not None]
    enough = len(scored) >= min_valid and max(scored) < 1.0 and solvable is not False
    assert (verdict is Verdict.SKILL_DEFICIT) == enough


@given(RUNS, RUNS, RUNS)
def test_the_bare_control_does_not_enter_the_verdict(
    full: tuple[float | None, ...], bare: tuple[float | None, ...], other: tuple[float | None, ...]
) -> None:
    assert triage(Review("t", full, bare), RULE) is triage(Review("t", full, other), RULE)


def test_a_rule_that_would_judge_on_no_run_is_refused() -> None:
    with pytest.raises(ConfigError, match="min_valid must be 1 or more"):
        TriageRule(1.0, 0)
