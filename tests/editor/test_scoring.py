"""The rollback reward end to end: from answers as written, over worker calls that are counted, to rewards."""

import json
from collections import Counter

import pytest
from editor.scripted import (
    HARMFUL,
    HELPFUL,
    SKILL,
    CountedWorker,
    WrittenDomain,
    answered,
    unit,
    written_run,
)

from intraskill.editor import training
from intraskill.editor.domain import Query, Stream
from intraskill.editor.domains.planted import RewardVerifier
from intraskill.editor.environment import EditorEnvironment
from intraskill.editor.scoring import UNANCHORED, jobs_of, score_answers
from intraskill.editor.states import EditState
from intraskill.editor.training import begin_passes, edit_step, followed, step_metrics
from intraskill.editor.trials import Trials
from intraskill.method.errors import NothingToLearnError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.skill.skill import Skill

DRAFTS = (HELPFUL,)
BETTER, SAME, WORSE, NOOP = (
    "CREATE\ndraft 1",
    "PRUNE 1",
    "CREATE\n### More\n\nAsk for the colour of every lamp.",
    "NOOP",
)
"""Beside the control's 0.25: 0.5, 0.25 and, as `rated` sees a chunk named More, 0."""


def rated(job):
    titles = {chunk.title for chunk in job.skill.chunks}
    return 0.0 if "More" in titles else 0.5 + 0.25 * ("Helpful" in titles) - 0.25 * ("Harmful" in titles)


def edit_state(*anchors, number=0):
    queries = tuple(Query(name, name) for name in anchors)
    return EditState(f"s{number}", SKILL, (unit(number, *anchors, drafts=DRAFTS),), queries)


def scored(trials, *groups, anchors=("q",), kind="binary"):
    """Score one state per group of answers."""
    states = [edit_state(*anchors, number=number) for number in range(len(groups))]
    rollouts = [[answered(text) for text in group] for group in groups]
    return score_answers(states, rollouts, EditorEnvironment(LeakFilter()), trials, kind=kind, seed=0)


def rewards(worker, *answers, anchors=("q",), kind="binary"):
    (one,) = scored(Trials(worker, RewardVerifier()), answers, anchors=anchors, kind=kind)
    return [rollout.reward for rollout in one.rollouts]


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([BETTER, SAME, WORSE], [1.0, 0.0, 0.0]),
        ([NOOP, SAME, WORSE], [1.0, 0.0, 0.0]),
        ([NOOP, BETTER, NOOP], [0.0, 1.0, 0.0]),
        ([NOOP, "CREATE\ndraft 2"], [1.0, 0.0]),
        ([NOOP, f"{BETTER}\nNOOP"], [1.0, 0.0]),
    ],
    ids=["edits", "NOOP holds", "NOOP is beaten", "a missing draft beats nothing", "two actions beat nothing"],
)
def test_answers_earn_the_published_reward(answers, expected):
    assert rewards(CountedWorker(rated), *answers) == expected


def test_margin_and_plain_take_their_scores_from_the_same_trials():
    worker = CountedWorker(rated)
    assert rewards(worker, BETTER, WORSE, NOOP, "?", kind="margin") == [0.25, -0.25, 0.0, -1.0]
    assert rewards(worker, BETTER, WORSE, NOOP, "?", kind="plain") == [0.5, 0.0, 0.25, 0.0]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("PRUNE 9", "no_such_chunk"),
        ("UPDATE 3\ndraft 1", "no_such_chunk"),
        ("PRUNE 1\nPRUNE 2", "two_actions"),
        ("MERGE\ndraft 1", "empty_merge"),
        ("MERGE 2\ndraft 1", "empty_merge"),
    ],
)
def test_an_invalid_answer_costs_no_trial_changes_nothing_and_is_counted_by_its_reason(answer, reason):
    worker = CountedWorker(rated)
    (one,) = scored(Trials(worker, RewardVerifier()), [answer, NOOP])
    assert (one.attempts[0].invalid, one.attempts[0].skill, one.edited[0]) == (reason, SKILL, ())
    assert {key[0] for key in worker.calls} == {SKILL.hash}
    assert one.rollouts[0].reward == 0.0
    assert step_metrics([one], 1)[f"editor/invalid_{reason}"] == 1


def test_every_worker_call_is_made_once_and_the_control_is_shared_by_its_group(tmp_path):
    worker, path = CountedWorker(rated), tmp_path / "trials.jsonl"
    trials = Trials(worker, RewardVerifier(), path)
    groups = [BETTER, BETTER, NOOP, SAME, "?"], [SAME, NOOP, NOOP, BETTER, WORSE]
    found = scored(trials, *groups, anchors=("q", "r"))
    distinct = {made.skill.hash for one in found for made in one.attempts} | {SKILL.hash}
    assert len(distinct) == 4
    assert worker.calls == Counter(dict.fromkeys(worker.calls, 1))
    assert len(worker.calls) == len(distinct) * 2
    assert sum(key[0] == SKILL.hash for key in worker.calls) == 2
    again = CountedWorker(rated)
    assert scored(Trials(again, RewardVerifier(), path), *groups, anchors=("q", "r")) == found
    assert not again.calls


def test_a_jobs_seed_depends_on_the_query_and_not_on_the_skill():
    queries = [Query("q", "q"), Query("r", "r")]
    before, after = (jobs_of(queries, skill, 0, repeats=2) for skill in (SKILL, Skill("", (HARMFUL,))))
    assert [job.seed for job in before] == [job.seed for job in after]
    assert len({job.seed for job in before}) == 4


