"""Decisions at which a lesson could be followed, and whether what the lesson is for came out (`Sighting`).

A lesson on the query is judged feature by feature: the product bought has it or not. One on options is judged by the
options bought, one on the price by the price, and so on; where the reward has no such part, by full success. Lessons on
the course of an episode are always judged by success.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from intraskill.environments.evidence import Sighting
from intraskill.environments.shop_evidence.diagnosis import preferences, stated_options, succeeded
from intraskill.environments.shop_evidence.purchases import (
    BUY,
    EXECUTED,
    Purchase,
    Vocabulary,
    contains,
    find_purchase,
    head_noun,
    instruction_and_persona,
    phrases_in,
    words_of,
)
from intraskill.environments.shopworld.budget import budget_of
from intraskill.method.rollouts import Rollout


def sightings_of(rollout: Rollout, vocabulary: Vocabulary) -> Iterator[Sighting]:
    """Yield every decision of an episode that one of the lessons is on."""
    success = succeeded(rollout)
    if rollout.turns:
        refused = any(turn.feedback != EXECUTED for turn in rollout.turns)
        yield Sighting("invalid_action", not refused, success)
    ready = [turn for turn in rollout.turns if _can_buy(turn.state) and turn.feedback == EXECUTED]
    if ready:
        yield Sighting("action_limit", ready[0].argument.casefold() in BUY, success)
    purchase = find_purchase(rollout)
    if purchase is not None:
        yield from _at_purchase(rollout, purchase, vocabulary, success)


def _can_buy(state: Mapping[str, Any]) -> bool:
    return bool(state.get("available_options")) and state.get("missing_option_axes") == []


def _at_purchase(rollout: Rollout, purchase: Purchase, vocabulary: Vocabulary, success: bool) -> Iterator[Sighting]:
    def worked(part: str) -> bool:
        return rollout.parts[part] >= 1.0 if part in rollout.parts else success

    request, persona = instruction_and_persona(rollout.request)
    if purchase.search_turn is not None:
        for mechanism, wanted in (
            ("search_features", phrases_in(request, vocabulary)),
            ("search_persona", preferences(persona, request, purchase, vocabulary)),
        ):
            for phrase in wanted:
                yield Sighting(mechanism, set(phrase) <= purchase.query, contains(purchase.text, phrase))
    if purchase.open_turn is not None:
        rows = rollout.turns[purchase.open_turn].state.get("products")
        if isinstance(rows, list | tuple) and len(rows) > 1:
            yield Sighting("open_last", rows[-1].get("id") == purchase.product.get("id"), success)
        if noun := words_of(head_noun(purchase.product)):
            yield Sighting("wrong_type", contains(request, noun), worked("r_type"))
    for axis, (mechanism, wanted_values) in stated_options(request, persona, purchase).items():
        yield Sighting(mechanism, purchase.selected.get(axis) in wanted_values, worked("r_option"))
    budget, price = budget_of(rollout.request.partition("\n")[0])[0], purchase.state.get("selected_price")
    if budget is not None and isinstance(price, int | float):
        yield Sighting("price_check", price <= budget, worked("r_price"))
