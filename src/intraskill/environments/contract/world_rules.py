"""Rules that concern an environment as a whole: members, splits, version, tools."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from intraskill.environments.contract.play import session_of
from intraskill.environments.contract.rule import Broken, Complaints, ContractProbe, Rule, Skipped
from intraskill.environments.protocol import OPTIONAL, boundary, offered
from intraskill.method.errors import ConfigError, SplitError
from intraskill.method.rewards import MAIN_PART
from intraskill.method.tasks import SPLITS, Split, Task

_JSON_TYPES = {"string", "integer", "number", "boolean", "array", "object", "null"}
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _members(probe: ContractProbe) -> Complaints:
    environment = probe.environment
    missing = [
        n for n in ("family", "version", "tools", "reward_parts", "tasks", "open") if not hasattr(environment, n)
    ]
    yield from (Broken(name, "is missing") for name in missing)
    if missing:
        return
    for name in ("family", "version"):
        if not (isinstance(getattr(environment, name), str) and getattr(environment, name)):
            yield Broken(name, f"is {getattr(environment, name)!r}, not a text")
    parts = environment.reward_parts
    if isinstance(parts, str) or not isinstance(parts, Sequence) or MAIN_PART not in parts:
        yield Broken("reward_parts", f"is {parts!r}; it is a sequence of names, and {MAIN_PART} is one of them")
    elif len(set(parts)) < len(parts):
        yield Broken("reward_parts", f"repeats a name: {list(parts)}")
    for name in OPTIONAL:
        try:
            offered(environment, name)
        except ConfigError as error:
            yield Broken(name, str(error))
    with session_of(environment) as session:
        lost = [name for name in ("reset", "step", "terminate") if not callable(getattr(session, name, None))]
    yield from (Broken(f"open().{name}", "is missing") for name in lost)


def _splits(probe: ContractProbe) -> Complaints:
    environment, owner = probe.environment, dict[str, str]()
    for split in SPLITS:
        tasks = environment.tasks(split)
        if not isinstance(tasks, tuple) or not all(isinstance(task, Task) for task in tasks):
            yield Broken(f"tasks({split!r})", f"is {type(tasks).__name__}, not a tuple of Task")
            continue
        if tasks != environment.tasks(split):
            yield Broken(f"tasks({split!r})", "differs between two calls")
        for task in tasks:
            yield from _task(task, split, environment.family)
            if task.id in owner:
                yield Broken(f"task {task.id}", f"stands in {owner[task.id]} and again in {split}")
            owner[task.id] = split
    if not owner:
        yield Broken("tasks", "no split holds a task")
    answer = raises((SplitError,), environment.tasks, "no such split")
    if answer:
        yield Broken("tasks('no such split')", f"{answer} instead of raising SplitError")


def _task(task: Task, split: Split, family: str) -> Iterator[Broken]:
    if not isinstance(task.id, str) or not task.id:
        yield Broken(f"task {task.id!r}", "its id is not a text")
    if task.split != split or task.family != family:
        yield Broken(f"task {task.id}", f"says split {task.split}, family {task.family}; stands in {split}, {family}")
    if not all(isinstance(text, str) for pair in task.features.items() for text in pair):
        yield Broken(f"task {task.id}", f"features {dict(task.features)!r} are not texts")


def _version(probe: ContractProbe) -> Complaints:
    first = probe.environment.version
    if probe.environment.version != first:
        yield Broken("version", "differs between two reads")
    if probe.again is None:
        yield Skipped("nothing was given that builds the environment again")
        return
    other = probe.again()
    if other.version != first:
        yield Broken("version", f"is {first}, and {other.version} when built again with the same arguments")
    changed = [split for split in SPLITS if other.tasks(split) != probe.environment.tasks(split)]
    yield from (Broken(f"tasks({split!r})", "differs when built again with the same arguments") for split in changed)


def _tools(probe: ContractProbe) -> Complaints:
    tools = list(probe.environment.tools)
    for index, tool in enumerate(tools):
        yield from _tool(index, tool)
    names = [_name(tool) for tool in tools]
    if len(set(names)) < len(names):
        yield Broken("tools", f"repeat a name: {names}")
    if not tools:
        yield Skipped("it offers no tools, so no model can act in it")


def _name(tool: Any) -> str:
    return str(tool["function"]["name"]) if isinstance(tool, Mapping) and "function" in tool else ""


def _tool(index: int, tool: Any) -> Iterator[Broken]:
    where = f"tools[{index}]"
    with boundary("not JSON") as crossing:
        json.dumps(tool, allow_nan=False)
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if crossing.fault or not isinstance(function, Mapping) or tool.get("type") != "function":
        yield Broken(where, crossing.fault or 'is not {"type": "function", "function": {…}}')
        return
    if not _NAME.fullmatch(str(function.get("name", ""))):
        yield Broken(where, f"its name {function.get('name')!r} is not 1 to 64 letters, digits, _ or -")
    if not (isinstance(function.get("description"), str) and function["description"]):
        yield Broken(where, "has no description")
    parameters = function.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
    if not isinstance(parameters, Mapping) or parameters.get("type") != "object" or not isinstance(properties, Mapping):
        yield Broken(where, 'its parameters are not {"type": "object", "properties": {…}}')
        return
    for name, schema in properties.items():
        if not isinstance(schema, Mapping) or ("enum" not in schema and schema.get("type") not in _JSON_TYPES):
            yield Broken(f"{where}.{name}", f"{schema!r} has neither a JSON type nor an enum")
    required = parameters.get("required", [])
    if not isinstance(required, list) or set(required) - set(properties):
        yield Broken(where, f"required={required!r} names what properties do not hold")


def raises(kinds: tuple[type[Exception], ...], act: Callable[..., object], *arguments: object) -> str:
    """Return what happened instead of one of the errors; empty when one was raised."""
    with boundary("raised") as crossing:
        try:
            act(*arguments)
        except kinds:
            return ""
    return crossing.fault or "it answered"


RULES = (
    Rule(
        "members",
        "it has every member of the protocol, with its type",
        "add the member; docs/environments.md lists all of them",
        _members,
    ),
    Rule(
        "splits",
        "a task stands in one split, with text features; an unknown split is a SplitError",
        "give every task its own id and one split, and return a tuple in a fixed order",
        _splits,
        ("members",),
    ),
    Rule(
        "version",
        "the version is a hash of what it would pay and show, the same whenever it is built alike",
        "hash the data and the arguments; leave out clocks, addresses and random numbers",
        _version,
        ("members", "splits"),
    ),
    Rule(
        "tools",
        "tools are JSON schemas in the form of OpenAI functions",
        'write {"type": "function", "function": {"name", "description", "parameters": {"type": "object", …}}}',
        _tools,
        ("members",),
    ),
)