class FailingVerifier:
    """Judges nothing whose skill holds the helpful chunk."""

    version = "failing-1"

    def score(self, query, answer):
        if answer.facts["reward"] == 0.5:
            raise OSError("the sheet is locked")
        return answer.facts["reward"]


def test_a_failure_of_the_verifier_is_a_fault_of_that_answer_and_never_reward_zero():
    trials = Trials(CountedWorker(rated), FailingVerifier())
    (one,) = scored(trials, [BETTER, SAME, NOOP])
    assert [rollout.reward for rollout in one.rollouts] == [None, 0.0, 1.0]
    assert one.faults == [one.rollouts[0].fault] == ["no trial of this edit has a score"]
    assert "the sheet is locked" in trials.faults[0]


def test_without_a_control_no_valid_answer_has_a_reward():
    broken = CountedWorker(lambda job: None if job.skill == SKILL else 1.0)
    assert rewards(broken, BETTER, NOOP, "?") == [None, None, 0.0]
    half = CountedWorker(lambda job: None if (job.skill, job.query.id) == (SKILL, "q") else rated(job))
    assert rewards(half, BETTER, NOOP, "?", anchors=("q", "r")) == [1.0, 0.0, 0.0]


def test_an_answer_that_broke_keeps_its_own_fault():
    (one,) = scored(Trials(CountedWorker(rated), RewardVerifier()), [None, BETTER])
    assert (one.rollouts[0].reward, one.rollouts[0].fault) == (None, "engine: lost")
    assert one.rollouts[1].reward == 1.0


def test_evidence_without_a_query_is_named_and_counted_apart_from_faults():
    worker = CountedWorker(rated)
    trials = Trials(worker, RewardVerifier())
    (free,) = scored(trials, [BETTER, None, NOOP], anchors=())
    (tried,) = scored(trials, [BETTER, None, NOOP])
    assert [rollout.fault for rollout in free.rollouts] == [UNANCHORED, "engine: lost", UNANCHORED]
    assert all(rollout.reward is None for rollout in free.rollouts)
    assert free.faults == ["engine: lost"]
    metrics = step_metrics([free, tried, free], 1)
    assert (metrics["editor/unanchored"], metrics["editor/faults"]) == (2, 3)
    assert metrics["editor/reward"] == 0.5


def test_a_step_whose_answers_all_fault_stops_and_names_what_broke_first(tmp_path):
    streams = Stream("a", (unit(0),), SKILL), Stream("b", (unit(1, "q"),), SKILL)
    run = written_run(tmp_path, WrittenDomain(streams), lambda state, k: None)
    with pytest.raises(NothingToLearnError, match="first: engine: lost"):
        edit_step(run, begin_passes(run, (), 0), 0)


def test_a_step_without_any_query_goes_on_and_gives_no_reward(tmp_path):
    streams = Stream("a", (unit(0),), SKILL), Stream("b", (unit(1), unit(2, "q")), SKILL)
    worker = CountedWorker(rated)
    run = written_run(tmp_path, WrittenDomain(streams), lambda state, k: NOOP, worker)
    found = edit_step(run, begin_passes(run, (), 0), 0)
    assert [one.faults for one in found] == [[], []]
    assert not worker.calls


def test_the_first_passes_are_spread_over_their_evidence_and_later_ones_begin_at_its_start(tmp_path):
    streams = [Stream(name, tuple(unit(k, "q") for k in range(4)), SKILL) for name in "ab"]
    run = written_run(tmp_path, WrittenDomain(streams), lambda state, k: NOOP)
    for width, left in ((2, [4, 2]), (8, [4, 4, 3, 3, 2, 2, 1, 1])):
        run.config.grpo.groups_per_step = width
        first = begin_passes(run, (), 0)
        assert [len(chain.rest) for _, _, chain in first.places] == left
        assert all(chain.rest[-1].id == "u3" for _, _, chain in first.places)
        ended = [(*place[:2], place[2].after(SKILL, 4)) for place in first.places]
        assert [len(chain.rest) for _, _, chain in begin_passes(run, ended, first.begun).places] == [4] * width


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_passes_that_were_saved_are_read_back_as_they_were(tmp_path, monkeypatch, pieces, batch):
    streams = [Stream(name, tuple(unit(k, "q") for k in range(pieces)), SKILL) for name in "abc"]
    run = written_run(tmp_path, WrittenDomain(streams), lambda state, k: BETTER, batch=batch, order="shuffled")
    run.config.grpo.groups_per_step = 8
    passes = begin_passes(run, (), 0)
    for step in range(4):
        facts = {"step": step, "lines": 0, "passes": json.loads(json.dumps(training._packed(passes)))}
        monkeypatch.setattr(training, "load_newest", lambda learner, states, facts=facts: facts)
        assert training._resume(run, tmp_path) == (step, 0, passes)
        passes = training._follow(run, passes, edit_step(run, passes, step), step)


def test_a_pass_goes_on_with_the_best_edit_or_any_valid_one():
    answers = ["?", SAME, BETTER, NOOP, WORSE]
    (one,) = scored(Trials(CountedWorker(rated), RewardVerifier()), answers)
    valid = {made.skill.hash for made in one.attempts[1:]}
    assert {followed(one, "best", 0, step).hash for step in range(20)} == {one.attempts[2].skill.hash}
    assert {followed(one, "sampled", 0, step).hash for step in range(60)} == valid
    (none,) = scored(Trials(CountedWorker(rated), RewardVerifier()), ["?", "PRUNE 9"])
    assert followed(none, "sampled", 0, 0) == SKILL
