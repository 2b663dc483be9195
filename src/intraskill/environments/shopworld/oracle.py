"""An oracle that knows the goal: what it cannot buy, nobody can."""

from collections.abc import Sequence
from typing import Any

from intraskill.environments.shopworld.reward import Goal, matches
from intraskill.environments.shopworld.strings import STRINGS, Strings
from intraskill.environments.tool_calls import ToolCall


class Oracle:
    """Buys the gold product; proves at build time that a task can be solved."""

    def __init__(self, goal: Goal, words: Strings = STRINGS["plain"]) -> None:
        self._goal, self._words = goal, words
        self.query = f"{goal.title} {' '.join(goal.attributes)}"

    def act(self, state: dict[str, Any]) -> ToolCall:
        """Return the next call."""
        if state["page_type"] == "search_home":
            return ToolCall("search", self.query)
        if state["page_type"] == "search_results":
            shown = self._goal.product_id in state["actions"]
            return ToolCall("click", self._goal.product_id if shown else self._words.next)
        for axis in state["missing_option_axes"]:
            value = closest(state["available_options"][axis], self._goal.options.get(axis))
            return ToolCall("click", f"{axis}={value}")
        return ToolCall("click", self._words.buy)


def closest(offered: Sequence[str], wanted: str | None) -> str:
    """Return the offered value to choose for a wanted one: the same, else one that scores as it, else the first."""
    if wanted is None:
        return offered[0]
    return wanted if wanted in offered else next((value for value in offered if matches(value, wanted)), offered[0])
