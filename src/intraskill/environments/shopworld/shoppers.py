"""Scripted shoppers that know no vocabulary, for calibrating a world: a greedy lexical one and a random one.

Both read only the request, the persona and the public state, in any language.
"""

from typing import Any, Protocol

from intraskill.environments.protocol import Opening
from intraskill.environments.shopworld.search import tokenize
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.strings import Strings
from intraskill.environments.shopworld.world import Shop
from intraskill.environments.tool_calls import ToolCall, write_call
from intraskill.method.randomness import uniform

MAX_ACTIONS = 30


class Shopper(Protocol):
    """Chooses one action per turn."""

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""


class GreedyShopper:
    """Searches the request word by word, opens the first result, takes the options that the texts name, and buys.

    Args:
        opening: what the shopper is told.
        words: button texts of the shop.
        reads_persona: options may also be named in the persona.
    """

    def __init__(self, opening: Opening, words: Strings, reads_persona: bool = True) -> None:
        self._request, self._words = opening.instruction, words
        heard = f"{opening.instruction}\n{opening.persona or ''}" if reads_persona else opening.instruction
        self._heard = frozenset(tokenize(heard))

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""
        if state["page_type"] == "search_home":
            return ToolCall("search", self._request)
        if state["page_type"] == "search_results":
            return ToolCall("click", state["products"][0]["id"] if state["products"] else self._words.back)
        for axis in state["missing_option_axes"]:
            return ToolCall("click", f"{axis}={max(state['available_options'][axis], key=self._overlap)}")
        return ToolCall("click", self._words.buy)

    def _overlap(self, value: str) -> float:
        """Return the share of a value's tokens that the texts hold; ``max`` takes the first of equals."""
        own = set(tokenize(value))
        return len(own & self._heard) / max(1, len(own))


class RandomShopper:
    """Takes any listed action, all alike; on the search page it searches the request.

    Args:
        opening: what the shopper is told.
        seed: seed of its draws.
        task_id: part of their address.
    """

    def __init__(self, opening: Opening, seed: int, task_id: str) -> None:
        self._request, self._seed, self._task_id, self._turn = opening.instruction, seed, task_id, 0

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""
        self._turn += 1
        if state["page_type"] == "search_home":
            return ToolCall("search", self._request)
        draw = uniform(self._seed, "random-shopper", self._task_id, self._turn)
        return ToolCall("click", state["actions"][int(draw * len(state["actions"]))])


def play(shop: Shop, task_id: str, kind: str, seed: int = 0) -> tuple[dict[str, float], int]:
    """Play one task with ``greedy``, ``greedy_request`` (blind to the persona) or ``random``.

    Returns:
        The reward parts, and the number of actions.
    """
    session = shop.open()
    opening = session.reset(task_id)
    shopper: Shopper
    if kind == "random":
        shopper = RandomShopper(opening, seed, task_id)
    else:
        shopper = GreedyShopper(opening, shop.strings, reads_persona=kind == "greedy")
    for taken in range(1, MAX_ACTIONS + 1):
        call = shopper.act(session.state)
        outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
        if outcome.done:
            return dict(outcome.parts), taken
    return dict(session.terminate("action_limit").parts), MAX_ACTIONS
