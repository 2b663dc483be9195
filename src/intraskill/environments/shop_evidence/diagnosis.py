"""What one episode teaches: the first responsible decision of a failure, up to three lessons of a success.

Later mistakes of a failure hide behind the first and are not reported.
"""

from collections.abc import Iterator, Sequence

from intraskill.environments.evidence import Finding
from intraskill.environments.shop_evidence.purchases import (
    EXECUTED,
    Purchase,
    Vocabulary,
    choosing_turn,
    contains,
    find_purchase,
    head_noun,
    instruction_and_persona,
    phrases_in,
    words_of,
)
from intraskill.method.leakage.text import Tokens
from intraskill.method.rewards import success_of
from intraskill.method.rollouts import Rollout

MAX_LESSONS_PER_SUCCESS = 3


def findings_of(rollout: Rollout, vocabulary: Vocabulary) -> tuple[Finding, ...]:
    """Return what the rollout teaches: up to three lessons of a success, or the first cause of a failure."""
    if succeeded(rollout):
        return explain_success(rollout, vocabulary)
    finding = diagnose(rollout, vocabulary)
    return () if finding is None else (finding,)


def succeeded(rollout: Rollout) -> bool:
    """Whether the episode reached full success."""
    return success_of(rollout.parts, rollout.reward) >= 1.0


def diagnose(rollout: Rollout, vocabulary: Vocabulary) -> Finding | None:
    """Return the first responsible decision of a failed rollout, or ``None`` when no rule explains it."""
    invalid = [i for i, turn in enumerate(rollout.turns) if turn.feedback != EXECUTED]
    purchase = find_purchase(rollout)
    if purchase is not None:
        found = sorted(_mistakes(rollout, purchase, vocabulary), key=lambda f: f.turn)  # stable: ties keep their order
        if found:
            return found[0]
    if invalid:
        turn = rollout.turns[invalid[0]]
        return Finding("invalid_action", invalid[0], f"{len(invalid)} invalid actions, the first: {turn.feedback}")
    if purchase is None and rollout.turns:
        return Finding("action_limit", len(rollout.turns) - 1, f"no purchase within {len(rollout.turns)} actions")
    return None


def _mistakes(rollout: Rollout, purchase: Purchase, vocabulary: Vocabulary) -> Iterator[Finding]:
    """Every mistake that the purchase shows; at one turn the request speaks before the persona."""
    lost = {part for part in ("r_att", "r_type", "r_option", "r_price") if rollout.parts.get(part, 1.0) < 1.0}
    request, persona = instruction_and_persona(rollout.request)
    if "r_att" in lost and purchase.search_turn is not None:
        for mechanism, wanted in (
            ("search_features", phrases_in(request, vocabulary)),
            ("search_persona", preferences(persona, request, purchase, vocabulary)),
        ):
            if missing := [p for p in wanted if not (set(p) <= purchase.query or contains(purchase.text, p))]:
                yield Finding(mechanism, purchase.search_turn, f"not in the query: {_spell(missing)}")
    if "r_type" in lost:
        turn = purchase.buy_turn if purchase.open_turn is None else purchase.open_turn
        yield Finding("wrong_type", turn, f"opened a product of kind {head_noun(purchase.product)!r}")
    if "r_option" in lost:
        for axis, (mechanism, wanted_values) in stated_options(request, persona, purchase).items():
            if purchase.selected.get(axis) not in wanted_values:
                turn = choosing_turn(rollout, purchase, axis)
                yield Finding(mechanism, turn, f"{axis}={purchase.selected.get(axis)}, stated {sorted(wanted_values)}")
    if "r_price" in lost:
        yield Finding("price_check", purchase.buy_turn, f"bought at {purchase.state.get('selected_price')}")


def explain_success(rollout: Rollout, vocabulary: Vocabulary) -> tuple[Finding, ...]:
    """Return at most three lessons of a success, in the order of the actions that they point at."""
    purchase = find_purchase(rollout)
    if purchase is None:
        return ()
    found = sorted(_merits(rollout, purchase, vocabulary), key=lambda f: f.turn)
    return tuple(found[:MAX_LESSONS_PER_SUCCESS])


def _merits(rollout: Rollout, purchase: Purchase, vocabulary: Vocabulary) -> Iterator[Finding]:
    request, persona = instruction_and_persona(rollout.request)
    if purchase.search_turn is not None:
        for mechanism, wanted in (
            ("search_features", phrases_in(request, vocabulary)),
            ("search_persona", preferences(persona, request, purchase, vocabulary)),
        ):
            if wanted and all(set(phrase) <= purchase.query for phrase in wanted):
                yield Finding(mechanism, purchase.search_turn, f"in the query: {_spell(wanted)}")
    if purchase.open_turn is not None:
        listed = rollout.turns[purchase.open_turn].state.get("products")
        rows = listed if isinstance(listed, list | tuple) else ()
        if len(rows) > 1 and rows[-1].get("id") == purchase.product.get("id"):
            yield Finding("open_last", purchase.open_turn, f"opened the last of {len(rows)} results")
    for axis, (mechanism, wanted_values) in stated_options(request, persona, purchase).items():
        if purchase.selected.get(axis) in wanted_values:
            yield Finding(mechanism, choosing_turn(rollout, purchase, axis), f"{axis}={purchase.selected[axis]}")


def preferences(persona: Tokens, request: Tokens, purchase: Purchase, vocabulary: Vocabulary) -> tuple[Tokens, ...]:
    """Phrases of the persona that products of the bought kind can carry and that the request does not repeat."""
    noun = head_noun(purchase.product)
    fitting = [phrase for phrase, nouns in vocabulary.items() if noun in nouns]
    return tuple(phrase for phrase in phrases_in(persona, fitting) if not contains(request, phrase))


def stated_options(request: Tokens, persona: Tokens, purchase: Purchase) -> dict[str, tuple[str, frozenset[str]]]:
    """Axis → (mechanism, stated values on offer); the request overrides the persona."""
    stated: dict[str, tuple[str, frozenset[str]]] = {}
    for axis, values in purchase.available.items():
        spelled = {words_of(value): value for value in values}
        for mechanism, text in (("option_request", request), ("option_persona", persona)):
            if found := phrases_in(text, spelled):
                stated[axis] = (mechanism, frozenset(spelled[phrase] for phrase in found))
                break
    return stated


def _spell(phrases: Sequence[Tokens]) -> str:
    return ", ".join(" ".join(phrase) for phrase in phrases)
