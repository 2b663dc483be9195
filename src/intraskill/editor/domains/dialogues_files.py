"""Dialogue tasks in the form of tau2-bench: a user's situation, a first state, and what must hold in the end."""

import copy
import importlib
import importlib.util
import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from intraskill.editor.workers_options import read_rows
from intraskill.environments.protocol import boundary
from intraskill.method.errors import ConfigError, EnvironmentFault
from intraskill.method.randomness import content_hash

Database = dict[str, Any]
Factory = Callable[[Database], Mapping[str, Callable[..., Any]]]


@dataclass(frozen=True, slots=True)
class Called:
    """What a tool gave back.

    Attributes:
        refused: whether the tool, or its signature, refused the call.
        text: what the agent reads.
    """

    refused: bool
    text: str


@dataclass(frozen=True)
class Toolkit:
    """Makes the tools of one database.

    Attributes:
        factory: called with a database, which its tools read and change; returns name → function.
        version: hash of the source.
    """

    factory: Factory
    version: str

    def describe(self, database: Database) -> str:
        """Return one paragraph per tool."""
        tools = self.factory(copy.deepcopy(database))
        return "\n\n".join(
            f"{name}{inspect.signature(tool)}\n{inspect.getdoc(tool) or ''}".strip() for name, tool in tools.items()
        )

    def opened(self, database: Database) -> "OpenTools":
        """Return the tools of a database, which they change."""
        return OpenTools(database, dict(self.factory(database)))


