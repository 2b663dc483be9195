"""The editor's environment: one edit state, one answer, over. So an editor is trained by the same code as any agent.

The reward of an answer depends on its group and on the worker, so it is not known here: every episode ends with 0 and
`training` puts the rollback reward in its place.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from intraskill.editor.actions import ACTIONS, ActionName, Attempt, attempt
from intraskill.editor.prompt import TERSE_SYSTEM, system_prompt
from intraskill.editor.states import EditState
from intraskill.environments.protocol import Opening, Outcome, ToolSpec
from intraskill.method.errors import SplitError
from intraskill.method.leakage.filter import LeakFilter
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import Split, Task

FAMILY = "skill_editing"


class EditorEnvironment:
    """Edit states as tasks; an `intraskill.environments.protocol.Environment`.

    Args:
        leak_filter: what no chunk may hold.
        actions: the actions that are allowed.
        terse: give no instructions, for an editor that was trained on the bare format.

    Attributes:
        family: name of the task family.
        reward_parts: names of the reward components.
        actions: the actions that are allowed.
    """

    family = FAMILY
    reward_parts = ("r_strict",)

    def __init__(
        self, leak_filter: LeakFilter, actions: Sequence[ActionName] = ACTIONS, *, terse: bool = False
    ) -> None:
        self._leak_filter, self.actions = leak_filter, tuple(actions)
        self.system = TERSE_SYSTEM if terse else system_prompt(actions)
        self._states: dict[str, EditState] = {}

    @property
    def version(self) -> str:
        """Hash of the prompt's form; states carry their own text."""
        return content_hash("editor-1", self.system, self.actions)

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """None: an answer is text."""
        return ()

    def place(self, states: Iterable[EditState]) -> tuple[Task, ...]:
        """Make ``states`` the tasks that can be opened now, and return them as tasks."""
        self._states = {state.id: state for state in states}
        return self.tasks("train")

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the states placed last, all of them ``train``."""
        ids = self._states if split == "train" else ()
        return tuple(Task(state_id, self.family, "train") for state_id in ids)

    @property
    def placed(self) -> tuple[EditState, ...]:
        """The states placed last: what another process needs to open the same tasks."""
        return tuple(self._states.values())

    def state(self, state_id: str) -> EditState:
        """Return a placed state.

        Raises:
            SplitError: for an id that is not placed.
        """
        if state_id not in self._states:
            raise SplitError(f"no edit state {state_id!r} is placed; place it first")
        return self._states[state_id]

    def attempt(self, state: EditState, answer: str) -> Attempt:
        """Return what an answer makes of a state."""
        return attempt(answer, state.skill, self._leak_filter, drafts=state.drafts, actions=self.actions)

    def open(self) -> "EditorSession":
        """Return a new single-use session."""
        return EditorSession(self)


class EditorSession:
    """One edit decision."""

    def __init__(self, environment: EditorEnvironment) -> None:
        self._environment = environment
        self._state: EditState | None = None

    def reset(self, task_id: str) -> Opening:
        """Show a state."""
        self._state = state = self._environment.state(task_id)
        return Opening(state.prompt, None, "", {"page_type": "edit"})

    def step(self, action: str) -> Outcome:
        """Parse and apply the answer; the feedback code is ``executed`` or the reason why it is invalid."""
        assert self._state is not None
        made = self._environment.attempt(self._state, action)
        name = made.action.name if made.action else ""
        targets = " ".join(map(str, made.action.targets)) if made.action else ""
        return _over(made.invalid or "executed", name, targets, "edit")

    def terminate(self, reason: str) -> Outcome:
        """End without an answer: too long."""
        return _over("executed", "", "", reason)


def _over(feedback: str, tool: str, argument: str, termination: str) -> Outcome:
    parts: dict[str, Any] = {"r_strict": 0.0}
    return Outcome("", {"page_type": "over"}, feedback, tool, argument, True, 0.0, parts, termination)
