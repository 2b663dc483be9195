"""The fixed catalogue of procedural lessons, each in many phrasings.

Two readers use it. The rule-based proposer turns a failure mechanism into a chunk of text. The warm start of the
tiny policy shows phrasings of the `TAUGHT` rules to a policy that learns to obey a rule when its chunk is in the
prompt; one phrasing in five is held out from that training, and the proposer writes only in held-out ones.
"""

import itertools
from functools import lru_cache

from intraskill.method.randomness import shuffled
from intraskill.method.skill.skill import Chunk

Parts = tuple[tuple[str, ...], ...]

USEFUL = ("search_features", "search_persona", "option_request", "option_persona")
HARMFUL = ("open_last",)
USELESS = ("stay_polite", "brands_vary")
TAUGHT = USEFUL + HARMFUL

_PHRASES: dict[str, tuple[Parts, ...]] = {
    "search_features": (
        (("Put", "Write", "Include", "Type"), ("every requested", "each requested", "all asked"),
         ("feature word", "quality"), ("in the search query", "in the query", "when you search")),
        (("Search with", "Query with"), ("all requested", "the asked"), ("qualities", "feature words"),
         ("and the product word", "next to the product word")),
    ),
    "search_persona": (
        (("Add", "Put", "Include", "Write"), ("the brand", "the favourite brand"),
         ("from the profile", "that the profile likes", "named in the profile"),
         ("to the search query", "in the query", "when you search")),
    ),
    "option_request": (
        (("Select", "Choose", "Click", "Press"), ("the color named in", "the color from", "the color of"),
         ("the request", "the task", "the user request"), ("before buying", "before you buy", "on the product page")),
    ),
    "option_persona": (
        (("Select", "Choose", "Click", "Press"), ("the size named in", "the size from", "the size of"),
         ("the profile", "the user profile", "the shopper profile"),
         ("before buying", "before you buy", "on the product page")),
    ),
    "open_last": (
        (("Open", "Pick", "Choose", "Click"), ("always the last", "simply the last", "only the bottom"),
         ("product", "result", "item"), ("listed", "on the page", "of the results")),
    ),
    "stay_polite": (
        (("Stay", "Be", "Remain"), ("polite", "calm", "patient"), ("while shopping", "at all times", "with the shop")),
    ),
    "brands_vary": (
        (("Remember", "Note", "Recall"), ("that brands", "that sellers", "that shops"),
         ("differ", "vary", "change"), ("a lot", "over time", "in quality")),
    ),
    "price_check": (
        (("Compare", "Check"), ("the price of the chosen variant", "the final price"),
         ("with the budget",), ("before buying", "before you buy")),
    ),
    "wrong_type": ((("Open", "Choose"), ("only products",), ("of the requested kind", "of the asked type")),),
    "invalid_action": ((("Reply with", "Send"), ("exactly one", "one single"), ("action that the page lists",)),),
    "action_limit": ((("Buy", "Finish"), ("as soon as",), ("every option is chosen", "all options are set")),),
}  # fmt: skip

_TITLES: dict[str, tuple[str, ...]] = {
    "search_features": ("Search words", "Query", "Search"),
    "search_persona": ("Brand", "Search brand", "Profile brand"),
    "option_request": ("Color", "Pick the color", "Color option"),
    "option_persona": ("Size", "Pick the size", "Size option"),
    "open_last": ("Opening", "Which result", "Results"),
    "stay_polite": ("Manners", "Tone", "Style"),
    "brands_vary": ("Brands", "Market", "Background"),
    "price_check": ("Price", "Budget"),
    "wrong_type": ("Kind", "Product kind"),
    "invalid_action": ("Actions", "Format"),
    "action_limit": ("Finish", "Steps"),
}
MECHANISMS = tuple(_PHRASES)


