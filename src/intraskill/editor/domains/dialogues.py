"""Tool dialogues: an agent serves a user under a policy; what must hold is the final database and what was said.

In the form of tau2-bench: the score is the product of the checks that a task's ``reward_basis`` names.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.config.config import Config
from intraskill.editor.domain import Answer, Job, Query, Workbench
from intraskill.editor.domains.dialogues_files import Database, DialogueTask, load_tools, read_tasks
from intraskill.editor.domains.dialogues_talk import GREETING, LlmUser, ScriptedUser, Talk, User
from intraskill.editor.domains.task_streams import SPLIT, Attempts, TaskDomain, first_skill
from intraskill.editor.judges import Criterion, RubricJudge
from intraskill.editor.setup import evidence_limits
from intraskill.editor.workers import EndpointWorker, endpoint_hash
from intraskill.editor.workers_options import client_of, existing, instruction, read_options
from intraskill.llm.client import JsonClient
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.method.randomness import content_hash
from intraskill.store.artifacts import ATTEMPTS
from intraskill.store.run_directory import file_hash
from intraskill.store.user_files import read_user_text

WHERE = "editor.options"
KNOWN: dict[str, Any] = SPLIT | {
    "path": "",
    "database": "",
    "policy": "",
    "tools": "",
    "skill": "",
    "trajectories": "",
    "per_stream": 16,
    "max_turns": 30,
    "language": "en",
    "worker": None,
    "user": None,
    "judge": None,
}


@dataclass(frozen=True)
class DialogueVerifier:
    """Checks how a conversation ended; an `intraskill.editor.domain.Verifier`.

    Attributes:
        judge: judges assertions in words; ``None`` where no task has any that counts.
    """

    judge: RubricJudge | None = None

    @property
    def version(self) -> str:
        """Hash of the rule and of the judge."""
        return content_hash("dialogue-1", self.judge.version if self.judge else "")

    def score(self, query: Query, answer: Answer) -> float:
        """Return 1 when the conversation ended and every check of the task holds, else 0.

        Raises:
            BadAnswerError: when the judge gives no valid judgement.
            EndpointError: when there is no answer.
            BudgetError: when a limit is reached.
        """
        task: DialogueTask = query.facts["task"]
        if _unmet(task, answer.facts):
            return 0.0
        if "NL_ASSERTION" not in task.checks or not task.assertions:
            return 1.0
        assert self.judge is not None
        rubric = [Criterion(text) for text in task.assertions]
        return float(all(one.met for one in self.judge.judge(task.request, answer.text, rubric)))


def _unmet(task: DialogueTask, facts: Mapping[str, Any]) -> list[str]:
    """Return in words which checks fail, those of a judge left out."""
    said = " ".join(text for who, text in facts["said"] if who == "agent").lower().replace(",", "")
    called = facts["calls"]
    failed = {
        "DB": _form(facts["database"]) != _form(task.goal),
        "COMMUNICATE": any(info.lower().replace(",", "") not in said for info in task.told),
        "ACTION": any(not any(use.matches(*call) for call in called) for use in task.actions),
    }
    words = {
        "DB": "the database is not as it should be",
        "COMMUNICATE": "something that the user needs was not said",
        "ACTION": "an action that was needed was not taken",
    }
    found = [] if facts["ended"] else ["the conversation reached its limit of turns"]
    return found + [words[check] for check in task.checks if failed.get(check)]


@dataclass(frozen=True)
class Debriefed:
    """A conversation and, as its last step, what the checks say of it."""

    talk: Talk

    def __call__(self, client: JsonClient, job: Job) -> Answer:
        """Hold the conversation of one job."""
        answer = self.talk(client, job)
        words = "; ".join(_unmet(job.query.facts["task"], answer.facts)) or "executed"
        last = {"page": "end", "action": "the conversation is over", "feedback": words}
        return Answer(answer.text, {**answer.facts, "turns": [*answer.facts["turns"], last]})


def dialogues(config: Config, root: Path) -> Workbench:
    """Return dialogue tasks, an LLM that serves and a check of the end; see docs/skill_alpha.md for the options.

    Raises:
        ConfigError: for an option that is none, an endpoint that is missing, or tools that cannot be imported.
        ArtifactError: for a file that is missing or tasks that cannot be used.
    """
    options = read_options(config.editor.options, KNOWN, WHERE)
    if options["max_turns"] < 1 or options["per_stream"] < 0:
        raise ConfigError(f"{WHERE}: max_turns must be at least 1, per_stream at least 0")
    path, policy, data = (existing(Path(), options[name], f"{WHERE}.{name}") for name in ("path", "policy", "database"))
    toolkit = load_tools(options["tools"])
    tasks = read_tasks(path, _database(data), toolkit)
    user, user_hash = _user(options, root, tasks)
    talk = Talk(toolkit, read_user_text(policy), user, options["max_turns"], options["language"])
    language = options["language"]
    told = (
        *("dialogues", toolkit.version, file_hash(policy), file_hash(data), options["max_turns"], user_hash),
        instruction("editor_dialogues", language, policy="", tools=""),
        GREETING[language],
    )
    client = client_of(options["worker"], root / "llm_worker", f"{WHERE}.worker")
    worker = EndpointWorker(client, Debriefed(talk), told)
    verifier = DialogueVerifier(_judge(options, root, tasks))
    recorded, skill = (
        existing(Path(), options[name], f"{WHERE}.{name}") if options[name] else None
        for name in ("trajectories", "skill")
    )
    domain = TaskDomain(
        "dialogues",
        {task.id: Query(task.id, task.request, {"task": task}) for task in tasks},
        content_hash(file_hash(path), file_hash(data), file_hash(policy), toolkit.version),
        Attempts(recorded, ATTEMPTS.path(root), worker, verifier, options["seed"]),
        evidence_limits(config),
        first_skill(skill),
        {task.id: task.request for task in tasks},
        options["per_stream"],
        {name: options[name] for name in SPLIT},
    )
    others = (one.client for one in (user, verifier.judge) if isinstance(one, LlmUser | RubricJudge))
    return Workbench(domain, worker, verifier, (client, *others))


def _user(options: Mapping[str, Any], root: Path, tasks: tuple[DialogueTask, ...]) -> tuple[User, str]:
    language = options["language"]
    if options["user"] is not None:
        client = client_of(options["user"], root / "llm_user", f"{WHERE}.user")
        return LlmUser(client, language), endpoint_hash(client, instruction("editor_user", language, situation=""))
    if silent := [task.id for task in tasks if not task.script]:
        raise ConfigError(
            f"tasks without user_scenario.script, {offenders(silent)}; write one, or set {WHERE}.user to the endpoint "
            "of an LLM that plays the user"
        )
    return ScriptedUser(), "scripted"


def _judge(options: Mapping[str, Any], root: Path, tasks: tuple[DialogueTask, ...]) -> RubricJudge | None:
    judged = [task.id for task in tasks if "NL_ASSERTION" in task.checks and task.assertions]
    if options["judge"] is None and judged:
        raise ConfigError(f"tasks with NL_ASSERTION need {WHERE}.judge, {offenders(judged)}; name an endpoint")
    if options["judge"] is None:
        return None
    client = client_of(options["judge"], root / "llm_judge", f"{WHERE}.judge")
    return RubricJudge(client, "all", options["language"])


def _database(path: Path) -> Database:
    try:
        value = json.loads(read_user_text(path))
    except ValueError as error:
        raise ArtifactError(f"{path} is no JSON ({error}); correct it") from error
    if not isinstance(value, dict):
        raise ArtifactError(f"{path} must hold one JSON object, got {type(value).__name__}")
    return value


def _form(database: Database) -> str:
    return json.dumps(database, sort_keys=True, default=repr)
