"""From the public observation state to the text that a policy reads; two renderers of one state.

``structured`` has one fact per line; ``sep`` is the upstream style, parts joined by `` [SEP] `` with the buttons as a
JSON list at the end. The plain language has a compact page of its own: a small policy pays for every token. No
renderer can show the goal: they see only the state.
"""

import json
from collections.abc import Mapping
from typing import Any

from intraskill.environments.shopworld import render_plain
from intraskill.environments.shopworld.strings import Strings, strings_of

State = Mapping[str, Any]


def render(state: State, style: str, language: str) -> str:
    """Return the page as text; ``style`` is ``structured`` or ``sep``."""
    words = strings_of(language)
    lines = render_plain.page(state) if language == "plain" else _page(state, words)
    if style == "structured":
        return "\n".join(lines)
    buttons = json.dumps(state["actions"], ensure_ascii=False)
    available = f"{words.labels['search_available']}: {state['search_available']}"
    return " [SEP] ".join([*lines, available, f"{words.labels['buttons']}: {buttons}"])


def _page(state: State, words: Strings) -> list[str]:
    notice = state["last_action"]
    lines = [] if notice is None or notice["valid"] else [f"{words.labels['notice']}: {notice['message']}"]
    return lines + _PAGES[state["page_type"]](state, words)


def _home(state: State, words: Strings) -> list[str]:
    return [words.labels["home"]]


def _results(state: State, words: Strings) -> list[str]:
    labels = words.labels
    head = (
        f"{labels['results']}: {labels['query']} {state['search_text']!r}, {labels['page']} {state['page']}/"
        f"{max(1, state['total_pages'])}, {labels['found']} {state['total_results']}"
    )
    rows = [_row(row, words) for row in state["products"]] or [labels["nothing"]]
    return [head, *rows]


def _row(row: State, words: Strings) -> str:
    features = words.separator.join(row["key_attributes"])
    price = f"{words.labels['currency']}{row['price']:g}"
    facts = [row["id"], row["title"], row["brand"], price, features]
    return f"{row['rank']}. " + " | ".join(fact for fact in facts if fact)


def _product(state: State, words: Strings) -> list[str]:
    labels, product = words.labels, state["product"]
    offered, chosen = state["available_options"], state["selected_options"]
    axes = [f"{labels['options']} {axis}: {words.separator.join(offered[axis])}" for axis in offered]
    picked = words.separator.join(f"{axis}={value}" for axis, value in chosen.items()) or labels["none"]
    missing = words.separator.join(state["missing_option_axes"]) or labels["none"]
    details = [f"{labels['details']}: {bullet}" for bullet in product["bullets"]]
    facts = {  # files of users leave some of these blank
        "brand": product["brand"],
        "category": " › ".join(product["category"]),
        "price": f"{labels['currency']}{state['selected_price']:g}",
        "features": words.separator.join(product["key_attributes"]),
    }
    return [
        f"{product['id']} | {product['title']}",
        *(f"{labels[name]}: {value}" for name, value in facts.items() if value),
        *details,
        *axes,
        f"{labels['chosen']}: {picked}",
        f"{labels['missing']}: {missing}",
    ]


def _information(state: State, words: Strings) -> list[str]:
    product = state["product"]
    values = words.separator.join(product["attributes"])
    return [f"{product['id']} | {product['title']}", f"{words.labels['attributes']}: {values}"]


def _terminal(state: State, words: Strings) -> list[str]:
    return [words.labels["end"]]


_PAGES = {
    "search_home": _home,
    "search_results": _results,
    "product_detail": _product,
    "information_subpage": _information,
    "terminal": _terminal,
}
