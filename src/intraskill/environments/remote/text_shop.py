"""Episodes of servers that only send page texts: states are read from them, and actions judged by their buttons."""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.episode import folded, last_action, require_public, with_notice
from intraskill.environments.remote.pages import Browser, TextPage
from intraskill.environments.remote.wire import PURCHASE
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.pairing_audit import MAIN_PART


@dataclass(frozen=True, slots=True)
class Start:
    """The first page of an episode.

    Attributes:
        instruction: the request that the policy sees.
        persona: the persona document, or ``None``.
        page: the first page.
        hidden: texts that no later page may show, such as the full instruction of a persona task.
    """

    instruction: str
    persona: str | None
    page: TextPage
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """What one action led to; ``page`` is ``None`` once the episode is over, ``parts`` empty before."""

    page: TextPage | None
    parts: Mapping[str, float] = field(default_factory=dict)
    ending: str = PURCHASE


class SlotNumbers:
    """Which episode holds which slot of a server that names slots by bare numbers; safe between threads.

    A server that was started again, or took a slot back, gives a number out a second time. Whoever held it has then
    lost it, and must not send another word to it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: dict[int, Channel] = {}
        self._kept: list[int] = []

    def take(self, number: int, holder: "Channel") -> bool:
        """Note who holds a number now; ``False`` when another episode did and has just lost it."""
        with self._lock:
            if number in self._kept:
                self._kept.remove(number)
            lost = self._holders.get(number)
            self._holders[number] = holder
            return lost is None

    def holds(self, number: int, holder: "Channel") -> bool:
        """Return whether an episode still holds a number."""
        return self._holders.get(number) is holder

    def give_back(self, number: int, holder: "Channel") -> bool:
        """Note that nobody holds a number any more; ``False`` when it is another's by now, and then nothing changes."""
        with self._lock:
            if self._holders.get(number) is not holder:
                return False
            del self._holders[number]
            return True

    def keep(self, number: int) -> None:
        """Keep a number that nobody holds for `take_kept`."""
        with self._lock:
            if number not in self._holders:
                self._kept.append(number)

    def take_kept(self, holder: "Channel") -> int | None:
        """Take a number that was kept; ``None`` when there is none."""
        with self._lock:
            if not self._kept:
                return None
            number = self._kept.pop()
            self._holders[number] = holder
            return number

    def forget_kept(self) -> None:
        """Keep nothing: the server does not know those numbers any more."""
        with self._lock:
            self._kept.clear()


class Channel(Protocol):
    """How one text dialect moves the pages of one episode."""

    where: str
    language: str
    reward_parts: tuple[str, ...]

    def start(self, idx: int) -> Start:
        """Take a slot and reset it."""

    def send(self, action: str) -> Reply:
        """Send one action, once."""

    def leave(self) -> None:
        """Give the slot back if it is still ours; a second call does nothing."""

    def shown(self, page: TextPage) -> str:
        """Return what a policy reads."""


class TextEpisode:
    """An episode over a `Channel`; see `intraskill.environments.remote.episode.Episode`.

    These servers silently ignore an action that a page does not have, so it is judged here by the page's buttons and
    not sent: the page stays, and the step is used up, as in `ShopWorld`.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._browser = Browser(TextPage((), True, ()))
        self._hidden: tuple[str, ...] = ()
        self._said: list[str] = []

    def reset(self, idx: int) -> Opening:
        """Take a slot and show its first page."""
        start = self._channel.start(idx)
        self._hidden, self._browser = start.hidden, Browser(start.page)
        require_public([start.instruction, start.persona], f"{self._channel.where}: idx {idx}", self._hidden)
        state = self._browser.state(None)
        return Opening(start.instruction, start.persona, self._public(state), state)

    def act(self, call: ToolCall) -> Outcome:
        """Send an action that the page has; answer any other with its feedback code."""
        self._said.append(call.argument)
        code = self._browser.refusal(call)
        if code is not None:
            return self._refused(call, code)
        argument = folded(call.argument)
        # A server's pattern takes brackets for its own, and a query loses nothing without them.
        argument = argument.translate({ord("["): " ", ord("]"): " "}) if call.name == "search" else argument
        reply = self._channel.send(f"{call.name}[{argument}]")
        noted = last_action(call.argument, "executed", self._channel.language)
        if reply.page is None:
            self._browser.finish()
            reward = reply.parts.get(MAIN_PART, 0.0)
            state = self._browser.state(noted)
            return Outcome("", state, "executed", call.name, call.argument, True, reward, reply.parts, reply.ending)
        self._browser.follow(call, reply.page)
        state = self._browser.state(noted)
        return Outcome(self._public(state), state, "executed", call.name, call.argument, False)

    def refuse(self, code: str) -> Outcome:
        """Answer a text that is not one call."""
        return self._refused(ToolCall("", ""), code)

    def terminate(self, reason: str) -> Outcome:
        """End the episode; these dialects have no word for it, so the slot is just given back."""
        self._browser.finish()
        zero = dict.fromkeys(self._channel.reward_parts, 0.0)
        return Outcome("", self._browser.state(None), "executed", "", "", True, 0.0, zero, reason)

    def release(self) -> None:
        """Give the slot back."""
        self._channel.leave()

    def _refused(self, call: ToolCall, code: str) -> Outcome:
        state = self._browser.state(last_action(call.argument, code, self._channel.language))
        shown = with_notice(code, self._public(state), self._channel.language)
        return Outcome(shown, state, code, call.name, call.argument, False)

    def _public(self, state: Mapping[str, Any]) -> str:
        text = self._channel.shown(self._browser.page)
        require_public({"page": text, "state": state}, self._channel.where, self._hidden, self._said)
        return text
