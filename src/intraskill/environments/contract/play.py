"""Play any environment without a policy: addressed random actions made from its tools and its public state."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from intraskill.environments.protocol import Environment, Opening, Outcome, Session, ToolSpec, boundary
from intraskill.method.randomness import Address, shuffled, uniform

MAX_ACTIONS = 40
_LISTED_SHARE = 0.75
"""How often a value is taken from the actions that a page lists; else it is a word of the request or the page."""
_SHOWN = 120  # characters of a value in a complaint
_PLAIN_TEXTS = ("1", "0.5", "0", "yes")
"""What is said in a world without tools."""


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    """One episode as it was played.

    Attributes:
        task_id: its task.
        opening: what `reset` returned.
        actions: the texts that were sent.
        outcomes: what each led to; one fewer than the actions when the last of them raised.
        fault: what the last action raised, or ``None``.
    """

    task_id: str
    opening: Opening
    actions: tuple[str, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    fault: str | None = None

    @property
    def done(self) -> bool:
        """The episode ended by itself."""
        return bool(self.outcomes) and self.outcomes[-1].done

    @property
    def states(self) -> list[Mapping[str, Any]]:
        """Every public state, the first page's included."""
        return [self.opening.state, *(outcome.state for outcome in self.outcomes)]


@contextmanager
def session_of(environment: Environment) -> Iterator[Session]:
    """Open a session and leave nothing running behind: an unfinished episode is ended."""
    session = environment.open()
    try:
        yield session
    finally:
        with boundary("leaving"):
            session.terminate("action_limit")


@dataclass
class Walk:
    """Random actions of one episode: a listed value that was not tried yet comes first.

    Attributes:
        tools: the environment's tools.
        seed: seed of every draw.
        where: address of the episode.
    """

    tools: Sequence[ToolSpec]
    seed: int
    where: tuple[Address, ...]
    _tried: set[str] = field(default_factory=set)
    _turn: int = 0

    def act(self, shown: str, state: Mapping[str, Any]) -> str:
        """Return the next action, a function of the address and of what was shown."""
        self._turn += 1
        if not self.tools:
            return self._pick((*_PLAIN_TEXTS, *_words(shown)), "plain")
        names = [tool["function"]["name"] for tool in self.tools]
        function = self.tools[names.index(self._pick(names, "tool"))]["function"]
        schema = function["parameters"]["properties"]
        return call(function["name"], {name: self._value(name, schema[name], shown, state) for name in schema})

    def _value(self, name: str, schema: Mapping[str, Any], shown: str, state: Mapping[str, Any]) -> Any:
        if "enum" in schema:
            return self._pick([str(value) for value in schema["enum"]], name)
        kind = schema.get("type", "string")
        if kind in ("integer", "number"):
            return int(10 * self._draw(name))
        if kind == "boolean":
            return self._draw(name) < 0.5
        listed = listed_actions(state)
        if listed and self._draw(name, "listed") < _LISTED_SHARE:
            fresh = [value for value in listed if value not in self._tried] or listed
            value = self._pick(fresh, name)
            self._tried.add(value)
            return value
        return self._pick(_words(shown) or _PLAIN_TEXTS, name)

    def _draw(self, *what: str) -> float:
        return uniform(self.seed, "walk", *self.where, self._turn, *what)

    def _pick(self, items: Sequence[str], *what: str) -> str:
        return items[int(self._draw(*what) * len(items))]


def listed_actions(state: Mapping[str, Any]) -> list[str]:
    """Return the values that a public state lists under ``actions``; empty when it lists none."""
    actions = state.get("actions")
    return [value for value in actions if isinstance(value, str)] if isinstance(actions, list | tuple) else []


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the text of one tool call with any arguments."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': dict(arguments)}, ensure_ascii=False)}\n</tool_call>"


def random_rollout(environment: Environment, task_id: str, seed: int, limit: int = MAX_ACTIONS) -> PlayedEpisode:
    """Play one episode at random."""
    walk = Walk(environment.tools, seed, (task_id,))
    with session_of(environment) as session:
        opening = session.reset(task_id)
        trace, shown, state = (
            PlayedEpisode(task_id, opening),
            f"{opening.request}\n{opening.observation}",
            opening.state,
        )
        while not trace.done and trace.fault is None and len(trace.actions) < limit:
            trace = step(session, trace, walk.act(shown, state))
            shown, state = f"{opening.request}\n{_last_text(trace)}", trace.states[-1]
    return trace


def replay(environment: Environment, trace: PlayedEpisode) -> PlayedEpisode:
    """Play the actions of an episode again, in a new session."""
    return play_actions(environment, trace.task_id, trace.actions)


def play_actions(environment: Environment, task_id: str, actions: Sequence[str]) -> PlayedEpisode:
    """Play given actions, until one of them raises."""
    with session_of(environment) as session:
        again = PlayedEpisode(task_id, session.reset(task_id))
        for action in actions:
            again = step(session, again, action)
            if again.fault is not None:
                break
    return again


def step(session: Session, trace: PlayedEpisode, action: str) -> PlayedEpisode:
    """Send one action and return the trace with what it led to, a raised exception included."""
    outcomes = trace.outcomes
    with boundary("step") as crossing:
        outcome = session.step(action)
        if not isinstance(outcome, Outcome):
            raise TypeError(f"it returned a {type(outcome).__name__}, not an Outcome")
        outcomes = (*outcomes, outcome)
    return PlayedEpisode(trace.task_id, trace.opening, (*trace.actions, action), outcomes, crossing.fault)


def difference(one: PlayedEpisode, other: PlayedEpisode) -> str:
    """Return where two plays of the same actions part, or an empty text."""
    if one.opening != other.opening:
        return f"task {one.task_id}, reset: {_fields(one.opening, other.opening)}"
    for number, (left, right) in enumerate(zip(one.outcomes, other.outcomes, strict=False), start=1):
        if left != right and repr(left) != repr(right):  # a NaN differs from itself, and is another rule's matter
            return f"task {one.task_id}, action {number}: {_fields(left, right)}"
    if one.fault != other.fault or len(one.outcomes) != len(other.outcomes):
        return f"task {one.task_id}, action {len(one.actions)}: {one.fault or 'no error'} / {other.fault or 'no error'}"
    return ""


def sample(ids: Sequence[str], count: int, seed: int, *where: Address) -> list[str]:
    """Return ``count`` ids of an addressed shuffle."""
    return shuffled(ids, seed, *where)[:count]


def _fields(one: Opening | Outcome, other: Opening | Outcome) -> str:
    names = [name for name in type(one).__slots__ if getattr(one, name) != getattr(other, name)]
    pairs = (f"{name} {_short(getattr(one, name))} / {_short(getattr(other, name))}" for name in names)
    return "; ".join(pairs)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _last_text(trace: PlayedEpisode) -> str:
    return trace.outcomes[-1].observation if trace.outcomes else trace.opening.observation


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)
