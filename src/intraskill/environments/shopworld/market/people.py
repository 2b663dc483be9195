"""Users of the market: their personas, what they want, and how the full request and the short one say it."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from intraskill.environments.shopworld.market.draws import Draws
from intraskill.environments.shopworld.market.goods import Fact, Item, worded
from intraskill.environments.shopworld.market.words import Axis, Noun, Value, Words

_ATTRIBUTE_WEIGHTS = (0.16, 0.26, 0.24, 0.15, 0.09, 0.06, 0.03, 0.02)  # two to nine goal attributes
_SOFT_WEIGHTS = (0.20, 0.40, 0.28, 0.12)  # one to four soft constraints
_BRAND_RATE = 0.44
OTHER_WORDING_RATE = 0.45
_BUDGETS = (("about", 0.61), ("hard", 0.35), ("none", 0.04))
MARGIN = (1.0, 1.12)
CONFLICT_RATE = 0.25


@dataclass(frozen=True, slots=True)
class Want:
    """One constraint of a task.

    Attributes:
        kind: ``brand``, ``feature``, an axis (``option``), or a facet's kind.
        value: the wanted value.
        soft: left out of the short request; only the persona tells it.
        fact: the product's fact, for attributes.
        axis: the option axis, for options.
    """

    kind: str
    value: Value
    soft: bool = False
    fact: Fact | None = None
    axis: Axis | None = None


@dataclass(frozen=True, slots=True)
class Wish:
    """Everything that a user wants of one product.

    Attributes:
        item: the product behind it.
        wants: its constraints.
        options: wanted axis → value.
        budget_kind: ``about``, ``hard`` or ``none``.
        budget: what the user may pay, in currency units; ``None`` without a budget.
        conflict: a persona preference that the request overrides.
    """

    item: Item
    wants: tuple[Want, ...]
    options: dict[str, str]
    budget_kind: str
    budget: float | None
    number: int
    conflict: Want | None


def draw_wish(item: Item, draws: Draws) -> Wish:
    """Draw what a user wants, such that this product satisfies it."""
    count = 2 + draws.weighted(_ATTRIBUTE_WEIGHTS)
    wants = [Want("brand", Value(item.product.brand))] if draws.chance(_BRAND_RATE) else []
    facts = draws.sample(item.facts, count - len(wants))
    wants += [Want(fact.facet.kind if fact.facet else "feature", fact.value, fact=fact) for fact in facts]
    options = {axis: draws.pick(values).value for axis, values in item.product.axes.items()}
    wants += [Want("option", Value(options[axis.name]), axis=axis) for axis in item.axes]
    wants = _soften(wants, draws)
    kind = _BUDGETS[draws.weighted([weight for _, weight in _BUDGETS])][0]
    price = item.product.price_of(options) * draws.between(*MARGIN)
    number = math.ceil(price / 1.1) if kind == "about" else math.ceil(price)
    budget = {"about": round(number * 1.1, 2), "hard": float(number), "none": None}[kind]
    conflict = _conflict(wants, draws) if draws.chance(CONFLICT_RATE) else None
    return Wish(item, tuple(wants), options, kind, budget, number, conflict)


def _soften(wants: list[Want], draws: Draws) -> list[Want]:
    """Make one to four constraints soft; at least one attribute stays in the short request."""
    count = 1 + draws.weighted(_SOFT_WEIGHTS)
    attributes = [i for i, want in enumerate(wants) if want.kind != "option"]
    stays = draws.pick(attributes)
    candidates = [i for i in range(len(wants)) if i != stays]
    soft = set(draws.sample(candidates, count))
    return [Want(w.kind, w.value, i in soft, w.fact, w.axis) for i, w in enumerate(wants)]


def _conflict(wants: Sequence[Want], draws: Draws) -> Want | None:
    """Draw a preference against a constraint that the short request states."""
    stated = [want for want in wants if not want.soft and (want.axis or (want.fact and want.fact.facet))]
    if not stated:
        return None
    want = draws.pick(stated)
    if want.axis is not None:
        return Want("option", Value(draws.pick([v for v in want.axis.values if v != want.value.name])), axis=want.axis)
    assert want.fact is not None and want.fact.facet is not None
    other = draws.pick([value for value in want.fact.facet.values if value != want.value])
    return Want(want.kind, other, fact=Fact(want.fact.facet, other))


def write_request(wish: Wish, words: Words, draws: Draws) -> tuple[str, str]:
    """Return the full instruction and the short request: the same sentences, with and without the soft constraints."""
    phrases = words.phrases
    noun = with_article(worded(wish.item.noun.value, draws, OTHER_WORDING_RATE), words)
    opening = draws.pick(phrases["openings"])
    order = draws.sample(wish.wants, len(wish.wants))
    phrased = [(want, _say(want, words, draws)) for want in order]
    feature_say, budget = draws.pick(phrases["feature_say"]), _budget(wish, words, draws)
    texts = []
    for shown in (phrased, [(want, text) for want, text in phrased if not want.soft]):
        plain = [text for want, text in shown if want.kind != "feature"]
        features = [text for want, text in shown if want.kind == "feature"]
        head = f"{opening}{phrases['joiner']}{noun}"
        clauses = phrases["clause_joiner"].join([head, *plain, *budget])
        more = [feature_say.format(phrases["last_joiner"].join(features))] if features else []
        texts.append(phrases["sentence_end"].join([clauses, *more]) + phrases["full_stop"])
    return texts[0], texts[1]


def _say(want: Want, words: Words, draws: Draws) -> str:
    by_name = want.axis is not None or want.kind == "brand"
    return said(want, want.value.name if by_name else worded(want.value, draws, OTHER_WORDING_RATE), words, draws)


def said(want: Want, wording: str, words: Words, draws: Draws) -> str:
    """Return a constraint as the phrase that its axis, brand or facet takes; a feature is its own wording."""
    if want.axis is not None:
        return want.axis.say.format(wording)
    if want.kind == "brand":
        return str(draws.pick(words.phrases["brand_say"])).format(wording)
    return want.fact.facet.say.format(wording) if want.fact is not None and want.fact.facet else wording


def with_article(noun: str, words: Words) -> str:
    """Return a noun as a sentence takes it: a toaster, an air fryer, running shoes."""
    if not words.phrases["article"] or (noun.endswith("s") and not noun.endswith("ss")):
        return noun
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


def _budget(wish: Wish, words: Words, draws: Draws) -> list[str]:
    if wish.budget_kind == "none":
        return []
    phrase = str(draws.pick(words.phrases[f"number_{wish.budget_kind}"]))
    return [phrase.format(wish.number, low=round(0.6 * wish.number), high=wish.number)]


YOUNGEST, OLDEST = 19, 73
USUAL_STEP = 10
USUAL_LOW, USUAL_HIGH = (0.2, 0.6), (1.0, 1.6)  # a request may name a range that begins at 0.6 of its number
_IRRELEVANT = (2, 4)
_HISTORY_RATE = 0.3
SECTIONS = ("searches", "purchases", "brand", "material", "color", "size", "style", "function")
_STYLE_KINDS = ("style", "pattern", "finish", "fit", "shape", "texture")


def write_persona(wishes: Sequence[Wish], words: Words, draws: Draws) -> str:
    """Return the document of the user of these tasks; it holds every section, whatever is in it.

    Each soft constraint stands under its preference heading or in a history, tied to its kind of product; two to four
    preferences for other kinds of products are irrelevant, and a conflicting one speaks against a request.
    """
    phrases = words.phrases["persona"]
    lines: dict[str, list[str]] = defaultdict(list)
    told = [(wish.item.noun, want) for wish in wishes for want in wish.wants if want.soft]
    told += [(wish.item.noun, wish.conflict) for wish in wishes if wish.conflict is not None]
    own = {wish.item.noun.kind for wish in wishes}
    told += [
        _irrelevant(words, own, draws) for _ in range(_IRRELEVANT[0] + draws.below(_IRRELEVANT[1] - _IRRELEVANT[0] + 1))
    ]
    for noun, want in draws.sample(told, len(told)):
        section, line = _line(noun, want, words, draws)
        lines[section].append(line)
    for section in ("searches", "purchases"):
        for _ in range(1 + draws.below(2)):
            lines[section].insert(draws.below(len(lines[section]) + 1), _trivia(section, words, own, draws))
    person = _person(wishes, words, draws)
    document = [phrases["title"]]
    for section in ("basics", "household", "lifestyle", *SECTIONS, "price", "habits"):
        found = person.get(section) or lines[section] or [phrases["none"]]
        document.append(f"{phrases[section]}{phrases['colon']}{phrases['item_joiner'].join(found)}")
    return "\n".join(document)


def _section_of(want: Want) -> str:
    """Return the heading under which a preference stands."""
    if want.axis is not None:
        return "color" if want.axis.is_color else "size"
    if want.kind in ("brand", "material"):
        return want.kind
    return "style" if want.kind in _STYLE_KINDS else "function"


def _line(noun: Noun, want: Want, words: Words, draws: Draws) -> tuple[str, str]:
    phrases, section = words.phrases["persona"], _section_of(want)
    value, count = want.value.name, 3 + draws.below(6)
    if draws.chance(_HISTORY_RATE) and section != "size":
        if section == "brand":
            return "purchases", draws.pick(phrases["bought"]).format(brand=value, noun=noun.value.name, count=count)
        return "searches", draws.pick(phrases["searched"]).format(value=value, noun=noun.value.name, count=count)
    said_of = "feature_preference" if want.kind == "feature" else "preference"
    name = noun.value.name
    phrase = said(want, value, words, draws)
    return section, draws.pick(phrases[said_of]).format(noun=name, a_noun=with_article(name, words), said=phrase)


def _irrelevant(words: Words, own: set[str], draws: Draws) -> tuple[Noun, Want]:
    """Draw a preference for a kind of product that none of the user's tasks is about."""
    noun = _other_noun(words, own, draws)
    draw = draws.number()
    if draw < 0.3:
        return noun, Want("brand", Value(draws.pick(words.brands)))
    if draw < 0.6:
        axis = draws.pick(noun.axes)
        return noun, Want("option", Value(draws.pick(axis.values)), axis=axis)
    facet = draws.pick(noun.facets)
    value = draws.pick(facet.values)
    return noun, Want(facet.kind, value, fact=Fact(facet, value))


