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

from intraskill.environments.shopworld.budget import budget_of as budget_of
from intraskill.environments.shopworld.catalogue import Product
from intraskill.environments.shopworld.search import tokenize

REWARD_PARTS = ("r_strict", "r_loose", "r_success", "r_type", "r_att", "r_option", "r_price")
MATCH_THRESHOLD = 85.0
# Words that are no noun in any title; short and closed, so that r_type does not depend on a language model.
_FUNCTION_WORDS = (
    "a", "an", "and", "are", "as", "at", "be", "by", "for", "from", "in", "into", "is", "it", "its", "of", "on",
    "or", "our", "the", "this", "to", "up", "with", "without", "you", "your",
)  # fmt: skip
_BAR = re.compile(r"\s*\|\s*")


@dataclass(frozen=True, slots=True)
class Goal:
    """The private target of a task.

    Attributes:
        attributes: wanted attribute values, |A| ≥ 1.
        options: wanted axis → value, |O| may be 0; a value counts on whichever axis it is chosen.
        budget: upper price in currency units; ``None`` when none is stated; ``inf`` is never used.
        product_id: the gold product, a diagnostic only.
        title: title of the gold product, read by ``r_type``.
        category: its category nodes.
        budget_stated: a budget is mentioned, verifiable or not.
        query: the gold product's ``query``; see `Product`.
    """

    attributes: tuple[str, ...]
    options: Mapping[str, str]
    budget: float | None
    product_id: str
    title: str
    category: tuple[str, ...]
    budget_stated: bool = False
    query: str = ""


def normalize(text: str) -> str:
    """Return the form in which both sides of every comparison are read: NFKC, casefold, ``/`` = ``|``, spaces."""
    return _BAR.sub("|", " ".join(unicodedata.normalize("NFKC", text).casefold().replace("/", "|").split()))


def matches(left: str, right: str) -> bool:
    """Return whether two values agree after normalisation (token-set ratio above 85)."""
    return fuzz.token_set_ratio(normalize(left), normalize(right)) > MATCH_THRESHOLD


def title_terms(title: str) -> list[str]:
    """Return what stands for the nouns of a title: words with a letter that are no function words, and Han bigrams.

    The published rule asks a language model for the nouns. Adjectives stay in here, so two titles overlap a little
    more often; a model's mistakes are not ours, and the answer never changes with its version.
    """
    return [term for term in tokenize(title) if not term.isdigit() and term not in _FUNCTION_WORDS]


def shared_nodes(product: Product, goal: Goal) -> int:
    """Return how many category nodes the bought and the wanted product share."""
    return len(set(map(normalize, product.category)) & set(map(normalize, goal.category)))


def type_score(product: Product, goal: Goal) -> float:
    """Return r_type from shared category nodes and title overlap; an empty wanted title overlaps by 0.2."""
    bought, wanted = set(title_terms(product.title)), set(title_terms(goal.title))
    overlap = len(bought & wanted) / len(wanted) if wanted else 0.2
    if shared_nodes(product, goal) >= 2 or overlap > 0.2:
        return 1.0
    if overlap == 0:
        return 0.0
    return 0.1 if overlap < 0.1 else 0.5


def score(product: Product, selected: Mapping[str, str], goal: Goal) -> dict[str, float]:
    """Return every reward component of buying ``product`` with ``selected`` options."""
    hit = [_has(product, want) for want in goal.attributes]
    chosen = [any(matches(own, want) for own in selected.values()) for want in goal.options.values()]
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


def _has(product: Product, want: str) -> bool:
    """Whether an attribute agrees, or one text says it: what two texts say only side by side is said by neither."""
    wanted = normalize(want)
    return any(matches(own, want) for own in product.attributes) or any(
        wanted in normalize(text) for text in (product.title, *product.bullets)
    )


def _price_ok(price: float, goal: Goal) -> float:
    if goal.budget is None:
        return 0.0 if goal.budget_stated else 1.0
    return float(price <= goal.budget)
