"""What the loop needs from any environment: tasks by split, and single-use sessions.

State is a pure function of (catalogue, task, actions): no random generator lives in an environment. A technical
failure raises `EnvironmentFault`; it is never reward 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from intraskill.method.tasks import Split, Task


@dataclass(slots=True)
class Boundary:
    """What went wrong inside a `boundary`, or ``None``."""

    fault: str | None = None


@contextmanager
def boundary(name: str, *, passing: tuple[type[Exception], ...] = ()) -> Iterator[Boundary]:
    """Turn any exception of foreign code into a recorded fault; the only broad ``except`` of the package.

    Args:
        name: what is called, for the sentence.
        passing: kinds that are no fault of that code and go on as they are.
    """
    crossing = Boundary()
    try:
        yield crossing
    except passing:
        raise
    except Exception as error:  # noqa: BLE001
        crossing.fault = f"{name}: {type(error).__name__}: {error}"


ToolSpec = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Opening:
    """What a session shows first.

    Attributes:
        instruction: the user's request.
        persona: the persona document, or ``None``.
        observation: text of the first page.
        state: the public observation state.
    """

    instruction: str
    persona: str | None
    observation: str
    state: Mapping[str, Any]

    @property
    def request(self) -> str:
        """Instruction and persona as one public text."""
        return self.instruction if self.persona is None else f"{self.instruction}\n{self.persona}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one action led to.

    Attributes:
        observation: text of the page now shown.
        state: the public observation state now.
        feedback: feedback code of the action, such as ``executed`` or ``unavailable_action``.
        tool: parsed tool name, ``""`` when the action was not one valid call.
        argument: parsed argument.
        done: the episode is over.
        reward: main reward when done, else 0.0.
        parts: every reward component when done, else empty.
        termination: ``purchase``, ``action_limit``, ``generation_length``, or ``""`` while running.
    """

    observation: str
    state: Mapping[str, Any]
    feedback: str
    tool: str
    argument: str
    done: bool
    reward: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    termination: str = ""


class Session(Protocol):
    """One episode; used once."""

    def reset(self, task_id: str) -> Opening:
        """Start the episode of one task."""

    def step(self, action: str) -> Outcome:
        """Apply the policy's text: exactly one tool call, or a feedback code that says what was wrong with it.

        Raises:
            RuntimeError: after the episode is over.
            EnvironmentFault: for a technical failure.
        """

    def terminate(self, reason: str) -> Outcome:
        """End the episode without a purchase: zero on every component."""


class Environment(Protocol):
    """One task family; immutable and shared by all its sessions."""

    @property
    def family(self) -> str:
        """Name of the task family."""

    @property
    def version(self) -> str:
        """Hash of everything that could change a reward or a page."""

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """Tool schemas for the chat template."""

    @property
    def reward_parts(self) -> Sequence[str]:
        """Names of the reward components that a finished episode carries."""

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Tasks of one split, in a fixed order."""

    def open(self) -> Session:
        """Return a new single-use session."""
