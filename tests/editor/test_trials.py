"""Trials: each call once, torn tails cut, other workers refused, faults never kept and never 0."""

from dataclasses import dataclass, field

import pytest

from intraskill.editor.domain import Answer, Job, Query
from intraskill.editor.trials import Trials
from intraskill.method.errors import ArtifactError
from intraskill.method.skill.skill import Chunk, Skill

QUERY = Query("q", "ask")
SKILLS = [Skill("", (Chunk("Rule", text),)) for text in ("a", "b", "c")]


@dataclass
class CountingWorker:
    version: str = "w-1"
    lost: int = 0
    asked: list[Job] = field(default_factory=list)

    def answer(self, jobs):
        self.asked += jobs
        return [Answer("fine") for _ in jobs][: len(jobs) - self.lost]


@dataclass
class HalfVerifier:
    version: str = "v-1"
    failures: int = 0
    value: float = 0.5

    def score(self, query, answer):
        if self.failures:
            self.failures -= 1
            raise OSError("the sheet is locked")
        return self.value


def jobs(*skills):
    return [Job(QUERY, skill, 7) for skill in skills]


def test_each_call_is_made_once_within_a_run_and_after_a_restart(tmp_path):
    worker = CountingWorker()
    first = Trials(worker, HalfVerifier(), tmp_path / "trials.jsonl")
    assert first.scores(jobs(SKILLS[0], SKILLS[0], SKILLS[1])) == (0.5, 0.5, 0.5)
    second = Trials(worker, HalfVerifier(), tmp_path / "trials.jsonl")
    assert second.scores(jobs(*SKILLS)) == (0.5, 0.5, 0.5)
    assert (len(worker.asked), first.asked, first.found, second.asked, second.found) == (3, 2, 1, 1, 2)


def test_a_torn_tail_is_cut_and_its_job_asked_again(tmp_path):
    Trials(CountingWorker(), HalfVerifier(), tmp_path / "trials.jsonl").scores(jobs(*SKILLS))
    (log,) = tmp_path.iterdir()
    log.write_bytes(log.read_bytes()[:-9])
    worker = CountingWorker()
    assert Trials(worker, HalfVerifier(), tmp_path / "trials.jsonl").scores(jobs(*SKILLS)) == (0.5, 0.5, 0.5)
    assert [job.skill for job in worker.asked] == [SKILLS[2]]
    assert log.read_bytes().count(b"\n") == 3


def test_scores_of_another_worker_are_refused(tmp_path):
    Trials(CountingWorker(), HalfVerifier(), tmp_path / "trials.jsonl").scores(jobs(SKILLS[0]))
    with pytest.raises(ArtifactError, match="another worker or verifier"):
        Trials(CountingWorker("w-2"), HalfVerifier(), tmp_path / "trials.jsonl")


def test_a_verifier_that_fails_once_is_tried_again_and_one_that_always_fails_is_a_fault(tmp_path):
    assert Trials(CountingWorker(), HalfVerifier(failures=1)).scores(jobs(SKILLS[0])) == (0.5,)
    broken = Trials(CountingWorker(), HalfVerifier(failures=99), tmp_path / "trials.jsonl")
    assert broken.scores(jobs(SKILLS[0])) == (None,)
    assert "the sheet is locked" in broken.faults[0]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_score_outside_its_range_is_a_fault(value):
    assert Trials(CountingWorker(), HalfVerifier(value=value)).scores(jobs(SKILLS[0])) == (None,)
    assert Trials(CountingWorker(), HalfVerifier(value=1.0)).scores(jobs(SKILLS[0])) == (1.0,)


def test_a_worker_that_returns_too_few_answers_gives_no_score():
    trials = Trials(CountingWorker(lost=1), HalfVerifier())
    assert trials.scores(jobs(*SKILLS)) == (None, None, None)
    assert "2 answers to 3 jobs" in trials.faults[0]
