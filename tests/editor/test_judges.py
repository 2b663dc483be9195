"""The rubric judge: what it sees, how its word becomes a score, and that a bad judgement is never one."""

import json
import re

import pytest
from chat_server import Refusal, answering

from intraskill.editor.domain import Answer, Job, Query
from intraskill.editor.judges import Criterion, RubricJudge, read_judgements, read_rubric
from intraskill.editor.trials import Trials
from intraskill.editor.workers import EndpointWorker, WorkerReply
from intraskill.editor.workers_options import client_of
from intraskill.llm.client import BudgetError, EndpointError
from intraskill.method.errors import ConfigError
from intraskill.method.skill.skill import Chunk, Skill

RUBRIC = (Criterion("Says dawn."), Criterion("Warns of noon.", 3.0))
QUERY = Query("q", "the text that the worker reads", {"rubric": RUBRIC, "question": "When?"})
SKILL = Skill("", (Chunk("Secret lore", "Dawn."),))


def judged(*met):
    return json.dumps({"criteria": [{"number": i, "met": one, "why": "w"} for i, one in enumerate(met, 1)]})


def of_words(messages):
    """A judge that finds a criterion met when its last word stands in the answer."""
    text = messages[1]["content"]
    answer = re.search(r"<answer>\n(.*)\n</answer>", text, re.DOTALL)[1]
    criteria = re.search(r"<criteria>\n(.*)\n</criteria>", text, re.DOTALL)[1].splitlines()
    return judged(*(line.rstrip(".").split()[-1] in answer for line in criteria))


def judge_of(asked, cache, grading="all", **more):
    return RubricJudge(client_of(asked.endpoint(**more), cache, "j"), grading)


@pytest.mark.parametrize(
    ("text", "every", "share"),
    [("dawn, not noon", 1.0, 1.0), ("noon", 0.0, 0.75), ("dawn", 0.0, 0.25), ("?", 0.0, 0.0)],
)
def test_a_score_is_all_criteria_or_their_weighted_share(tmp_path, text, every, share):
    with answering(of_words) as asked:
        assert judge_of(asked, tmp_path).score(QUERY, Answer(text)) == every
        assert judge_of(asked, tmp_path, "share").score(QUERY, Answer(text)) == share
        assert len(asked.bodies) == 1, "both gradings read one judgement"


def test_an_empty_answer_meets_nothing_and_nobody_is_asked(tmp_path):
    with answering(of_words) as asked:
        assert judge_of(asked, tmp_path).score(QUERY, Answer(" \n")) == 0.0 and asked.bodies == []


def test_the_judge_sees_question_answer_and_criteria_and_never_a_skill(tmp_path):
    with answering(lambda m: of_words(m) if "<criteria>" in m[1]["content"] else "dawn noon") as asked:
        worker = EndpointWorker(
            client_of(asked.endpoint(), tmp_path / "w", "w"), WorkerReply("Answer.", lambda _, t: Answer(t)), ()
        )
        trials = Trials(worker, judge_of(asked, tmp_path / "j"))
        assert trials.scores([Job(QUERY, SKILL, 1)]) == (1.0,)
        told, shown = asked.bodies[1]["messages"]
        assert "Secret lore" in asked.bodies[0]["messages"][0]["content"]
        assert "Secret lore" not in told["content"] + shown["content"]
        assert "<question>\nWhen?\n</question>" in shown["content"] and QUERY.text not in shown["content"]
        assert "response_format" in asked.bodies[1]


GARBAGE = ["I think it is fine.", "{}", judged(True), judged(True, True, True), judged(True, "yes"), "[1, 2]"]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_judge_that_answers_garbage_twice_is_a_fault_and_never_a_score(tmp_path, garbage):
    with answering(lambda m: garbage if "<criteria>" in m[1]["content"] else "dawn noon") as asked:
        worker = EndpointWorker(
            client_of(asked.endpoint(), tmp_path / "w", "w"), WorkerReply("Answer.", lambda _, t: Answer(t)), ()
        )
        trials = Trials(worker, judge_of(asked, tmp_path / "j"))
        assert trials.scores([Job(QUERY, SKILL, 1)]) == (None,)
        assert "verifier: BadAnswerError" in trials.faults[0]
        assert len(asked.bodies) == 3, "one answer, one judgement, one correction; the second try finds them"


def test_a_judgement_that_is_mended_counts(tmp_path):
    with answering(lambda m: judged(True, True) if len(m) > 2 else "hm") as asked:
        assert judge_of(asked, tmp_path).score(QUERY, Answer("dawn noon")) == 1.0 and len(asked.bodies) == 2


def test_a_judge_that_is_down_or_has_no_budget_stops_the_run(tmp_path):
    def down(messages):
        raise Refusal(401, "wrong key")

    with answering(down) as asked, pytest.raises(EndpointError):
        judge_of(asked, tmp_path / "a").ahead(QUERY, Answer("dawn"))
    with answering(lambda m: "hm") as asked, pytest.raises(BudgetError):
        judge_of(asked, tmp_path / "b", budget_tokens=1).ahead(QUERY, Answer("dawn"))
    with answering(lambda m: "hm") as asked:
        judge_of(asked, tmp_path / "c").ahead(QUERY, Answer("dawn"))  # a bad judgement waits until it is needed


def test_judgements_are_put_in_order_by_number():
    rows = [{"number": 2, "met": True, "why": ""}, {"number": 1, "met": False, "why": "x"}]
    assert [one.met for one in read_judgements({"criteria": rows}, 2)] == [False, True]
    with pytest.raises(ValueError, match="stands twice"):
        read_judgements({"criteria": [rows[0], rows[0]]}, 2)
    with pytest.raises(ValueError, match="criteria 2, 3 are not judged"):
        read_judgements({"criteria": rows[1:]}, 3)


@pytest.mark.parametrize("rows", [[], None, "text", [""], [{"criterion": "x", "weight": 0}], [{"weight": 1}], [3]])
def test_an_empty_rubric_or_a_row_that_is_no_criterion_is_refused(rows):
    with pytest.raises(ValueError, match="rubrics"):
        read_rubric(rows)


def test_an_unknown_grading_is_refused(tmp_path):
    with answering(of_words) as asked, pytest.raises(ConfigError, match="choose all, share"):
        judge_of(asked, tmp_path, "most")
