"""The proposer that asks an LLM (`proposer.name=openai`): once on a success, in a dialogue with a trial on a failure.

It is given what the policy could see, and the reward parts; it never sees a goal. What it answers is a candidate
like any other: screen, REDUCE, ledger and gate come after it.
"""

import json
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from intraskill.config.proposing import ProposerConfig
from intraskill.environments.protocol import (
    Environment,
    Outcome,
    Session,
    boundary,
    payment_of,
    slots_of,
    sound_outcome,
)
from intraskill.environments.tool_calls import example_call, write_arguments
from intraskill.llm.client import BadAnswerError, JsonClient, Usage
from intraskill.method.rewards import success_of
from intraskill.method.rollouts import Rollout
from intraskill.method.skill.skill import Skill
from intraskill.proposers.analysis_records import AnalysisRecord, TriedAction, call_id, describe, rollout_id
from intraskill.proposers.reduce import LlmReducer
from intraskill.proposers.schema import (
    INTEGER,
    INTEGERS,
    PROPOSAL,
    TEXT,
    Prompts,
    array,
    check_action,
    checked,
    load_prompts,
    prompt_language,
    read_proposal,
    record,
)
from intraskill.proposers.trace2skill import Analysis


@dataclass(slots=True)
class LiveTrial:
    """One trial of one task.

    Attributes:
        environment: opens the session.
        task_id: the task.
        max_decisions: most actions.
        tried: the actions so far.
        page: the text of the page now shown.
        outcome: the last answer of the environment.
        fault: what broke technically (a task that this environment does not have, say), or ``None``.
    """

    environment: Environment
    task_id: str
    max_decisions: int
    tried: list[TriedAction] = field(default_factory=list)
    page: str = ""
    outcome: Outcome | None = None
    fault: str | None = None
    _session: Session | None = None

    @property
    def over(self) -> bool:
        """The episode ended, broke, or has no decisions left."""
        finished = self.outcome is not None and self.outcome.done
        return finished or self.fault is not None or len(self.tried) >= self.max_decisions

    @property
    def left(self) -> int:
        """Decisions that are left."""
        return self.max_decisions - len(self.tried)

    @property
    def reward(self) -> float | None:
        """What the environment paid: 0 for an episode that was not brought to its end, ``None`` when it broke."""
        if self.fault is not None:
            return None
        return self.outcome.reward if self.outcome is not None and self.outcome.done else 0.0

    @property
    def succeeded(self) -> bool:
        """Whether the environment paid for full success."""
        return self.outcome is not None and self.outcome.done and full_success(self.outcome.parts, self.reward)

    def open(self) -> None:
        """Open the session and read its first page."""
        with boundary("environment") as crossing:
            self._session = self.environment.open()
            self.page = self._session.reset(self.task_id).observation
        self.fault = crossing.fault

    def act(self, action: str) -> None:
        """Let the environment answer one action."""
        assert self._session is not None
        with boundary("environment") as crossing:
            self.outcome = sound_outcome(self._session.step(action), payment_of(self.environment))
            self.page = self.outcome.observation
            self.tried.append(TriedAction(action, self.outcome.feedback))
        self.fault = crossing.fault

    def close(self) -> None:
        """End an episode that is still open, so that a served environment gets its place back."""
        if self._session is not None and self.fault is None and not (self.outcome is not None and self.outcome.done):
            with boundary("environment"):
                self._session.terminate("action_limit")


def full_success(parts: Mapping[str, float], reward: float | None) -> bool:
    """Whether an episode reached full success."""
    return success_of(parts, reward) >= 1.0