@dataclass(frozen=True)
class OpenTools:
    """Tools with the database that they change."""

    database: Database
    tools: Mapping[str, Callable[..., Any]]

    def call(self, name: str, arguments: Mapping[str, Any]) -> Called:
        """Call one tool.

        Raises:
            EnvironmentFault: when the tool breaks.
        """
        if name not in self.tools:
            return Called(True, f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        tool = self.tools[name]
        try:
            inspect.signature(tool).bind(**arguments)
        except TypeError as error:
            return Called(True, f"{name}: {error}")
        refusal = ""
        with boundary(f"tool {name}") as crossing:
            try:
                value = tool(**arguments)
                return Called(False, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
            except ValueError as error:
                refusal = str(error) or "refused"
        if crossing.fault is not None:
            raise EnvironmentFault(crossing.fault)
        return Called(True, refusal)


def load_tools(name: str) -> Toolkit:
    """Return the toolkit that ``package.module:factory`` or ``path/to/file.py:factory`` names; the code is run.

    Raises:
        ConfigError: when it cannot be imported, whatever its import raises.
    """
    where = f"editor.options.tools={name}"
    module_name, _, factory = name.rpartition(":")
    if not module_name or not factory.isidentifier():
        raise ConfigError(f"{where} is no factory; give 'package.module:factory' or 'path/to/file.py:factory'")
    with boundary(f"{where} cannot be imported") as crossing:
        module = _of_file(Path(module_name)) if module_name.endswith(".py") else importlib.import_module(module_name)
        found = getattr(module, factory)
        source = inspect.getsource(module)
    if crossing.fault is not None:
        raise ConfigError(crossing.fault)
    if not callable(found):
        raise ConfigError(f"{where} names a {type(found).__name__}; name a function that is called with the database")
    return Toolkit(found, content_hash(source, factory))


def _of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tools_{content_hash(str(path.resolve()))}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CHECKS = ("DB", "COMMUNICATE", "ACTION", "NL_ASSERTION")
_DEFAULT = ("DB", "COMMUNICATE")


@dataclass(frozen=True, slots=True)
class ToolUse:
    """One call that a task expects; ``compared`` names the arguments that count, ``None`` = all."""

    name: str
    arguments: Mapping[str, Any]
    compared: tuple[str, ...] | None = None

    def matches(self, name: str, arguments: Mapping[str, Any]) -> bool:
        """Return whether a call is this one."""
        names = self.arguments if self.compared is None else self.compared
        return name == self.name and all(arguments.get(key) == self.arguments.get(key) for key in names)


@dataclass(frozen=True, slots=True)
class DialogueTask:
    """One task.

    Attributes:
        id: unique in its file.
        situation: what the user knows and wants.
        script: what a scripted user says, in order; empty without one.
        start: the database before the first word.
        goal: the database after the expected calls.
        actions: the expected calls.
        told: what the agent must say at some point.
        assertions: what a judge must find true of the conversation.
        checks: which of `CHECKS` count; the score is their product.
    """

    id: str
    situation: str
    script: tuple[str, ...]
    start: Database
    goal: Database
    actions: tuple[ToolUse, ...]
    told: tuple[str, ...]
    assertions: tuple[str, ...]
    checks: tuple[str, ...]

    @property
    def request(self) -> str:
        """What the task is about, in one text."""
        return self.script[0] if self.script else self.situation


def read_tasks(path: Path, database: Database, toolkit: Toolkit) -> tuple[DialogueTask, ...]:
    """Read every task of a file; expected calls are made once, so that a wrong one is found here.

    Raises:
        ArtifactError: naming the tasks that cannot be used.
    """
    return tuple(read_rows(path, lambda row: _task(row, database, toolkit), lambda task: task.id).values())


def _task(row: Mapping[str, Any], database: Database, toolkit: Toolkit) -> DialogueTask:
    own = str(row.get("id") or "")
    if not own:
        raise ValueError("id is missing")
    scenario, criteria = _part(row, "user_scenario"), _part(row, "evaluation_criteria")
    if not scenario or not criteria:
        raise ValueError("user_scenario and evaluation_criteria are needed")
    checks = tuple(criteria.get("reward_basis") or _DEFAULT)
    if unknown := [name for name in checks if name not in CHECKS]:
        raise ValueError(f"reward_basis has {unknown[0]!r}, which is not offered; there are {', '.join(CHECKS)}")
    if criteria.get("env_assertions"):
        raise ValueError("env_assertions are not offered")
    actions = tuple(_use(one) for one in criteria.get("actions") or ())
    start = _start(_part(row, "initial_state"), database, toolkit)
    return DialogueTask(
        id=own,
        situation=_situation(scenario),
        script=tuple(map(str, scenario.get("script") or ())),
        start=start,
        goal=_replayed(start, actions, toolkit),
        actions=actions,
        told=tuple(map(str, criteria.get("communicate_info") or ())),
        assertions=tuple(map(str, criteria.get("nl_assertions") or ())),
        checks=checks,
    )


def _start(state: Mapping[str, Any], database: Database, toolkit: Toolkit) -> Database:
    if state.get("message_history"):
        raise ValueError("initial_state.message_history is not offered")
    start = copy.deepcopy(database)
    data = _part(state, "initialization_data")
    if data.get("user_data"):
        raise ValueError("initialization_data.user_data is not offered: users have no tools")
    _merge(start, _part(data, "agent_data"))
    first = [
        {"name": one["func_name"], "requestor": one.get("env_type", "assistant"), "arguments": one.get("arguments")}
        for one in state.get("initialization_actions") or ()
    ]
    return _replayed(start, tuple(map(_use, first)), toolkit)


def _replayed(start: Database, actions: tuple[ToolUse, ...], toolkit: Toolkit) -> Database:
    tools = toolkit.opened(copy.deepcopy(start))
    for one in actions:
        made = tools.call(one.name, one.arguments)
        if made.refused:
            raise ValueError(f"the expected call of {one.name} is refused: {made.text}")
    return tools.database


def _use(row: Any) -> ToolUse:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        raise ValueError("an action needs a name and arguments")
    if row.get("requestor", "assistant") != "assistant":
        raise ValueError(f"the action {row['name']!r} is the user's; users have no tools here")
    compared = row.get("compare_args")
    return ToolUse(row["name"], dict(row.get("arguments") or {}), None if compared is None else tuple(compared))


def _situation(scenario: Mapping[str, Any]) -> str:
    given = scenario.get("instructions") or ""
    if isinstance(given, Mapping):
        given = "\n".join(f"{name.replace('_', ' ')}: {text}" for name, text in given.items() if text)
    text = "\n".join(str(part) for part in (scenario.get("persona"), given) if part).strip()
    if not text and not scenario.get("script"):
        raise ValueError("user_scenario has no instructions")
    return text


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name) or {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{name} must be an object, got {type(value).__name__}")
    return value


def _merge(into: Database, new: Mapping[str, Any]) -> None:
    for key, value in new.items():
        if isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = copy.deepcopy(value)
