"""Episodes of servers that only send page texts: states are read from them, and actions judged by their buttons."""

import re
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.episode import (
    folded,
    last_action,
    require_public,
    require_unnamed,
    with_notice,
)
from intraskill.environments.remote.wire import INSTRUCTION_LABEL, PURCHASE, SEP, SHOP_LABEL
from intraskill.environments.shopworld.strings import STRINGS
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.gate.pairs import MAIN_PART

NEXT, PREV, BACK, BUY = (
    frozenset(getattr(words, name).casefold() for words in STRINGS.values()) for name in ("next", "prev", "back", "buy")
)
_SUBPAGES = frozenset(words.attributes.casefold() for words in STRINGS.values()) | {
    "description",
    "features",
    "reviews",
}
_NAVIGATION = NEXT | PREV | BACK | BUY | _SUBPAGES
_PRICE = re.compile(r"[$¥￥]\s*(\d+(?:,\d{3})*(?:\.\d+)?)")
_PRICE_LABEL = re.compile(r"(?:price|价格)\s*[:：]", re.IGNORECASE)
_BRACKETS = re.compile(r"[\[\]]")
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*元?$")
_PAGE = re.compile(r"(?:page|第|页码)\D{0,3}(\d+)", re.IGNORECASE)
_TOTAL = re.compile(r"(?:total results|found|总结果数|商品数|共)\D{0,3}(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TextPage:
    """A page of a server that has no states.

    Attributes:
        parts: the page's parts, the request left out.
        search_available: the search box is there.
        buttons: what can be clicked, as the server spells it.
    """

    parts: tuple[str, ...]
    search_available: bool
    buttons: tuple[str, ...]


def without_request(parts: list[str], request: str = "") -> tuple[str, tuple[str, ...]]:
    """Return the request that a page repeats (``""`` when it does not) and the page's own parts.

    Args:
        parts: every part of the page text.
        request: a text known to be the request: parts that hold it go too, with the label before them.
    """
    rest = parts[1:] if parts and parts[0] == SHOP_LABEL else parts
    shown = ""
    if len(rest) > 1 and rest[0] == INSTRUCTION_LABEL:
        shown, rest = rest[1], rest[2:]
    wanted = " ".join(request.split())
    kept: list[str] = []
    for part in rest:
        if wanted and wanted in " ".join(part.split()):
            if kept and kept[-1].endswith((":", "：")):
                kept.pop()
            continue
        kept.append(part)
    return shown, tuple(kept)


def split_parts(text: str) -> list[str]:
    """Return the non-empty parts of a page text."""
    return [part.strip() for part in text.split(SEP.strip()) if part.strip()]


@dataclass(slots=True)
class Browser:
    """Where an episode is: pages follow from clicks, rows and options from texts.

    Attributes:
        page: what is shown now.
        kind: page type of the state.
        query: words of the last search.
        number: page of results, from 1.
        size: rows of a full page.
        product: the open product.
        selected: axis → value, as far as this client chose it.
        offered: axis → values of the open product; a page may leave out what is selected.
    """

    page: TextPage
    kind: str = "search_home"
    query: str = ""
    number: int = 1
    size: int = 0
    product: dict[str, Any] = field(default_factory=dict)
    selected: dict[str, str] = field(default_factory=dict)
    offered: dict[str, list[str]] = field(default_factory=dict)

    def refusal(self, call: ToolCall) -> str | None:
        """Return the feedback code of an action that this page does not have, or ``None``."""
        if call.name == "search":
            return None if self.page.search_available else "search_unavailable"
        button = self.button(call.argument)
        if button is not None:
            # A server's pattern takes brackets for its own, and spaces are folded: it would read another button.
            return "unsendable_action" if _BRACKETS.search(button) or folded(button) != button else None
        if self.kind == "product_detail":
            axis, _, value = call.argument.casefold().partition("=")
            if value and (axis, value) in {(a.casefold(), v.casefold()) for a, v in self.selected.items()}:
                return "already_selected"
            if call.argument.casefold() in BUY:
                return "incomplete_options"
        return "unavailable_action"

    def button(self, argument: str) -> str | None:
        """Return the button that an argument names, as the server spells it; its own spelling comes before others."""
        if argument in self.page.buttons:
            return argument
        alike = [button for button in self.page.buttons if button.casefold() == argument.casefold()]
        return alike[0] if len(alike) == 1 else None

    def follow(self, call: ToolCall, page: TextPage) -> None:
        """Move to the page that an action led to."""
        button = call.argument.casefold()
        if page.search_available:
            self.kind, self.product, self.selected = "search_home", {}, {}
        elif call.name == "search":
            self.kind, self.query, self.number, self.size = "search_results", call.argument, 1, 0
        elif self.kind == "search_results" and button in NEXT | PREV:
            self.number += 1 if button in NEXT else -1
        elif self.kind == "search_results":
            rows = {row["id"]: row for row in self._rows()}
            self.product = {key: value for key, value in rows.get(call.argument, {}).items() if key != "rank"}
            self.kind, self.selected, self.offered = "product_detail", {}, {}
        elif button in PREV:
            self.kind = "product_detail" if self.kind == "information_subpage" else "search_results"
        elif button in _SUBPAGES:
            self.kind = "information_subpage"
        elif self.kind == "product_detail":
            axis, value = self._axis_and_value(call.argument)
            self.selected = self.selected | {axis: value}
        self._arrive(page)

    def _arrive(self, page: TextPage) -> None:
        self.page = page
        if self.kind == "search_results":
            self.size = max(self.size, len(self._ids()))
        elif self.kind == "product_detail":
            for axis, values in self._options().items():
                known = self.offered.setdefault(axis, [])
                known += [value for value in values if value not in known]

    def finish(self) -> None:
        """The episode is over: nothing can be done any more."""
        self.kind, self.page = "terminal", TextPage((), False, ())

    def state(self, noted: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the public observation state."""
        state: dict[str, Any] = {
            "page_type": self.kind,
            "search_available": self.page.search_available,
            "actions": list(self.page.buttons),
            "last_action": noted,
        }
        if self.kind == "search_results":
            state |= self._results_state()
        elif self.kind in ("product_detail", "information_subpage"):
            state |= self._product_state()
        return state

    # -- reading ---------------------------------------------------------------------------------------------

    def _results_state(self) -> dict[str, Any]:
        text = SEP.join(self.page.parts)
        total, more = _TOTAL.search(text), any(button.casefold() in NEXT for button in self.page.buttons)
        shown = _PAGE.search(text)
        found = int(total[1]) if total else None
        pages = None
        if found is not None and (found == 0 or self.size):
            pages = -(-found // self.size) if found else 0
        return {
            "search_text": self.query,
            "page": int(shown[1]) if shown else self.number,
            "total_pages": self.number + more if pages is None else pages,
            "total_results": found,
            "products": list(self._rows()),
        }

    def _ids(self) -> list[str]:
        return [button for button in self.page.buttons if button.casefold() not in _NAVIGATION]

    def _rows(self) -> Iterator[dict[str, Any]]:
        parts = self.page.parts
        for index, product_id in enumerate(self._ids()):
            at = next((i for i, part in enumerate(parts) if _names(part, product_id)), None)
            texts = [] if at is None else [parts[at], *parts[at + 1 : at + 3]]
            inline = bool(texts) and texts[0].casefold() != product_id.casefold()
            row = texts[:1] if inline else texts[1:]
            title = row[0].partition(product_id)[2].strip(" |") if inline else "".join(row[:1])
            rank = (self.number - 1) * self.size + index + 1
            yield _record(product_id, title, _price(row[:1] if inline else row[1:])) | {"rank": rank}

    def _product_state(self) -> dict[str, Any]:
        offered = {axis: list(values) for axis, values in self.offered.items()}
        missing = [axis for axis in offered if axis not in self.selected]
        return {
            "product": (self.product or _record("", "", None)) | {"attributes": [], "bullets": []},
            "selected_options": dict(self.selected),
            "available_options": offered,
            "missing_option_axes": missing,
            "options_complete": not missing,
            "selected_price": self._shown_price(),
        }

    def _shown_price(self) -> float | None:
        """The price that a part is labelled with, else the first amount of money that is no option's text."""
        buttons = set(map(str.casefold, self.page.buttons))
        own = [part for part in self.page.parts if part.casefold() not in buttons]
        labelled = [part for part in own if _PRICE_LABEL.match(part)]
        others = [part for part in own if _PRICE.search(part) or "价格" in part]
        prices = (_price([part]) for part in (*labelled, *others))
        return next((price for price in prices if price is not None), self.product.get("price"))

    def _options(self) -> dict[str, list[str]]:
        """Return axis → values: buttons that name their axis, or the parts below the axis's own part."""
        buttons = {b.casefold(): b for b in self.page.buttons if b.casefold() not in _NAVIGATION}
        offered: dict[str, list[str]] = {}
        alone = {part.casefold() for part in self.page.parts}
        if all("=" in button and button not in alone for button in buttons):
            for button in buttons.values():
                axis, _, value = button.partition("=")
                offered.setdefault(axis, []).append(value)
            return offered
        axis = ""
        for part in self.page.parts:
            folded = part.casefold()
            if folded in buttons:
                offered.setdefault(axis, []).append(buttons[folded])
            elif folded not in _NAVIGATION:
                axis = part
        return offered

    def _axis_and_value(self, button: str) -> tuple[str, str]:
        for axis, values in self._options().items():
            if button in values or button == f"{axis}={button.partition('=')[2]}":
                return axis, button.partition("=")[2] if button not in values else button
        return "", button


def _names(part: str, product_id: str) -> bool:
    """Return whether a part is a product's id, or a line that starts with it, a rank before it or not."""
    words = part.casefold().split()
    return product_id.casefold() in words[:2]


def _price(texts: list[str]) -> float | None:
    for text in texts[:1]:
        found = _PRICE.findall(text) or _NUMBER.findall(text)
        if found:
            return float(found[-1].replace(",", ""))
    return None


def _record(product_id: str, title: str, price: float | None) -> dict[str, Any]:
    return {"id": product_id, "title": title, "brand": "", "category": [], "price": price, "key_attributes": []}


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
        self._asked = ""
        self._said: list[str] = []

    def reset(self, idx: int) -> Opening:
        """Take a slot and show its first page."""
        start = self._channel.start(idx)
        self._hidden, self._browser = start.hidden, Browser(start.page)
        self._asked = f"{start.instruction}\n{start.persona}"
        require_public([start.instruction, start.persona], f"{self._channel.where}: idx {idx}", self._hidden)
        state = self._browser.state(None)
        return Opening(start.instruction, start.persona, self._public(state), state)

    def act(self, call: ToolCall) -> Outcome:
        """Send an action that the page has; answer any other with its feedback code."""
        self._said.append(call.argument)
        code = self._browser.refusal(call)
        if code is not None:
            return self._refused(call, code)
        # A query loses nothing without the brackets that a server's pattern takes for its own.
        argument = _BRACKETS.sub(" ", folded(call.argument))
        if call.name == "click":
            argument = self._browser.button(call.argument) or argument
        reply = self._channel.send(f"{call.name}[{argument}]")
        noted = last_action(call.argument, "executed", self._channel.language)
        if reply.page is None:
            self._browser.finish()
            reward = reply.parts.get(MAIN_PART, 0.0)
            state = self._browser.state(noted)
            return Outcome("", state, "executed", call.name, call.argument, True, reward, reply.parts, reply.ending)
        self._browser.follow(ToolCall(call.name, argument if call.name == "click" else call.argument), reply.page)
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
        require_unnamed(self._asked, state, self._channel.where)
        return text