def _example_actions(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one action text per tool, as an agent writes them."""
    examples = [example_call(tool, "…") for tool in tools]
    return tuple(write_arguments(example.name, example.arguments) for example in examples)


_MAX_LESSONS = 3
SCHEMA = record(lean_path=INTEGERS, lessons=array(record(action=INTEGER, proposal=PROPOSAL)))


def analyse_success(client: JsonClient, prompts: Prompts, rollout: Rollout, skill: Skill) -> AnalysisRecord:
    """Ask about one success; two wrong answers leave a record that says so.

    Raises:
        EndpointError: when the endpoint gives no answer.
    """
    messages = [
        {"role": "system", "content": prompts.fill("success_analyst", max_lessons=_MAX_LESSONS)},
        {"role": "user", "content": describe(rollout, skill, prompts)},
    ]
    name = rollout_id(rollout)
    blank = AnalysisRecord(call_id("success", name, messages), "success", client.endpoint.model, name)
    try:
        return client.ask(messages, SCHEMA, lambda data: _read_lessons(data, blank, skill, len(rollout.turns)))
    except BadAnswerError as error:
        return replace(blank, outcome="bad_answer", diagnosis=str(error))


def _read_lessons(data: Any, blank: AnalysisRecord, skill: Skill, actions: int) -> AnalysisRecord:
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
    if len(lessons) > _MAX_LESSONS:
        raise ValueError(f"{len(lessons)} lessons, at most {_MAX_LESSONS} are allowed")
    for index, number in enumerate(answer["lean_path"]):
        check_action(number, actions, f"lean_path[{index}]")
    proposals, pointed = [], []
    for index, lesson in enumerate(lessons):
        pointed.append(check_action(lesson["action"], actions, f"lessons[{index}].action"))
        made = read_proposal(lesson["proposal"], f"lessons[{index}].proposal", skill)
        proposals.append(replace(made, support=(blank.rollout_id,)))
    path = tuple(answer["lean_path"])
    return replace(blank, lean_path=path).proposing(proposals, pointed)


_MAX_PROPOSALS = 1
DIAGNOSIS = record(responsible_action=INTEGER, diagnosis=TEXT, fix=TEXT)
DECISION = record(action=TEXT, done=TEXT)
_LESSON = record(private_notes=TEXT, proposals=array(PROPOSAL))
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
        slots = slots_of(self.environment)
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
        shown = "\n".join(_spelt({"action": one, "done": ""}) for one in _example_actions(self.environment.tools))
        text = self.prompts.fill("failure_trial", max_decisions=trial.max_decisions, examples=shown, page=trial.page)
        try:
            while not trial.over:
                messages.append({"role": "user", "content": text})
                decision = self._turn(messages, DECISION, _read_decision)
                if decision["done"]:
                    return
                trial.act(decision["action"])
                feedback = trial.tried[-1].feedback if trial.fault is None else ""
                text = self.prompts.fill("trial_page", feedback=feedback, left=trial.left, page=trial.page)
        finally:
            trial.close()

    def _conclude(self, messages: Messages, found: AnalysisRecord, skill: Skill) -> AnalysisRecord:
        messages.append({"role": "user", "content": self.prompts.fill("failure_lesson", max_proposals=_MAX_PROPOSALS)})

        def read(data: Any) -> dict[str, Any]:
            answer: dict[str, Any] = checked(data, _LESSON)
            _read_lesson(answer, skill)
            return answer

        answer = self._turn(messages, _LESSON, read)
        proposals = [replace(made, support=(found.rollout_id,)) for made in _read_lesson(answer, skill)]
        return replace(found, private_notes=answer["private_notes"].strip()).proposing(proposals)

    def _turn(self, messages: Messages, schema: dict[str, Any], read: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self.client.ask(list(messages), schema, read)
        messages.append({"role": "assistant", "content": _spelt(answer)})
        return answer


def _read_decision(data: Any) -> dict[str, Any]:
    """Return a decision: an action, or the word that ends the trial.

    Raises:
        ValueError: when it is neither or both.
    """
    answer: dict[str, Any] = checked(data, DECISION)
    if bool(answer["action"].strip()) == bool(answer["done"].strip()):
        raise ValueError('exactly one of "action" and "done" must be filled; the other one is ""')
    return answer


def _read_lesson(answer: dict[str, Any], skill: Skill) -> list[Any]:
    """Return the proposals of a lesson.

    Raises:
        ValueError: for too many, or one that does not fit the skill.
    """
    if len(answer["proposals"]) > _MAX_PROPOSALS:
        raise ValueError(f"{len(answer['proposals'])} proposals, at most {_MAX_PROPOSALS} is allowed")
    return [read_proposal(item, f"proposals[{i}]", skill) for i, item in enumerate(answer["proposals"])]


def _spelt(answer: dict[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False)


def _facts(trial: LiveTrial) -> dict[str, Any]:
    return {"tried": tuple(trial.tried), "trial_reward": trial.reward if trial.tried else None}


@dataclass(frozen=True, slots=True)
class LlmProposer:
    """Reads each rollout on its own; see `intraskill.proposers.trace2skill.Proposer`.

    Attributes:
        client: endpoint and cache.
        prompts: of one language.
        environment: where failures are tried again.
        max_calls: most rollouts read per pass; failures come first.
        max_decisions: most decisions of one live trial.
    """

    client: JsonClient
    prompts: Prompts
    environment: Environment
    max_calls: int = 100
    max_decisions: int = 20

    @property
    def name(self) -> str:
        """The model's name."""
        return f"llm:{self.client.endpoint.model}"

    @property
    def reducer(self) -> LlmReducer:
        """The same model unites the proposals."""
        return LlmReducer(self.client, self.prompts)

    @property
    def prompts_hash(self) -> str:
        """Hash of every prompt; a run is bound to it."""
        return self.prompts.hash

    @property
    def usage(self) -> Usage:
        """What the client has spent."""
        return self.client.usage

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Read the rollouts, failures first; a wrong answer is re-asked once, then the rollout is dropped and counted.

        Raises:
            EndpointError: when the endpoint gives no answer.
        """
        scored = sorted((r for r in rollouts if r.fault is None), key=lambda r: (r.reward or 0.0, rollout_id(r)))
        asked = scored[: self.max_calls]
        failures = FailureAnalyst(self.client, self.prompts, self.environment, self.max_decisions)

        def read(rollout: Rollout) -> AnalysisRecord:
            if full_success(rollout.parts, rollout.reward):
                return analyse_success(self.client, self.prompts, rollout, skill)
            return failures.analyse(rollout, skill)

        answers = self.client.each(asked, read)
        records = tuple(record for record in answers if isinstance(record, AnalysisRecord))
        counts = Counter(record.outcome for record in records if record.outcome != "proposed")
        counts["bad_answer"] += len(answers) - len(records)
        counts["parsed"] = len(answers) - counts["bad_answer"]
        counts.update(faults=len(rollouts) - len(scored), over_budget=len(scored) - len(asked))
        proposals = tuple(proposal for record in records for proposal in record.proposed)
        return Analysis(proposals, dict(counts), records)


def llm_proposer(client: JsonClient, environment: Environment, settings: ProposerConfig) -> LlmProposer:
    """Return the proposer that the configuration's ``proposer`` section asks for.

    Args:
        client: endpoint and cache.
        environment: where failures are tried again; its language chooses the prompts unless the settings do.
        settings: the section.

    Raises:
        ConfigError: for a language without prompts.
    """
    prompts = load_prompts(prompt_language(environment, settings.language))
    return LlmProposer(client, prompts, environment, settings.max_calls, settings.max_decisions)
