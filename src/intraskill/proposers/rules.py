"""The proposer without any LLM: the environment's own feedback, read by rules (`proposer.name=rules`).

It reads products, options and prices that a page's state holds as data. Of trajectories without any, such as those
recorded as text, it says nothing: how episodes ended is no reason for a lesson.

A failure has one responsible decision, the earliest turn that already dooms it; later mistakes hide behind it and
are not reported. A success teaches at most three lessons, each traceable to a logged action, and not all of them
are true: the gate decides. Both are written in the words of a fixed catalogue
(`intraskill.environments.shopworld.lessons`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from intraskill.environments.shopworld.lessons import MECHANISMS, lesson_chunk, phrasings
from intraskill.environments.shopworld.strings import STRINGS
from intraskill.method.leakage.filter import Tokens, normalise, tokens
from intraskill.method.rollouts import Rollout, Turn
from intraskill.method.skill.proposals import Proposal
from intraskill.method.skill.skill import Chunk, Skill
from intraskill.proposers.analysis_records import AnalysisRecord, call_id, rollout_id
from intraskill.proposers.llm import full_success
from intraskill.proposers.trace2skill import Analysis

EXECUTED = "executed"
UNREADABLE = "unreadable"
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


def _choosing_turn(rollout: Rollout, purchase: Purchase, axis: str) -> int:
    """Return the turn at which the bought value of ``axis`` was chosen, else the purchase itself."""
    choice = f"{axis}={purchase.selected.get(axis, '')}"
    turn = _last(rollout.turns, purchase.buy_turn, lambda turn: turn.argument == choice)
    return purchase.buy_turn if turn is None else turn


def read_vocabulary(rollouts: Iterable[Rollout]) -> dict[Tokens, frozenset[str]]:
    """Collect brands and attribute values of every product that any of the rollouts saw."""
    nouns_of: dict[Tokens, set[str]] = {}
    for row in (row for rollout in rollouts for turn in rollout.turns for row in _products_on(turn)):
        for phrase in [row.get("brand", ""), *row.get("key_attributes", ()), *row.get("attributes", ())]:
            if run := tokens(normalise(str(phrase))):
                nouns_of.setdefault(run, set()).add(_head_noun(row))
    return {phrase: frozenset(nouns) for phrase, nouns in nouns_of.items()}


def _head_noun(product: Mapping[str, Any]) -> str:
    """Return the most special category node of a product."""
    category = product.get("category", "")
    nodes = category.replace("›", "/").split("/") if isinstance(category, str) else list(category)
    return str(nodes[-1]).strip().casefold() if nodes else ""


def _phrases_in(text: Tokens, vocabulary: Iterable[Tokens]) -> tuple[Tokens, ...]:
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


def _products_on(turn: Turn) -> Iterator[Mapping[str, Any]]:
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


MAX_LESSONS_PER_SUCCESS = 3


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """A mechanism seen in one rollout.

    Attributes:
        mechanism: name in the lesson catalogue.
        turn: index of the responsible decision in `Rollout.turns`.
        evidence: what the log shows there, for the reader of the ledger; it never enters a chunk.
    """

    mechanism: str
    turn: int
    evidence: str


@dataclass(frozen=True, slots=True)
class RulesProposer:
    """Reads every rollout against the current skill; see `intraskill.proposers.trace2skill.Proposer`."""

    name: str = "rules"
    reducer: None = None
    prompts_hash: str = ""
    usage: None = None

    def analyse(self, rollouts: Sequence[Rollout], skill: Skill) -> Analysis:
        """Return one proposal per finding."""
        scored = sorted((r for r in rollouts if r.fault is None), key=rollout_id)
        vocabulary = read_vocabulary(scored)
        counts: Counter[str] = Counter(faults=len(rollouts) - len(scored))
        readable = any(any(_products_on(turn)) for rollout in scored for turn in rollout.turns)
        if not readable:
            counts[UNREADABLE] = len(scored)
        records = []
        for rollout in scored:
            findings = findings_of(rollout, vocabulary) if readable else ()
            counts.update(f"{_outcome(rollout)}/{f.mechanism}" for f in findings)
            made = [(p, f.turn + 1) for f in findings if (p := _propose(f, rollout, skill)) is not None]
            counts["no_proposal"] += not made
            records.append(_record(rollout, findings).proposing([p for p, _ in made], [turn for _, turn in made]))
        return Analysis(tuple(p for record in records for p in record.proposed), dict(counts), tuple(records))


def _record(rollout: Rollout, findings: Sequence[RuleFinding]) -> AnalysisRecord:
    kind: Literal["success", "failure"] = "success" if succeeded(rollout) else "failure"
    said = "; ".join(f"{f.mechanism}: {f.evidence}" for f in findings)
    responsible = findings[0].turn + 1 if findings and kind == "failure" else 0
    name = rollout_id(rollout)
    return AnalysisRecord(call_id(kind, name), kind, "rules", name, diagnosis=said, responsible_action=responsible)


def findings_of(rollout: Rollout, vocabulary: Vocabulary) -> tuple[RuleFinding, ...]:
    """Return what the rollout teaches: up to three lessons of a success, or the first cause of a failure."""
    if succeeded(rollout):
        return explain_success(rollout, vocabulary)
    finding = diagnose(rollout, vocabulary)
    return () if finding is None else (finding,)


def succeeded(rollout: Rollout) -> bool:
    """Whether the episode reached full success."""
    return full_success(rollout.parts, rollout.reward)


def diagnose(rollout: Rollout, vocabulary: Vocabulary) -> RuleFinding | None:
    """Return the first responsible decision of a failed rollout, or ``None`` when no rule explains it."""
    invalid = [i for i, turn in enumerate(rollout.turns) if turn.feedback != EXECUTED]
    purchase = find_purchase(rollout)
    if purchase is not None:
        found = sorted(_mistakes(rollout, purchase, vocabulary), key=lambda f: f.turn)  # stable: ties keep their order
        if found:
            return found[0]
    if invalid:
        turn = rollout.turns[invalid[0]]
        return RuleFinding("invalid_action", invalid[0], f"{len(invalid)} invalid actions, the first: {turn.feedback}")
    if purchase is None and rollout.turns:
        return RuleFinding("action_limit", len(rollout.turns) - 1, f"no purchase within {len(rollout.turns)} actions")
    return None


def _mistakes(rollout: Rollout, purchase: Purchase, vocabulary: Vocabulary) -> Iterator[RuleFinding]:
    """Every mistake that the purchase shows; at one turn the request speaks before the persona."""
    lost = {part for part in ("r_att", "r_type", "r_option", "r_price") if rollout.parts.get(part, 1.0) < 1.0}
    request, persona = instruction_and_persona(rollout.request)
    if "r_att" in lost and purchase.search_turn is not None:
        for mechanism, wanted in (
            ("search_features", _phrases_in(request, vocabulary)),
            ("search_persona", _preferences(persona, request, purchase, vocabulary)),
        ):
            if missing := [p for p in wanted if not (set(p) <= purchase.query or contains(purchase.text, p))]:
                yield RuleFinding(mechanism, purchase.search_turn, f"not in the query: {_spell(missing)}")
    if "r_type" in lost:
        turn = purchase.buy_turn if purchase.open_turn is None else purchase.open_turn
        yield RuleFinding("wrong_type", turn, f"opened a product of kind {_head_noun(purchase.product)!r}")
    if "r_option" in lost:
        for axis, (mechanism, wanted_values) in _stated_options(request, persona, purchase).items():
            if purchase.selected.get(axis) not in wanted_values:
                turn = _choosing_turn(rollout, purchase, axis)
                yield RuleFinding(
                    mechanism, turn, f"{axis}={purchase.selected.get(axis)}, stated {sorted(wanted_values)}"
                )
    if "r_price" in lost:
        yield RuleFinding("price_check", purchase.buy_turn, f"bought at {purchase.state.get('selected_price')}")


def explain_success(rollout: Rollout, vocabulary: Vocabulary) -> tuple[RuleFinding, ...]:
    """Return at most three lessons of a success, in the order of the actions that they point at."""
    purchase = find_purchase(rollout)
    if purchase is None:
        return ()
    found = sorted(_merits(rollout, purchase, vocabulary), key=lambda f: f.turn)
    return tuple(found[:MAX_LESSONS_PER_SUCCESS])


def _merits(rollout: Rollout, purchase: Purchase, vocabulary: Vocabulary) -> Iterator[RuleFinding]:
    request, persona = instruction_and_persona(rollout.request)
    if purchase.search_turn is not None:
        for mechanism, wanted in (
            ("search_features", _phrases_in(request, vocabulary)),
            ("search_persona", _preferences(persona, request, purchase, vocabulary)),
        ):
            if wanted and all(set(phrase) <= purchase.query for phrase in wanted):
                yield RuleFinding(mechanism, purchase.search_turn, f"in the query: {_spell(wanted)}")
    if purchase.open_turn is not None:
        listed = rollout.turns[purchase.open_turn].state.get("products")
        rows = listed if isinstance(listed, list | tuple) else ()
        if len(rows) > 1 and rows[-1].get("id") == purchase.product.get("id"):
            yield RuleFinding("open_last", purchase.open_turn, f"opened the last of {len(rows)} results")
    for axis, (mechanism, wanted_values) in _stated_options(request, persona, purchase).items():
        if purchase.selected.get(axis) in wanted_values:
            yield RuleFinding(mechanism, _choosing_turn(rollout, purchase, axis), f"{axis}={purchase.selected[axis]}")


def _preferences(persona: Tokens, request: Tokens, purchase: Purchase, vocabulary: Vocabulary) -> tuple[Tokens, ...]:
    """Phrases of the persona that products of the bought kind can carry and that the request does not repeat."""
    noun = _head_noun(purchase.product)
    fitting = [phrase for phrase, nouns in vocabulary.items() if noun in nouns]
    return tuple(phrase for phrase in _phrases_in(persona, fitting) if not contains(request, phrase))


def _stated_options(request: Tokens, persona: Tokens, purchase: Purchase) -> dict[str, tuple[str, frozenset[str]]]:
    """Axis → (mechanism, stated values on offer); the request overrides the persona."""
    stated: dict[str, tuple[str, frozenset[str]]] = {}
    for axis, values in purchase.available.items():
        spelled = {words_of(value): value for value in values}
        for mechanism, text in (("option_request", request), ("option_persona", persona)):
            if found := _phrases_in(text, spelled):
                stated[axis] = (mechanism, frozenset(spelled[phrase] for phrase in found))
                break
    return stated


def _propose(finding: RuleFinding, rollout: Rollout, skill: Skill) -> Proposal | None:
    """Write a finding as an ADD, as a REWRITE of a shown chunk that did not help, or not at all."""
    if finding.mechanism not in MECHANISMS:
        return None
    covering = [chunk for chunk in skill.chunks if mechanism_of(chunk) == finding.mechanism]
    support = (rollout_id(rollout),)
    if not covering:
        chunk = lesson_chunk(finding.mechanism)
        return Proposal("ADD", (), (chunk,), finding.mechanism, support, _EFFECTS[succeeded(rollout)])
    shown = [chunk for chunk in covering if chunk.id in rollout.visible]
    if succeeded(rollout) or not shown:
        return None
    old = shown[0]
    new = next(c for c in (lesson_chunk(finding.mechanism, 1), lesson_chunk(finding.mechanism)) if c.body != old.body)
    if new.id in skill.ids:
        return None
    return Proposal("REWRITE", (old.id,), (new,), finding.mechanism, support, "the new wording is followed more often")


_EFFECTS = {True: "more episodes repeat what this one did right", False: "fewer episodes fail this way"}


def mechanism_of(chunk: Chunk) -> str | None:
    """Return the mechanism whose catalogue holds this chunk's body, or ``None``."""
    return next((m for m in MECHANISMS if any(chunk.body in texts for texts in phrasings(m))), None)


def _outcome(rollout: Rollout) -> str:
    return "success" if succeeded(rollout) else "failure"


def _spell(phrases: Sequence[Tokens]) -> str:
    return ", ".join(" ".join(phrase) for phrase in phrases)
