"""One shopping episode: pages, actions, feedback codes.

State is a pure function of (catalogue, task, actions).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from intraskill.environments.protocol import Opening, Outcome, ToolSpec
from intraskill.environments.shopworld.catalogue import Product
from intraskill.environments.shopworld.render import render
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.environments.shopworld.stock import Stock
from intraskill.environments.tool_calls import ToolCall, read_call
from intraskill.method.gate.pairs import MAIN_PART

if TYPE_CHECKING:
    from intraskill.environments.shopworld.task import ShopTask

SYSTEM = "You are a shopping agent."
PARAMETERS = {"search": "query", "click": "value"}
_DESCRIPTIONS = {"search": "Search the shop.", "click": "Click a listed action."}


def shop_tools() -> list[ToolSpec]:
    """Return the two tools of every shop, as JSON schemas."""
    return [_tool(name, parameter) for name, parameter in PARAMETERS.items()]


def _tool(name: str, parameter: str) -> ToolSpec:
    schema = {"type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}
    return {"type": "function", "function": {"name": name, "description": _DESCRIPTIONS[name], "parameters": schema}}


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that changes during an episode; a few hundred bytes."""

    page: str = "search_home"
    query: str = ""
    results: tuple[str, ...] = ()
    index: int = 0
    product_id: str = ""
    selected: Mapping[str, str] = field(default_factory=dict)
    last_action: Mapping[str, Any] | None = None
    termination: str = ""


