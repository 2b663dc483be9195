"""The success analyst: one call per successful rollout, its lean path and a few lessons that logged actions show."""

from dataclasses import replace
from typing import Any

from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Skill
from intraskill.runtime.analysis_records import AnalysisRecord, call_id, rollout_id
from intraskill.runtime.answer_schema import (
    INTEGER,
    INTEGERS,
    PROPOSAL,
    array,
    check_action,
    checked,
    read_proposal,
    record,
)
from intraskill.runtime.evidence_text import describe
from intraskill.runtime.llm import BadAnswerError, JsonClient
from intraskill.runtime.prompts import Prompts

MAX_LESSONS = 3
SCHEMA = record(lean_path=INTEGERS, lessons=array(record(action=INTEGER, proposal=PROPOSAL)))


def analyse_success(client: JsonClient, prompts: Prompts, rollout: Rollout, skill: Skill) -> AnalysisRecord:
    """Ask about one success; two wrong answers leave a record that says so.

    Raises:
        EndpointError: when the endpoint gives no answer.
    """
    messages = [
        {"role": "system", "content": prompts.fill("success_analyst", max_lessons=MAX_LESSONS)},
        {"role": "user", "content": describe(rollout, skill, prompts)},
    ]
    name = rollout_id(rollout)
    blank = AnalysisRecord(call_id("success", name, messages), "success", client.endpoint.model, name)
    try:
        return client.ask(messages, SCHEMA, lambda data: read_lessons(data, blank, skill, len(rollout.turns)))
    except BadAnswerError as error:
        return replace(blank, outcome="bad_answer", diagnosis=str(error))


def read_lessons(data: Any, blank: AnalysisRecord, skill: Skill, actions: int) -> AnalysisRecord:
    """Fill a record from an answer.

    Args:
        data: the parsed answer.
        blank: the record of the call.
        skill: the skill that it read.
        actions: how many actions the log has.

    Raises:
        ValueError: saying exactly what does not fit the schema, the log or the skill.
    """
    answer = checked(data, SCHEMA)
    lessons = answer["lessons"]
    if len(lessons) > MAX_LESSONS:
        raise ValueError(f"{len(lessons)} lessons, at most {MAX_LESSONS} are allowed")
    for index, number in enumerate(answer["lean_path"]):
        check_action(number, actions, f"lean_path[{index}]")
    proposals, pointed = [], []
    for index, lesson in enumerate(lessons):
        pointed.append(check_action(lesson["action"], actions, f"lessons[{index}].action"))
        made = read_proposal(lesson["proposal"], f"lessons[{index}].proposal", skill)
        proposals.append(replace(made, support=(blank.rollout_id,)))
    path = tuple(answer["lean_path"])
    return replace(blank, lean_path=path).proposing(proposals, pointed)
