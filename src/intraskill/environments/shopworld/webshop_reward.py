"""The published WebShop reward, beside the rules of ShopSimulator in `reward`.

    r_loose  = r_type · (m_att + m_opt + r_price) / (|A| + |O| + 1)      the published score
    r_strict = r_success = 1[r_loose ≥ 1]                                 this project's main reward for WebShop
    r_type   = 1 if the queries agree, ≥ 2 category nodes are shared or t > 0.2; else 0.5;
               then 0.1 if t < 0.1 and 0 if t = 0, whatever the first line said

Source: WebShop (arXiv 2207.01206). Three approximations: t is read from `reward.title_terms` instead of a language
model's nouns; an option is reduced to the first plain colour word in it, from a shorter list than the published; and
that word stands alone, where the published rule also finds "tan" in "standing".
"""

import re
from collections.abc import Iterable, Mapping

from rapidfuzz import fuzz, utils

from intraskill.environments.shopworld.catalogue import Product
from intraskill.environments.shopworld.reward import Goal, normalize, shared_nodes, title_terms

MATCH_THRESHOLD = 85
_COLORS = (
    "beige", "black", "blue", "bronze", "brown", "burgundy", "champagne", "charcoal", "coral", "cream", "gold",
    "gray", "green", "grey", "ivory", "khaki", "lavender", "maroon", "mint", "navy", "olive", "orange", "peach",
    "pink", "purple", "red", "rose", "silver", "tan", "teal", "turquoise", "violet", "white", "wine", "yellow",
)  # fmt: skip


def score(product: Product, selected: Mapping[str, str], goal: Goal) -> dict[str, float]:
    """Return every reward component of buying ``product`` with ``selected`` options."""
    texts = [normalize(text) for text in (product.title, *product.bullets)]
    m_att = sum(
        _fits(product.attributes, want) or any(normalize(want) in text for text in texts) for want in goal.attributes
    )
    chosen = [_color(value) for value in selected.values()]
    m_opt = sum(_fits(chosen, _color(want)) for want in goal.options.values())
    r_price = float(goal.budget is None or product.price_of(selected) <= goal.budget)
    r_type = type_score(product, goal)
    r_loose = r_type * (m_att + m_opt + r_price) / (len(goal.attributes) + len(goal.options) + 1)
    return {
        "r_strict": float(r_loose >= 1),
        "r_loose": r_loose,
        "r_success": float(r_loose >= 1),
        "r_type": r_type,
        "r_att": m_att / len(goal.attributes) if goal.attributes else 1.0,
        "r_option": m_opt / len(goal.options) if goal.options else 1.0,
        "r_price": r_price,
    }


def type_score(product: Product, goal: Goal) -> float:
    """Return r_type; a title overlap below 0.1 overrides an equal query and shared categories."""
    wanted = title_terms(goal.title)
    overlap = len(set(title_terms(product.title)) & set(wanted)) / len(wanted) if wanted else 0.2
    if overlap == 0:
        return 0.0
    if overlap < 0.1:
        return 0.1
    same_query = bool(goal.query) and normalize(product.query) == normalize(goal.query)
    return 1.0 if same_query or shared_nodes(product, goal) >= 2 or overlap > 0.2 else 0.5


def _fits(offered: Iterable[str], want: str) -> bool:
    """Whether any value agrees; the published ratio is rounded before it is compared."""
    return any(
        round(fuzz.token_set_ratio(value, want, processor=utils.default_process)) > MATCH_THRESHOLD for value in offered
    )


def _color(value: str) -> str:
    value = normalize(value)
    words = re.findall("[a-z]+", value)
    return next((color for color in _COLORS if color in words), value)
