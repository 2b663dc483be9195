"""A live trial: a fresh session of the same task, played decision by decision; the environment alone pays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from intraskill.environments.boundary import boundary
from intraskill.environments.protocol import Environment, Outcome, Session
from intraskill.environments.tool_calls import write_call
from intraskill.runtime.analysis_records import TriedAction


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
            self.outcome = self._session.step(action)
            self.page = self.outcome.observation
            self.tried.append(TriedAction(action, self.outcome.feedback))
        self.fault = crossing.fault

    def close(self) -> None:
        """End an episode that is still open, so that a served environment gets its place back."""
        if self._session is not None and self.fault is None and not (self.outcome is not None and self.outcome.done):
            with boundary("environment"):
                self._session.terminate("action_limit")


def full_success(parts: Mapping[str, float], reward: float | None) -> bool:
    """Whether an episode reached full success: ``r_success`` where the environment has it, else reward ≥ 1."""
    return parts.get("r_success", reward or 0.0) >= 1.0


def example_actions(tools: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one action text per tool, as an agent writes them."""
    examples = []
    for tool in tools:
        function = tool["function"]
        parameter = next(iter(function["parameters"]["properties"]), "value")
        examples.append(write_call(function["name"], parameter, "…"))
    return tuple(examples)
