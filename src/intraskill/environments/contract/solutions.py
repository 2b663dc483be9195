"""Actions that solve a task, from an environment's ``solution`` or from a person's file, as the check plays them.

A line of such a file: ``{"task_id": "t1", "actions": ["<tool_call>…</tool_call>", …], "reward": 0.5}``. An action is a
text, as a policy writes it, or a call, ``{"name": …, "arguments": {…}}``. Without ``reward``, full success is due.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from intraskill.environments.protocol import Environment, boundary, solution_of
from intraskill.environments.tool_calls import write_arguments
from intraskill.method.errors import ArtifactError, ConfigError, offenders
from intraskill.method.rewards import finite
from intraskill.method.tasks import SPLITS
from intraskill.store.json_rows import each_row, object_of

_KEYS = {"task_id", "actions", "reward"}


@dataclass(frozen=True, slots=True)
class Solution:
    """What to play of one task, and what it must pay.

    Attributes:
        task_id: its task.
        actions: the texts to send.
        reward: what the end pays; ``None`` for full success.
        source: where it stands, for messages.
    """

    task_id: str
    actions: tuple[str, ...]
    reward: float | None
    source: str


def stated_solutions(environment: Environment, task_ids: Iterable[str]) -> Iterator[Solution]:
    """Yield what the environment's own ``solution`` says of some tasks; nothing for those of which it knows none.

    Raises:
        ValueError: for an answer that is no list of actions.
    """
    for task_id in task_ids:
        actions = solution_of(environment, task_id)
        if actions is not None:
            yield Solution(task_id, _texts(actions), None, f"solution({task_id!r})")


def read_solutions(path: Path, environment: Environment) -> tuple[Solution, ...]:
    """Read a file of actions.

    Raises:
        ArtifactError: when it cannot be read, holds none, or naming the lines that are none; a test task is none.
        ConfigError: when the environment does not tell its tasks.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ArtifactError(f"{path} cannot be read ({error}); give JSON lines of task_id and actions") from error
    with boundary("its tasks") as crossing:
        splits = {task.id: split for split in SPLITS for task in environment.tasks(split)}
    if crossing.fault is not None:
        raise ConfigError(f"nothing of {path} can be played, {crossing.fault}; check the environment without it first")
    solutions, wrong = each_row(text, lambda name, row: _solution(object_of(row), f"{name} of {path.name}", splits))
    if wrong:
        raise ArtifactError(f"{path} holds lines that cannot be played, {offenders(wrong)}; mend or remove them")
    if not solutions:
        raise ArtifactError(f'{path} holds no line; give JSON lines such as {{"task_id": "t1", "actions": ["…"]}}')
    return tuple(solutions)


def _solution(row: Mapping[str, Any], source: str, splits: Mapping[str, str]) -> Solution:
    if strangers := sorted(set(row) - _KEYS):
        raise ValueError(f"there is no key {', '.join(strangers)}; there are {', '.join(sorted(_KEYS))}")
    task_id = row.get("task_id")
    if not isinstance(task_id, str) or task_id not in splits:
        raise ValueError(f"there is no task {task_id!r}; ids look like {next(iter(splits), '')!r}")
    if splits[task_id] == "test":
        raise ValueError(f"{task_id} is a test task, which only the final report plays")
    reward = row.get("reward")
    try:
        paid = None if reward is None else finite("reward", reward)
    except TypeError as error:
        raise ValueError(error) from error
    return Solution(task_id, _texts(row.get("actions")), paid, source)


def _texts(actions: object) -> tuple[str, ...]:
    """Return actions as texts.

    Raises:
        ValueError: for what is no list of texts and calls, or an empty one.
    """
    if isinstance(actions, str) or not isinstance(actions, Sequence) or not actions:
        raise ValueError(f"actions is {actions!r:.60}, not a list of one action or more")
    return tuple(map(_text, actions))


def _text(action: object) -> str:
    if isinstance(action, str):
        return action
    if (
        isinstance(action, Mapping)
        and isinstance(action.get("name"), str)
        and len(action) == len(("name", "arguments"))
    ):
        arguments = action.get("arguments")
        if isinstance(arguments, Mapping):
            return write_arguments(action["name"], arguments)
    raise ValueError(f'an action is {action!r:.60}, neither a text nor {{"name": …, "arguments": {{…}}}}')