class ShopSession:
    """A single-use session; see `intraskill.environments.protocol.Session`."""

    def __init__(self, world: Stock) -> None:
        self._world = world
        self._words = world.strings
        self._task: ShopTask | None = None
        self._now = Snapshot()
        self._listed: tuple[Snapshot | None, tuple[str, ...]] = (None, ())

    def reset(self, task_id: str) -> Opening:
        """Start the episode of one task.

        Raises:
            RuntimeError: when the session was used before.
        """
        if self._task is not None:
            raise RuntimeError(f"a session is used once, and this one already holds {self._task.id}; open another")
        self._task = self._world.shop_task(task_id)
        state = self.state
        return Opening(self._task.request, self._task.persona, self._text(state), state)

    def step(self, action: str) -> Outcome:
        """Apply one action text; an invalid one leaves the page and names its reason."""
        self._require_open()
        call = read_call(action, PARAMETERS)
        if isinstance(call, str):
            return self._after(ToolCall("", ""), call, {})
        moved = self._search(call.argument) if call.name == "search" else self._click(call.argument)
        return self._after(call, "executed", moved) if isinstance(moved, dict) else self._after(call, moved, {})

    def terminate(self, reason: str) -> Outcome:
        """End the episode: zero reward on every component."""
        self._require_open()
        self._now = replace(self._now, page="terminal", termination=reason)
        return Outcome("", self.state, "executed", "", "", True, 0.0, dict.fromkeys(REWARD_PARTS, 0.0), reason)

    def snapshot(self) -> Snapshot:
        """Return the episode's whole state."""
        return self._now

    def restore(self, snapshot: Snapshot) -> None:
        """Continue from a snapshot of the same task."""
        self._now = snapshot

    # -- actions ---------------------------------------------------------------------------------------------

    # What an action changes in the snapshot, or the feedback code that refuses it.

    def _search(self, query: str) -> dict[str, Any] | str:
        if self._now.page != "search_home":
            return "search_unavailable"
        results = self._world.index.search(query, self._world.settings.max_results)
        return {"page": "search_results", "query": query, "results": results, "index": 0}

    def _click(self, value: str) -> dict[str, Any] | str:
        if value not in self._actions():
            return self._refusal(value)
        now, words = self._now, self._words
        if value == words.back:
            return {"page": "search_home", "query": "", "results": (), "index": 0, "product_id": "", "selected": {}}
        if now.page == "search_results":
            turn = {words.next: 1, words.prev: -1}.get(value)
            if turn is None:
                return {"page": "product_detail", "product_id": value, "selected": {}}
            return {"index": now.index + turn}
        if value == words.prev:
            return {"page": "product_detail" if now.page == "information_subpage" else "search_results"}
        if value == words.attributes:
            return {"page": "information_subpage"}
        if value == words.buy:
            return {"page": "terminal", "termination": "purchase"}
        axis, _, chosen = value.partition("=")
        return {"selected": {**now.selected, axis: chosen}}

    def _refusal(self, value: str) -> str:
        if self._now.page == "product_detail":
            axis, _, chosen = value.partition("=")
            if chosen and self._now.selected.get(axis) == chosen:
                return "already_selected"
            if value == self._words.buy:
                return "incomplete_options"
        return "unavailable_action"

    # -- what the policy may see -----------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """The public observation state; it never holds goal, reward, target or answer."""
        now = self._now
        state: dict[str, Any] = {
            "page_type": now.page,
            "search_available": now.page == "search_home",
            "actions": list(self._actions()),
            "last_action": None if now.last_action is None else dict(now.last_action),
        }
        if now.page == "search_results":
            state |= self._results_state()
        elif now.page in ("product_detail", "information_subpage"):
            state |= self._product_state(self._product)
        return state

    @property
    def _product(self) -> Product:
        return self._world.catalogue.by_id[self._now.product_id]

    def _page_of_results(self) -> tuple[str, ...]:
        size = self._world.settings.page_size
        return self._now.results[self._now.index * size : (self._now.index + 1) * size]

    @property
    def _num_pages(self) -> int:
        return -(-len(self._now.results) // self._world.settings.page_size)

    def _actions(self) -> tuple[str, ...]:
        """What can be clicked now; listed once for a page, where both the state and the next click read it."""
        if self._listed[0] is not self._now:
            self._listed = (self._now, tuple(self._list_actions()))
        return self._listed[1]

    def _list_actions(self) -> list[str]:
        now, words = self._now, self._words
        if now.page == "search_results":
            turns = [words.next] * (now.index + 1 < self._num_pages) + [words.prev] * (now.index > 0)
            return [*self._page_of_results(), *turns, words.back]
        if now.page == "product_detail":
            axes = self._product.axes
            values = [f"{a}={v.value}" for a in axes for v in axes[a] if now.selected.get(a) != v.value]
            buy = [words.buy] if len(now.selected) == len(axes) else []
            return [*values, words.attributes, words.prev, words.back, *buy]
        return [words.prev, words.back] if now.page == "information_subpage" else []

    def _results_state(self) -> dict[str, Any]:
        first = self._now.index * self._world.settings.page_size
        shown = [self._world.catalogue.by_id[product_id] for product_id in self._page_of_results()]
        return {
            "search_text": self._now.query,
            "page": self._now.index + 1,
            "total_pages": self._num_pages,
            "total_results": len(self._now.results),
            "products": [_row(product) | {"rank": first + i + 1} for i, product in enumerate(shown)],
        }

    def _product_state(self, product: Product) -> dict[str, Any]:
        selected = dict(self._now.selected)
        missing = [axis for axis in product.axes if axis not in selected]
        return {
            "product": _row(product) | {"attributes": list(product.attributes), "bullets": list(product.bullets)},
            "selected_options": selected,
            "available_options": {axis: [o.value for o in values] for axis, values in product.axes.items()},
            "missing_option_axes": missing,
            "options_complete": not missing,
            "selected_price": product.price_of(selected),
        }

    def _text(self, state: dict[str, Any]) -> str:
        return render(state, self._world.settings.renderer, self._world.settings.language)

    def _after(self, call: ToolCall, feedback: str, changes: dict[str, Any]) -> Outcome:
        valid = feedback == "executed"
        noted = {"action": call.argument, "valid": valid, "reason": feedback, "message": self._words.messages[feedback]}
        self._now = replace(self._now, last_action=noted, **changes)
        state = self.state
        done = self._now.page == "terminal"
        parts = self._world.score(self._task_id, self._now.product_id, self._now.selected) if done else {}
        return Outcome(
            observation=self._text(state),
            state=state,
            feedback=feedback,
            tool=call.name,
            argument=call.argument,
            done=done,
            reward=parts.get(MAIN_PART, 0.0),
            parts=parts,
            termination=self._now.termination,
        )

    @property
    def _task_id(self) -> str:
        if self._task is None:
            raise RuntimeError("reset the session before its first step")
        return self._task.id

    def _require_open(self) -> None:
        if self._now.page == "terminal":
            raise RuntimeError(
                f"the episode of {self._task_id} is over ({self._now.termination}); open another session"
            )
        _ = self._task_id


def _row(product: Product) -> dict[str, Any]:
    """The product as a fresh dictionary: what a caller does to a state never reaches the shared catalogue."""
    return {
        "id": product.id,
        "title": product.title,
        "brand": product.brand,
        "category": list(product.category),
        "price": product.price,
        "key_attributes": list(product.attributes[:10]),
    }
