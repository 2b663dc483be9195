"""Public states of logged turns: as the environment stated them, or read from the text of the pages.

Three kinds of text are known: pages of `intraskill.environments.shopworld.render` in English and Chinese, with one fact
per line or per part; pages of ShopSimulator, which end with their buttons; and pages of WebShop, whose buttons stand
among their parts. A WebShop page does not tell an option's axis from its values, so its options are not read.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from intraskill.environments.remote.pages import Browser, TextPage, split_parts, without_request
from intraskill.environments.remote.wire import INSTRUCTION_LABEL, SEP, SHOP_LABEL
from intraskill.environments.shop_evidence.purchases import EXECUTED
from intraskill.environments.shopworld.strings import STRINGS, Strings
from intraskill.environments.tool_calls import ToolCall
from intraskill.method.rollouts import Rollout, Turn

State = Mapping[str, Any]

_FOOTER = re.compile(
    r"(?:搜索功能是否可用|Search available)\s*[:：]\s*(True|False)\s*(?:\[SEP\]\s*)?"
    r"(?:可点击的按钮|Buttons)\s*[:：]\s*(\[.*\])\s*$",
    re.DOTALL,
)
_WEBSHOP_ID = re.compile(r"B[0-9A-Z]{9}")
_WEBSHOP_BUTTONS = frozenset(
    ("back to search", "next >", "< prev", "description", "features", "reviews", "attributes", "buy now")
)
_ROW = re.compile(r"(\d+)\. (\S+) \| (.+)")


def read_states(rollout: Rollout) -> tuple[State, ...] | None:
    """Return the state before each turn, or ``None`` where one is neither stated nor in a known text."""
    turns = rollout.turns
    if all("page_type" in turn.state for turn in turns):
        return tuple(turn.state for turn in turns)
    texts = [str(turn.state.get("observation") or turn.page) for turn in turns]
    labelled = [_labelled(text) for text in texts]
    if all(state is not None for state in labelled):
        return tuple(state for state in labelled if state is not None)
    pages = [_page(text, rollout.request) for text in texts]
    known = [page for page in pages if page is not None]
    return tuple(_browsed(turns, known)) if len(known) == len(pages) else None


def _browsed(turns: Sequence[Turn], pages: Sequence[TextPage]) -> Iterator[State]:
    """Yield the states of pages that name their buttons; what is selected follows from the clicks."""
    if not pages:
        return
    browser = Browser(pages[0])
    yield browser.state(None)
    for turn, page in zip(turns, pages[1:], strict=False):
        if turn.feedback == EXECUTED:
            button = browser.button(turn.argument) or turn.argument
            browser.follow(ToolCall(turn.tool, button if turn.tool == "click" else turn.argument), page)
        yield browser.state(None)


def _page(text: str, request: str) -> TextPage | None:
    """Return a page with its buttons, or ``None`` for a text that is no page of a known server."""
    footer = _FOOTER.search(text)
    if footer is not None:
        try:
            buttons = json.loads(footer[2])
        except ValueError:
            return None
        _, parts = without_request(split_parts(text[: footer.start()]), request.partition("\n")[0])
        return TextPage(parts, footer[1] == "True", tuple(str(one) for one in buttons if one != "search"))
    if not (text.startswith(SHOP_LABEL) or INSTRUCTION_LABEL in text) or SEP.strip() not in text:
        return None
    _, parts = without_request(split_parts(text), request.partition("\n")[0])
    return TextPage(parts, parts == ("Search",), tuple(part for part in parts if _is_webshop_button(part)))


def _is_webshop_button(part: str) -> bool:
    return bool(_WEBSHOP_ID.fullmatch(part)) or part.casefold() in _WEBSHOP_BUTTONS


def _labelled(text: str) -> State | None:
    """Return the state of a page of our own renderers, or ``None``."""
    footer = _FOOTER.search(text)
    lines = [line.strip() for line in re.split(r"\n|\[SEP\]", text[: footer.start()] if footer else text)]
    for words in (STRINGS["en"], STRINGS["zh"]):
        labels = words.labels
        body = [line for line in lines if line and not line.startswith(f"{labels['notice']}:")]
        if not body:
            continue
        if body[0] == labels["home"]:
            return {"page_type": "search_home"}
        if body[0].startswith(f"{labels['results']}: {labels['query']} "):
            return {"page_type": "search_results", "products": [row for row in _rows(body[1:], words)]}
        facts = dict(line.split(": ", 1) for line in body[1:] if ": " in line)
        if " | " in body[0] and labels["missing"] in facts:
            return _product(body[0], facts, words)
        if " | " in body[0] and set(facts) == {labels["attributes"]}:
            return {"page_type": "information_subpage"}
    return None


def _rows(lines: Sequence[str], words: Strings) -> Iterator[dict[str, Any]]:
    for line in lines:
        if (row := _ROW.fullmatch(line)) is None:
            continue
        facts = row[3].split(" | ")
        priced = next((i for i, fact in enumerate(facts) if _amount(fact, words) is not None), len(facts))
        yield {
            "id": row[2],
            "title": facts[0],
            "brand": " ".join(facts[1:priced]),
            "category": [],
            "price": _amount(facts[priced], words) if priced < len(facts) else None,
            "key_attributes": [one for fact in facts[priced + 1 :] for one in fact.split(words.separator)],
            "rank": int(row[1]),
        }


def _product(head: str, facts: Mapping[str, str], words: Strings) -> State:
    labels = words.labels
    product_id, _, title = head.partition(" | ")

    def values(label: str) -> list[str]:
        written = facts.get(labels[label], labels["none"])
        return [] if written == labels["none"] else written.split(words.separator)

    price = _amount(facts.get(labels["price"], ""), words)
    prefix = f"{labels['options']} "
    offered = {key.removeprefix(prefix): text.split(words.separator) for key, text in facts.items() if prefix in key}
    chosen = (value.partition("=") for value in values("chosen"))
    missing = values("missing")
    return {
        "page_type": "product_detail",
        "product": {
            "id": product_id,
            "title": title,
            "brand": facts.get(labels["brand"], ""),
            "category": facts.get(labels["category"], "").split(" › "),
            "price": price,
            "key_attributes": values("features"),
            "attributes": [],
            "bullets": [facts[labels["details"]]] if labels["details"] in facts else [],
        },
        "selected_options": {axis: value for axis, _, value in chosen},
        "available_options": offered,
        "missing_option_axes": missing,
        "options_complete": not missing,
        "selected_price": price,
    }


def _amount(text: str, words: Strings) -> float | None:
    written = text.strip().removeprefix(words.labels["currency"])
    try:
        return float(written) if written != text.strip() else None
    except ValueError:
        return None
