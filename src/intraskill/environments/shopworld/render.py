"""From the public observation state to the text that a policy reads; two renderers of one state.

``structured`` is compact (a small policy pays for every token); ``sep`` is the upstream style, parts joined by
`` [SEP] ``. Neither can show the goal: they see only the state.
"""

from collections.abc import Mapping
from typing import Any

State = Mapping[str, Any]


def render(state: State, style: str) -> str:
    """Return the page as text; ``style`` is ``structured`` or ``sep``."""
    lines = _lines(state)
    if style == "sep":
        buttons = ", ".join(state["actions"])
        return " [SEP] ".join([*lines, f"search available: {state['search_available']}", f"buttons: [{buttons}]"])
    return "\n".join(lines)


def _lines(state: State) -> list[str]:
    notice = state["last_action"]
    lines = [] if notice is None or notice["valid"] else [f"! {notice['reason']}"]
    return lines + _PAGES[state["page_type"]](state)


def _home(state: State) -> list[str]:
    return ["search page"]


def _results(state: State) -> list[str]:
    rows = [f"{row['id']} {row['title']} ${row['price']:g}" for row in state["products"]]
    return [f"results {state['page']}/{state['total_pages']}", *rows]


def _product(state: State) -> list[str]:
    product, chosen = state["product"], state["selected_options"]
    missing = state["missing_option_axes"]  # a chosen axis can still be changed, but costs no more tokens
    axes = [f"{axis}={' '.join(state['available_options'][axis])}" for axis in missing]
    picked = " ".join(f"{axis}={value}" for axis, value in chosen.items()) or "none"
    return [f"{product['title']} ${state['selected_price']:g}", *axes, f"chosen: {picked}"]


def _information(state: State) -> list[str]:
    return ["attributes", " ".join(state["product"]["attributes"])]


def _terminal(state: State) -> list[str]:
    return ["the end"]


_PAGES = {
    "search_home": _home,
    "search_results": _results,
    "product_detail": _product,
    "information_subpage": _information,
    "terminal": _terminal,
}
