"""The reward of a purchase: only ``buy now`` scores, and the gold product is never consulted.

    r_strict = r_type · r_att · r_option · r_price          (the main reward)
    r_loose  = r_type · (m_att + m_opt + r_price) / (|A| + |O| + 1)
    r_success = 1[r_type = r_att = r_option = r_price = 1]

Source: the component definitions of ShopSimulator (arXiv 2601.18225) and WebShop (arXiv 2207.01206).
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from rapidfuzz import fuzz

from intraskill.environments.shopworld.catalogue import Product

REWARD_PARTS = ("r_strict", "r_loose", "r_success", "r_type", "r_att", "r_option", "r_price")
MAIN_REWARD = "r_strict"
MATCH_THRESHOLD = 85.0
_NUMBER = r"\$?\s*(\d+(?:\.\d+)?)"
_RANGE = re.compile(rf"(?:between\s+)?{_NUMBER}\s*(?:to|and|-|–)\s*{_NUMBER}")
_ABOUT = re.compile(rf"(?:about|around|roughly)\s+{_NUMBER}")
_UPPER = re.compile(rf"(?:under|below|at most|up to|no more than|within|less than)\s+{_NUMBER}")
_STATED = re.compile(r"\$|budget|price", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Goal:
    """The private target of a task.

    Attributes:
        attributes: wanted attribute values, |A| ≥ 1.
        options: wanted axis → value, |O| may be 0.
        budget: upper price in currency units; ``None`` when none is stated; ``inf`` is never used.
        product_id: the gold product, a diagnostic only.
        title: title of the gold product, read by ``r_type``.
        category: its category nodes.
        budget_stated: a budget is mentioned, verifiable or not.
    """

    attributes: tuple[str, ...]
    options: Mapping[str, str]
    budget: float | None
    product_id: str
    title: str
    category: tuple[str, ...]
    budget_stated: bool = False


def normalize(text: str) -> str:
    """Return the form in which both sides of every comparison are read."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().replace("/", "|").split())


def matches(left: str, right: str) -> bool:
    """Return whether two values agree after normalisation (token-set ratio above 85)."""
    return fuzz.token_set_ratio(normalize(left), normalize(right)) > MATCH_THRESHOLD


def budget_of(instruction: str) -> tuple[float | None, bool]:
    """Read the upper price from an instruction; return it and whether any budget is stated.

    A range gives its upper end, "about" gives × 1.1, a lower bound alone is no budget.
    """
    text = normalize(instruction)
    if found := _RANGE.search(text):
        return float(found[2]), True
    if found := _ABOUT.search(text):
        return round(float(found[1]) * 1.1, 2), True
    if found := _UPPER.search(text):
        return float(found[1]), True
    lower_bound = re.search(rf"(?:over|above|at least|more than)\s+{_NUMBER}", text)
    return None, bool(_STATED.search(text)) and not lower_bound


def type_score(product: Product, goal: Goal) -> float:
    """Return r_type from shared category nodes and title overlap."""
    shared = set(map(normalize, product.category)) & set(map(normalize, goal.category))
    bought, wanted = set(normalize(product.title).split()), set(normalize(goal.title).split())
    overlap = len(bought & wanted) / max(1, len(wanted))
    if len(shared) >= 2 or overlap > 0.2:
        return 1.0
    if overlap == 0:
        return 0.0
    return 0.1 if overlap < 0.1 else 0.5


def score(product: Product, selected: Mapping[str, str], goal: Goal) -> dict[str, float]:
    """Return every reward component of buying ``product`` with ``selected`` options."""
    text = normalize(" ".join((product.title, *product.bullets)))
    hit = [any(matches(own, want) for own in product.attributes) or normalize(want) in text for want in goal.attributes]
    chosen = [axis in selected and matches(selected[axis], want) for axis, want in goal.options.items()]
    price_ok = _price_ok(product.price_of(selected), goal)
    r_type = type_score(product, goal)
    r_att = sum(hit) / len(hit) if hit else 1.0
    r_option = sum(chosen) / len(chosen) if chosen else 1.0
    return {
        "r_strict": r_type * r_att * r_option * price_ok,
        "r_loose": r_type * (sum(hit) + sum(chosen) + price_ok) / (len(hit) + len(chosen) + 1),
        "r_success": float(r_type == r_att == r_option == price_ok == 1.0),
        "r_type": r_type,
        "r_att": r_att,
        "r_option": r_option,
        "r_price": price_ok,
    }


def _price_ok(price: float, goal: Goal) -> float:
    if goal.budget is None:
        return 0.0 if goal.budget_stated else 1.0
    return float(price <= goal.budget)
