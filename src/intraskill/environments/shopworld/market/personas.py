"""Users: a persona document per user, which holds the soft constraints of all their tasks among much else."""

import math
from collections import defaultdict
from collections.abc import Sequence

from intraskill.environments.shopworld.market.draws import Draws
from intraskill.environments.shopworld.market.goods import Fact
from intraskill.environments.shopworld.market.requests import Want, Wish, said, with_article
from intraskill.environments.shopworld.market.words import Noun, Value, Words

YOUNGEST, OLDEST = 19, 73
USUAL_STEP = 10
USUAL_LOW, USUAL_HIGH = (0.2, 0.6), (1.0, 1.6)  # a request may name a range that begins at 0.6 of its number
IRRELEVANT = (2, 4)
HISTORY_RATE = 0.3
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
        _irrelevant(words, own, draws) for _ in range(IRRELEVANT[0] + draws.below(IRRELEVANT[1] - IRRELEVANT[0] + 1))
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


def section_of(want: Want) -> str:
    """Return the heading under which a preference stands."""
    if want.axis is not None:
        return "color" if want.axis.is_color else "size"
    if want.kind in ("brand", "material"):
        return want.kind
    return "style" if want.kind in _STYLE_KINDS else "function"


def _line(noun: Noun, want: Want, words: Words, draws: Draws) -> tuple[str, str]:
    phrases, section = words.phrases["persona"], section_of(want)
    value, count = want.value.name, 3 + draws.below(6)
    if draws.chance(HISTORY_RATE) and section != "size":
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
