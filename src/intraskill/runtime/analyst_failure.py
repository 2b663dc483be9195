"""The failure analyst: it finds the responsible decision, tries its fix in the live environment, only then proposes.

One dialogue per failed rollout: a diagnosis, at most ``max_decisions`` decisions in a fresh session of the same task,
and after full success one proposal. What only this task needed goes into the private notes, which stay in the record.
"""

import json
import threading
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from intraskill.environments.protocol import Environment
from intraskill.method.rollouts import Rollout
from intraskill.method.skill import Skill
from intraskill.runtime.analysis_records import AnalysisRecord, call_id, rollout_id
from intraskill.runtime.answer_schema import (
    INTEGER,
    PROPOSAL,
    TEXT,
    array,
    check_action,
    checked,
    read_proposal,
    record,
)
from intraskill.runtime.evidence_text import describe
from intraskill.runtime.live_trial import LiveTrial, example_actions
from intraskill.runtime.llm import BadAnswerError, JsonClient
from intraskill.runtime.prompts import Prompts

MAX_PROPOSALS = 1
DIAGNOSIS = record(responsible_action=INTEGER, diagnosis=TEXT, fix=TEXT)
DECISION = record(action=TEXT, done=TEXT)
LESSON = record(private_notes=TEXT, proposals=array(PROPOSAL))
Messages = list[dict[str, str]]


@dataclass(frozen=True)
class FailureAnalyst:
    """Reads one failure at a time; see the module.

    Attributes:
        client: endpoint and cache.
        prompts: of one language.
        environment: opens the fresh session; an environment with ``slots`` never holds more trials at once.
        max_decisions: most decisions of one trial.
    """

    client: JsonClient
    prompts: Prompts
    environment: Environment
    max_decisions: int = 20
    _places: Any = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        slots = getattr(self.environment, "slots", None)
        object.__setattr__(self, "_places", threading.BoundedSemaphore(slots) if slots else nullcontext())

    def analyse(self, rollout: Rollout, skill: Skill) -> AnalysisRecord:
        """Diagnose, try, and propose; whatever stops this on the way is the record's outcome.

        Raises:
            EndpointError: when the endpoint gives no answer.
        """
        messages = [
            {"role": "system", "content": self.prompts.fill("failure_analyst")},
            {"role": "user", "content": describe(rollout, skill, self.prompts)},
        ]
        name = rollout_id(rollout)
        found = AnalysisRecord(call_id("failure", name, messages), "failure", self.client.endpoint.model, name)
        if not rollout.turns:
            return replace(found, outcome="no_action")
        trial = LiveTrial(self.environment, rollout.task_id, self.max_decisions)
        try:
            diagnosis = self._diagnose(messages, len(rollout.turns))
            found = replace(
                found, responsible_action=diagnosis["responsible_action"], diagnosis=diagnosis["diagnosis"].strip()
            )
            with self._places:
                self._play(messages, trial)
            if trial.succeeded:
                return self._conclude(messages, replace(found, **_facts(trial)), skill)
        except BadAnswerError as error:
            return replace(found, outcome="bad_answer", diagnosis=found.diagnosis or str(error), **_facts(trial))
        return replace(found, outcome="fix_failed" if trial.fault is None else "no_trial", **_facts(trial))

    def _diagnose(self, messages: Messages, actions: int) -> dict[str, Any]:
        def read(data: Any) -> dict[str, Any]:
            answer: dict[str, Any] = checked(data, DIAGNOSIS)
            check_action(answer["responsible_action"], actions, "responsible_action")
            return answer

        return self._turn(messages, DIAGNOSIS, read)

    def _play(self, messages: Messages, trial: LiveTrial) -> None:
        trial.open()
        if trial.over:
            return
        shown = "\n".join(_spelt({"action": one, "done": ""}) for one in example_actions(self.environment.tools))
        text = self.prompts.fill("failure_trial", max_decisions=trial.max_decisions, examples=shown, page=trial.page)
        try:
            while not trial.over:
                messages.append({"role": "user", "content": text})
                decision = self._turn(messages, DECISION, read_decision)
                if decision["done"]:
                    return
                trial.act(decision["action"])
                feedback = trial.tried[-1].feedback if trial.fault is None else ""
                text = self.prompts.fill("trial_page", feedback=feedback, left=trial.left, page=trial.page)
        finally:
            trial.close()

    def _conclude(self, messages: Messages, found: AnalysisRecord, skill: Skill) -> AnalysisRecord:
        messages.append({"role": "user", "content": self.prompts.fill("failure_lesson", max_proposals=MAX_PROPOSALS)})

        def read(data: Any) -> dict[str, Any]:
            answer: dict[str, Any] = checked(data, LESSON)
            read_lesson(answer, skill)
            return answer

        answer = self._turn(messages, LESSON, read)
        proposals = [replace(made, support=(found.rollout_id,)) for made in read_lesson(answer, skill)]
        return replace(found, private_notes=answer["private_notes"].strip()).proposing(proposals)

    def _turn(self, messages: Messages, schema: dict[str, Any], read: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.ask(list(messages), schema, read)
        messages.append({"role": "assistant", "content": _spelt(answer)})
        return answer


def read_decision(data: Any) -> dict[str, Any]:
    """Return a decision: an action, or the word that ends the trial.

    Raises:
        ValueError: when it is neither or both.
    """
    answer: dict[str, Any] = checked(data, DECISION)
    if bool(answer["action"].strip()) == bool(answer["done"].strip()):
        raise ValueError('exactly one of "action" and "done" must be filled; the other one is ""')
    return answer


def read_lesson(answer: dict[str, Any], skill: Skill) -> list[Any]:
    """Return the proposals of a lesson.

    Raises:
        ValueError: for too many, or one that does not fit the skill.
    """
    if len(answer["proposals"]) > MAX_PROPOSALS:
        raise ValueError(f"{len(answer['proposals'])} proposals, at most {MAX_PROPOSALS} is allowed")
    return [read_proposal(item, f"proposals[{i}]", skill) for i, item in enumerate(answer["proposals"])]


def _spelt(answer: dict[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False)


def _facts(trial: LiveTrial) -> dict[str, Any]:
    return {"tried": tuple(trial.tried), "trial_reward": trial.reward if trial.tried else None}
