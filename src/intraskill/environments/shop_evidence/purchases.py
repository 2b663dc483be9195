"""The decisions that led to a purchase, and the words that products carry, from public states alone."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.environments.shopworld.strings import STRINGS
from intraskill.method.leakage.text import Tokens, normalise, tokens
from intraskill.method.rollouts import Rollout, Turn

EXECUTED = "executed"
BUY = frozenset(words.buy for words in STRINGS.values())

# A phrase (a brand or an attribute value) → head nouns of the products that carry it.
Vocabulary = Mapping[Tokens, frozenset[str]]


@dataclass(frozen=True, slots=True)
class Purchase:
    """The decisions that led to a purchase; turns are indexes into `Rollout.turns`.

    Attributes:
        search_turn: the search whose results held the product, or ``None``.
        query: its words.
        open_turn: the click that opened the product, or ``None``.
        rank: position of the product in the results, from 1; 0 when unknown.
        buy_turn: the purchase.
        state: the public product page at the purchase.
    """

    search_turn: int | None
    query: frozenset[str]
    open_turn: int | None
    rank: int
    buy_turn: int
    state: Mapping[str, Any]

    @property
    def product(self) -> Mapping[str, Any]:
        """The public product record."""
        return _mapping(self.state.get("product"))

    @property
    def text(self) -> Tokens:
        """Tokens of everything that the product page says about the product."""
        return words_of(self.product)

    @property
    def selected(self) -> Mapping[str, str]:
        """Axis → chosen value."""
        return _mapping(self.state.get("selected_options"))

    @property
    def available(self) -> Mapping[str, Sequence[str]]:
        """Axis → values on offer."""
        return _mapping(self.state.get("available_options"))


def instruction_and_persona(request: str) -> tuple[Tokens, Tokens]:
    """Split a public request into its first line, which is the instruction, and the persona after it."""
    instruction, _, persona = request.partition("\n")
    return tokens(normalise(instruction)), tokens(normalise(persona))


def find_purchase(rollout: Rollout) -> Purchase | None:
    """Return the purchase that ended the episode, or ``None``."""
    turns = rollout.turns
    buys = [i for i, turn in enumerate(turns) if turn.argument in BUY and turn.feedback == EXECUTED]
    if not buys:
        return None
    buy_turn = buys[-1]
    state = turns[buy_turn].state
    product_id = str(_mapping(state.get("product")).get("id", ""))
    open_turn = _last(turns, buy_turn, lambda turn: bool(product_id) and turn.argument == product_id)
    search_turn = _last(turns, buy_turn if open_turn is None else open_turn, lambda turn: turn.tool == "search")
    query = turns[search_turn].argument if search_turn is not None else ""
    listed = turns[open_turn].state.get("products") if open_turn is not None else ()
    ranks = [row.get("rank", 0) for row in _rows(listed) if row.get("id") == product_id]
    words = frozenset(tokens(normalise(query)))
    return Purchase(search_turn, words, open_turn, int(ranks[0]) if ranks else 0, buy_turn, state)


def choosing_turn(rollout: Rollout, purchase: Purchase, axis: str) -> int:
    """Return the turn at which the bought value of ``axis`` was chosen, else the purchase itself."""
    choice = f"{axis}={purchase.selected.get(axis, '')}"
    turn = _last(rollout.turns, purchase.buy_turn, lambda turn: turn.argument == choice)
    return purchase.buy_turn if turn is None else turn


def read_vocabulary(rollouts: Iterable[Rollout]) -> dict[Tokens, frozenset[str]]:
    """Collect brands and attribute values of every product that any of the rollouts saw."""
    nouns_of: dict[Tokens, set[str]] = {}
    for row in (row for rollout in rollouts for turn in rollout.turns for row in products_on(turn)):
        for phrase in [row.get("brand", ""), *row.get("key_attributes", ()), *row.get("attributes", ())]:
            if run := tokens(normalise(str(phrase))):
                nouns_of.setdefault(run, set()).add(head_noun(row))
    return {phrase: frozenset(nouns) for phrase, nouns in nouns_of.items()}


def head_noun(product: Mapping[str, Any]) -> str:
    """Return the most special category node of a product."""
    category = product.get("category", "")
    nodes = category.replace("›", "/").split("/") if isinstance(category, str) else list(category)
    return str(nodes[-1]).strip().casefold() if nodes else ""


def phrases_in(text: Tokens, vocabulary: Iterable[Tokens]) -> tuple[Tokens, ...]:
    """Return the phrases that occur in ``text``, sorted; a phrase inside a longer one that occurs is left out."""
    found = sorted({phrase for phrase in vocabulary if contains(text, phrase)})
    return tuple(p for p in found if not any(p != other and contains(other, p) for other in found))


def contains(text: Tokens, phrase: Tokens) -> bool:
    """Whether ``phrase`` occurs in ``text`` as a run of tokens."""
    n = len(phrase)
    return n > 0 and any(text[i : i + n] == phrase for i in range(len(text) - n + 1))


def words_of(value: object) -> Tokens:
    """Return the tokens of every string inside a JSON-like value, in order, its keys left out."""
    if isinstance(value, str):
        return tokens(normalise(value))
    if isinstance(value, Mapping):
        return tuple(word for item in value.values() for word in words_of(item))
    if isinstance(value, list | tuple):
        return tuple(word for item in value for word in words_of(item))
    return ()


def products_on(turn: Turn) -> Iterator[Mapping[str, Any]]:
    """Yield the records of every product that a page shows."""
    yield from _rows(turn.state.get("products"))
    if product := _mapping(turn.state.get("product")):
        yield product


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list | tuple) else []


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _last(turns: Sequence[Turn], before: int, holds: Callable[[Turn], bool]) -> int | None:
    """Index of the last executed turn before ``before`` for which ``holds``."""
    return next((i for i in range(before - 1, -1, -1) if turns[i].feedback == EXECUTED and holds(turns[i])), None)
