"""One episode on a server, whatever the dialect: what a session asks of it, and how replies become outcomes."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from intraskill.environments.leaks import ProductIds, leaks
from intraskill.environments.persona import without_identifiers
from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.transport import RemoteFault
from intraskill.environments.remote.wire import SEP
from intraskill.environments.shopworld.strings import strings_of
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.errors import counted, offenders
from intraskill.method.gate.pairs import MAIN_PART

UNSTATED = "unstated"
VERSIONED = ("environment", "observation")
_COMPONENTS = ("r_type", "r_att", "r_option", "r_price")
ROUNDING = 1e-6
"""How far a component may stray from its range, or from 1, and still count as in it, or as 1."""


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    """What a server says it is; a run compares it at every reset.

    Attributes:
        environment_version: everything that could change a reward or a page; ``unstated`` where a dialect has no word.
        observation_version: shape of the state.
        tasks: number of valid ``idx``; ``None`` when unstated.
        slots: episodes that it can hold at once; ``None`` when unstated.
        language: of its pages.
    """

    environment_version: str = UNSTATED
    observation_version: str = UNSTATED
    tasks: int | None = None
    slots: int | None = None
    language: str = "en"


class RemoteEpisode(Protocol):
    """One episode under way. Used by one thread at a time."""

    def reset(self, idx: int) -> Opening:
        """Take a lease and start a task."""

    def act(self, call: ToolCall) -> Outcome:
        """Send one action, once."""

    def refuse(self, code: str) -> Outcome:
        """Answer a text that is not one call, without the server."""

    def terminate(self, reason: str) -> Outcome:
        """End the episode with zero on every component."""

    def release(self) -> None:
        """Give the lease back if it is still ours; a second call does nothing.

        Raises:
            RemoteFault: when the server does not take it.
        """


class Dialect(Protocol):
    """One way to speak to a server; shared by all episodes and threads."""

    @property
    def profile(self) -> str:
        """Name of the reward's definition; results of different profiles never mix."""

    @property
    def reward_parts(self) -> Sequence[str]:
        """Components that a finished episode carries."""

    def identify(self) -> ServerIdentity:
        """Ask the server what it is."""

    def episode(self, identity: ServerIdentity) -> RemoteEpisode:
        """Return an episode that holds nothing yet."""


def last_action(argument: str, code: str, language: str) -> dict[str, Any]:
    """Return the state's record of an action that this client judged itself."""
    message = strings_of(language).messages.get(code, code)
    return {"action": argument, "valid": code == "executed", "reason": code, "message": message}


def with_notice(code: str, page: str, language: str) -> str:
    """Return a page below the notice that `ShopWorld` would write for ``code``."""
    words = strings_of(language)
    line = f"! {code}" if language == "plain" else f"{words.labels['notice']}: {words.messages.get(code, code)}"
    return f"{line}{SEP if SEP in page else chr(10)}{page}"


def folded(argument: str) -> str:
    """Return an argument on one line: neither a line break nor a written one can start a second action."""
    return " ".join(argument.replace("\\n", " ").split())


def require_public(shown: object, where: str, secrets: Collection[str] = (), said: Collection[str] = ()) -> None:
    """Refuse anything shown that holds an answer; see `leaks`.

    Raises:
        RemoteFault: ``leak``, naming the places and never the values.
    """
    found = leaks(shown, secrets, said)
    if found:
        raise RemoteFault(
            "leak",
            f"{where} shows an answer to the policy at {offenders(found)}; nothing learned from it would count: "
            "use a server that keeps goals private",
        )


def require_unnamed(opening: str, state: Mapping[str, Any], where: str) -> None:
    """Refuse a page of results one of whose products the opening named by its id: the search is over before it began.

    Args:
        opening: request and persona of the episode.
        state: public state of the page.
        where: for messages.

    Raises:
        RemoteFault: ``leak``, with the count and never the ids.
    """
    if state.get("page_type") != "search_results":
        return
    rows = [row.get("id") for row in state.get("products") or () if isinstance(row, Mapping)]
    ids = {value for value in (*rows, *(state.get("actions") or ())) if isinstance(value, str)}
    named = [value for value in ids if ProductIds([value]).within(opening)]
    if named:
        raise RemoteFault(
            "leak",
            f"{where} offers {counted(len(named), 'product')} whose id its request or persona shows; nothing learned "
            "from it would count: use a server that keeps ids out of openings",
        )


def components(detail: object, where: str, optional: Collection[str] = ()) -> dict[str, float]:
    """Return r_type, r_att, r_option, r_price and what follows from them: r_strict and r_success.

    Args:
        detail: the server's ``reward_detail``.
        where: for messages.
        optional: components that a goal without them leaves out; they count 1.

    Raises:
        RemoteFault: ``protocol``, for a component that is absent or not in [0, 1].
    """
    if not isinstance(detail, Mapping):
        raise RemoteFault("protocol", f"{where} ends an episode without reward_detail; does it speak this dialect?")
    parts = {name: unit(detail.get(name, 1.0 if name in optional else None), name, where) for name in _COMPONENTS}
    strict = math.prod(parts.values())
    return {MAIN_PART: strict, "r_success": float(all(v >= 1 - ROUNDING for v in parts.values())), **parts}


def unit(value: object, name: str, where: str) -> float:
    """Return a number in [0, 1].

    Raises:
        RemoteFault: ``protocol``, for anything else.
    """
    if isinstance(value, int | float) and math.isfinite(value) and -ROUNDING <= value <= 1 + ROUNDING:
        return min(1.0, max(0.0, float(value)))
    raise RemoteFault("protocol", f"{where} gives {name}={value!r}, and a number in [0, 1] is due")


def require_version(what: str, now: object, then: str, where: str) -> None:
    """Refuse a server that is not the one that the run started with.

    Raises:
        RemoteFault: ``version``, naming both.
    """
    if now != then:
        raise RemoteFault(
            "version",
            f"{where}: {what}_version is {now!r} at this reset and was {then!r} when the run started; "
            "results of both would mix: bring the old server back, or start another run",
        )


def require_task(reply: Mapping[str, Any], idx: int, where: str) -> None:
    """Refuse the reset of another task than was asked for.

    Raises:
        RemoteFault: ``protocol``.
    """
    if reply.get("idx", idx) != idx:
        raise RemoteFault("protocol", f"{where} was asked for idx {idx} and started idx {reply['idx']!r}")


def persona_text(persona: object) -> str | None:
    """Return a persona document without identifiers as text: text as it is, sections as one entry a line."""
    persona, _ = without_identifiers(persona)
    if isinstance(persona, str) or persona is None:
        return persona
    return "\n".join(_lines(persona, "")) or None


def _lines(value: object, indent: str) -> list[str]:
    if isinstance(value, Mapping):
        found: list[str] = []
        for key, inner in value.items():
            if isinstance(inner, Mapping):
                found += [f"{indent}{key}:", *_lines(inner, indent + "  ")]
            else:
                found += [f"{indent}{key}: {_words(inner)}"]
        return found
    return [indent + _words(value)]


def _words(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_words(inner)}" for key, inner in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "; ".join(map(_words, value))
    return " ".join(str(value).split())
