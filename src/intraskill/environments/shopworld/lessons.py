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


def lesson_chunk(mechanism: str, variant: int = 0) -> Chunk:
    """Return the proposer's chunk for a mechanism, in its ``variant``-th held-out phrasing."""
    held_out = phrasings(mechanism)[1]
    names = _TITLES[mechanism]
    return Chunk(names[variant % len(names)], held_out[variant % len(held_out)])