def _trivia(section: str, words: Words, own: set[str], draws: Draws) -> str:
    phrases = words.phrases["persona"]
    noun = _other_noun(words, own, draws)
    low, high = words.domains[noun.domain].prices
    text = str(draws.pick(phrases["trivia_search" if section == "searches" else "trivia_purchase"]))
    price, stars = round(draws.between(low, high)), 2 + draws.below(4)
    return text.format(noun=noun.value.name, price=price, stars=stars, currency=words.phrases["currency"])


def _other_noun(words: Words, own: set[str], draws: Draws) -> Noun:
    noun = draws.pick(words.nouns)
    while noun.kind in own:
        noun = draws.pick(words.nouns)
    return noun


def _person(wishes: Sequence[Wish], words: Words, draws: Draws) -> dict[str, list[str]]:
    phrases = words.phrases["persona"]
    age = YOUNGEST + draws.below(OLDEST - YOUNGEST + 1)

    def fitting(table: str) -> list[str]:
        spans = [(*map(int, ages.split("-")), texts) for ages, texts in phrases[table].items()]
        return [text for youngest, oldest, texts in spans if youngest <= age <= oldest for text in texts]

    basics = phrases["basic_line"].format(
        name=draws.pick(fitting("names")),
        age=age,
        job=draws.pick(fitting("jobs")),
        city=draws.pick(phrases["cities"]),
    )
    low, high = _usual_spending(wishes, draws)
    money = {"low": low, "high": high, "currency": words.phrases["currency"]}
    return {
        "basics": [basics],
        "household": [draws.pick(fitting("households"))],
        "lifestyle": draws.sample(fitting("lifestyles"), 2),
        "price": [draws.pick(phrases["prices"]).format(**money)],
        "habits": draws.sample(phrases["shopping"], 2),
    }


def _usual_spending(wishes: Sequence[Wish], draws: Draws) -> tuple[int, int]:
    """Return a usual price range that no request of this user contradicts, in tens of the currency."""
    smallest, largest = min(wish.number for wish in wishes), max(wish.budget or wish.number for wish in wishes)
    low = max(USUAL_STEP, math.floor(smallest * draws.between(*USUAL_LOW) / USUAL_STEP) * USUAL_STEP)
    return low, max(low + USUAL_STEP, math.ceil(largest * draws.between(*USUAL_HIGH) / USUAL_STEP) * USUAL_STEP)
