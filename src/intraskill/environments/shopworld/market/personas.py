"""Users: a persona document per user, which holds the soft constraints of all their tasks among much else."""

from collections import defaultdict
from collections.abc import Sequence

from intraskill.environments.shopworld.market.draws import Draws
from intraskill.environments.shopworld.market.requests import Want, Wish
from intraskill.environments.shopworld.market.words import Noun, Value, Words

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
    person = _person(words, draws)
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
    return section, draws.pick(phrases["preference"]).format(noun=noun.value.name, value=value)


def _irrelevant(words: Words, own: set[str], draws: Draws) -> tuple[Noun, Want]:
    """Draw a preference for a kind of product that none of the user's tasks is about."""
    noun = _other_noun(words, own, draws)
    domain = words.domains[noun.domain]
    draw = draws.number()
    if draw < 0.3:
        return noun, Want("brand", Value(draws.pick(words.brands)))
    if draw < 0.6:
        axis = draws.pick(domain.axes)
        return noun, Want("option", Value(draws.pick(axis.values)), axis=axis)
    facet = draws.pick(domain.facets)
    return noun, Want(facet.kind, draws.pick(facet.values))


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


def _person(words: Words, draws: Draws) -> dict[str, list[str]]:
    phrases = words.phrases["persona"]
    low = 10 * (1 + draws.below(9))
    money = {"low": low, "high": low * (2 + draws.below(4)), "currency": words.phrases["currency"]}
    basics = phrases["basic_line"].format(
        name=draws.pick(phrases["names"]),
        age=19 + draws.below(55),
        job=draws.pick(phrases["jobs"]),
        city=draws.pick(phrases["cities"]),
    )
    return {
        "basics": [basics],
        "household": [draws.pick(phrases["households"])],
        "lifestyle": draws.sample(phrases["lifestyles"], 2),
        "price": [draws.pick(phrases["prices"]).format(**money)],
        "habits": draws.sample(phrases["shopping"], 2),
    }
