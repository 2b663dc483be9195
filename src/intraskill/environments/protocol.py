"""What the loop needs from any environment, tasks by split and single-use sessions, and what one may offer besides.

State is a pure function of (catalogue, task, actions): no random generator lives in an environment. A technical
failure raises `EnvironmentFault`; it is never reward 0.

An environment may also have the members of `OPTIONAL`. They are read by the functions at the end of this module and
nowhere else; each says what holds without its member.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from intraskill.config.config import Config
from intraskill.method.errors import ConfigError
from intraskill.method.rewards import UNIT, Payment, finite, finite_parts, is_range
from intraskill.method.tasks import SPLITS, Split, Task

if TYPE_CHECKING:  # the command line reads this module before it knows what is asked
    from intraskill.environments.evidence import Reader
    from intraskill.method.leakage.filter import Secrets
    from intraskill.method.rollouts import Rollout
    from intraskill.method.skill.proposals import Proposal
    from intraskill.method.skill.skill import Skill


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
        termination: why it is over: ``action_limit``, ``generation_length``, or a word of the environment's own, such
            as ``purchase``; ``""`` while running.
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


def sound_opening(opening: Opening) -> Opening:
    """Return an opening of foreign code with texts that can be encoded.

    Raises:
        TypeError: for what is no opening, or holds something else than texts and a state.
    """
    if not isinstance(opening, Opening):
        raise TypeError(f"reset returned a {type(opening).__name__}, not an Opening")
    _require_mapping("state", opening.state)
    names = ("instruction", "observation") if opening.persona is None else ("instruction", "observation", "persona")
    texts: dict[str, Any] = {name: _text(name, getattr(opening, name)) for name in names}
    return replace(opening, **texts)


def sound_outcome(outcome: Outcome, payment: Payment) -> Outcome:
    """Return an outcome of foreign code with a text that can be encoded, and numbers that its environment may pay.

    Whatever else it holds is a fault of its episode: a reward of NaN or one outside the declared range would otherwise
    be learned from, and a reward that is missing would count as 0.

    Raises:
        TypeError: for what is no outcome, a state or parts that are no mapping, an observation or another text that is
            none, or a reward or part that is no number.
        ValueError: for one that is not finite, and for an end that pays what `Payment.sound` refuses.
    """
    if not isinstance(outcome, Outcome):
        raise TypeError(f"step returned a {type(outcome).__name__}, not an Outcome")
    _require_mapping("state", outcome.state)
    _require_mapping("parts", outcome.parts)
    texts: dict[str, Any] = {name: _text(name, getattr(outcome, name)) for name in _TEXTS}
    if outcome.done:
        reward, parts = payment.sound(outcome.reward, outcome.parts)
    else:
        reward, parts = finite("reward", outcome.reward), finite_parts(outcome.parts)
    return replace(outcome, **texts, reward=reward, parts=parts)


_TEXTS = ("observation", "feedback", "tool", "argument", "termination")


def _require_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a {type(value).__name__}, not a mapping")


def _text(name: str, value: object) -> str:
    """Return a text; half of a surrogate pair, which no tokenizer takes, becomes a question mark."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}, not a text")
    return value.encode("utf-8", "replace").decode("utf-8")


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
        """End the episode before its own end: zero on every component."""


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


_TEXT = ("a text", lambda value: isinstance(value, str))
_METHOD = ("a method", callable)
OPTIONAL: Mapping[str, tuple[str, Callable[[Any], bool]]] = {
    "language": _TEXT,
    "system": _TEXT,
    "slots": ("a number of 1 or more", lambda value: type(value) is int and value >= 1),
    "reward_range": ("two finite numbers, lowest and highest reward, with 0 among what they span", is_range),
    "solvable": _METHOD,
    "solution": _METHOD,
    "secrets": (
        "intraskill.method.leakage.filter.Secrets, or a method that returns them",
        lambda value: _is_secrets(value),
    ),
    "propose": _METHOD,
    "reader": (
        "an intraskill.environments.evidence.Reader",
        lambda value: all(hasattr(value, name) for name in ("read", "lessons", "mechanism_of")),
    ),
    "learner": _METHOD,
}
"""Every optional member: what it must be, in words and as a test of its value."""
DEFAULT_SYSTEM = "You are an agent that solves a task with tools."


def offered(environment: Environment, name: str) -> Any:
    """Return an optional member, ``secrets`` always as a value; ``None`` where the environment has none.

    Raises:
        ConfigError: when it is of another type.
    """
    wanted, fits = OPTIONAL[name]
    value = getattr(environment, name, None)
    if name == "secrets" and callable(value):
        value = value()
    if value is not None and not fits(value):
        raise ConfigError(
            f"{type(environment).__name__}.{name} must be {wanted}, got {type(value).__name__}; "
            f"without {name} of its own, leave it out"
        )
    return value


def language_of(environment: Environment) -> str:
    """Return the language of an environment's pages, such as ``en``; empty for one that does not say it."""
    return offered(environment, "language") or ""


def system_of(environment: Environment) -> str:
    """Return the first sentence of the system message; a general one for an environment without ``system``."""
    return offered(environment, "system") or DEFAULT_SYSTEM


def slots_of(environment: Environment) -> int | None:
    """Return how many episodes can be open at once; ``None``, which is any number, without ``slots``."""
    slots: int | None = offered(environment, "slots")
    return slots


def is_solvable(environment: Environment, task_id: str) -> bool | None:
    """Return an oracle's word on a task: an unsolvable one is no skill deficit. ``None`` without ``solvable``."""
    solvable: Callable[[str], bool | None] | None = offered(environment, "solvable")
    return None if solvable is None else solvable(task_id)


def payment_of(environment: Environment) -> Payment:
    """Return what an environment says its episodes pay; from 0 to 1 for one without ``reward_range``.

    Raises:
        ConfigError: for a range that is none.
    """
    low, high = offered(environment, "reward_range") or UNIT
    return Payment(tuple(environment.reward_parts), (float(low), float(high)))


def solution_of(environment: Environment, task_id: str) -> Sequence[Any] | None:
    """Return actions that earn the most that a task pays; ``None`` without ``solution``, or where it knows none."""
    solution: Callable[[str], Sequence[Any] | None] | None = offered(environment, "solution")
    return None if solution is None else solution(task_id)


def _is_secrets(value: object) -> bool:
    from intraskill.method.leakage.filter import Secrets

    return isinstance(value, Secrets)


def secrets_of(environment: Environment) -> "Secrets":
    """Return what no chunk may hold: the ids of all tasks, and what the environment states as ``secrets``."""
    from intraskill.method.leakage.filter import Secrets

    task_ids = tuple(task.id for split in SPLITS for task in environment.tasks(split))
    return Secrets(task_ids=task_ids) + (offered(environment, "secrets") or Secrets())


def own_propose(environment: Environment) -> "Callable[[Sequence[Rollout], Skill], tuple[Proposal, ...]] | None":
    """Return what proposes edits from rollouts and the current skill, or ``None`` without ``propose``."""
    propose: Callable[[Sequence[Rollout], Skill], tuple[Proposal, ...]] | None = offered(environment, "propose")
    return propose


def reader_of(environment: Environment) -> "Reader | None":
    """Return what reads episodes for the rules proposer, or ``None``, with which it reads none, without ``reader``."""
    reader: Reader | None = offered(environment, "reader")
    return reader


def own_learner(environment: Environment) -> Callable[[Config], Any] | None:
    """Return what builds the environment's own `intraskill.rl.learner.Learner`, or ``None`` without ``learner``."""
    learner: Callable[[Config], Any] | None = offered(environment, "learner")
    return learner
