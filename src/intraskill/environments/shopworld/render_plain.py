"""The compact pages of the plain language: few tokens, one word per value."""

from collections.abc import Mapping
from typing import Any

State = Mapping[str, Any]


def page(state: State) -> list[str]:
    """Return the lines of the page."""
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