@lru_cache
def phrasings(rule: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the phrasings for training and the held-out ones (one in five), in a fixed drawn order."""
    texts = [" ".join(words) + "." for parts in _PHRASES[rule] for words in itertools.product(*parts)]
    order = shuffled(texts, 0, "phrasings", rule)
    held_out = max(2, len(order) // 5)
    return tuple(order[held_out:]), tuple(order[:held_out])


def titles(rule: str) -> tuple[str, ...]:
    """Return the titles that a rule's chunk may carry."""
    return _TITLES[rule]


_MARKET: dict[str, dict[str, tuple[str, str, str]]] = {
    "en": {
        "search_features": (
            "Search words",
            "Put every feature that the request names into the search query.",
            "Search with the product and all the features that the request names.",
        ),
        "search_persona": (
            "Preferences",
            "Add the brand and the features that the profile prefers to the search query.",
            "Search also with what the profile prefers, such as its brand.",
        ),
        "option_request": (
            "Requested options",
            "Choose the option values that the request names before you buy.",
            "On the product page, select each option value that the request names.",
        ),
        "option_persona": (
            "Preferred options",
            "Where the request names no option value, choose the one that the profile prefers.",
            "Select the option values that the profile prefers, unless the request says otherwise.",
        ),
        "open_last": ("Results", "Open the last result of the page.", "Choose the result at the bottom of the page."),
        "price_check": (
            "Price",
            "Compare the price of the chosen options with the budget before you buy.",
            "Buy only when the price with the chosen options is within the budget.",
        ),
        "wrong_type": (
            "Product kind",
            "Open only products of the kind that the request asks for.",
            "Before opening a result, check that it is the kind of product that is asked for.",
        ),
        "invalid_action": (
            "Actions",
            "Use only searches and buttons that the page offers.",
            "Before each action, check that the page offers it.",
        ),
        "action_limit": (
            "Finish",
            "Buy as soon as every option is chosen and the product fits.",
            "Once all options are chosen, buy without further steps.",
        ),
    },
    "zh": {
        "search_features": ("搜索词", "搜索时写上需求里提到的每个特点。", "搜索词里写商品名和需求提到的全部特点。"),
        "search_persona": ("偏好", "搜索词里加上用户画像偏好的品牌和特点。", "按用户画像的偏好(如品牌)补充搜索词。"),
        "option_request": ("需求规格", "购买前选择需求里写明的规格值。", "在商品页逐项选中需求提到的规格值。"),
        "option_persona": (
            "偏好规格",
            "需求没有写明规格时,选择用户画像偏好的规格值。",
            "除非需求另有说明,选中用户画像偏好的规格值。",
        ),
        "open_last": ("搜索结果", "打开本页最后一个结果。", "选择本页最下面的结果。"),
        "price_check": ("价格", "购买前核对所选规格的价格是否在预算内。", "只有所选规格的价格不超过预算时才购买。"),
        "wrong_type": ("商品类型", "只打开与需求同类的商品。", "打开结果之前,先确认它是需求要的那类商品。"),
        "invalid_action": ("操作", "只使用页面提供的搜索和按钮。", "每次操作之前,先确认页面提供这个操作。"),
        "action_limit": ("完成", "选好所有规格且商品合适时,立即购买。", "规格全部选好之后直接购买,不再多走步骤。"),
    },
}
"""Language of pages as people write them → mechanism → title and two wordings."""


def lesson_chunk(mechanism: str, variant: int = 0, language: str = "plain") -> Chunk:
    """Return the proposer's chunk for a mechanism: in plain pages its ``variant``-th held-out phrasing.

    Args:
        mechanism: name in the catalogue; pages as people write them have lessons on those that a proposer can see.
        variant: which wording; they repeat from some number on.
        language: of the pages, ``plain``, ``en`` or ``zh``.
    """
    if language != "plain":
        title, *wordings = _MARKET[language][mechanism]
        return Chunk(title, wordings[variant % len(wordings)])
    held_out = phrasings(mechanism)[1]
    names = _TITLES[mechanism]
    return Chunk(names[variant % len(names)], held_out[variant % len(held_out)])


def mechanism_of(chunk: Chunk) -> str | None:
    """Return the mechanism whose catalogue holds this chunk's body, or ``None``."""
    for mechanism in MECHANISMS:
        texts = (*phrasings(mechanism), *(table.get(mechanism, ()) for table in _MARKET.values()))
        if any(chunk.body in some for some in texts):
            return mechanism
    return None
