"""Families of near-duplicate products, titled as shops title them; dearer twins share a description (price traps)."""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from intraskill.environments.shopworld.catalogue import OptionValue, Product
from intraskill.environments.shopworld.market.draws import Draws
from intraskill.environments.shopworld.market.words import Axis, Facet, Noun, Value, Words

TRAP_RATE = 0.30
_TRAP_FACTOR = (1.5, 2.6)
OTHER_WORDING_RATE = 0.45
_LISTED_RATE = 0.7
_AXES_WEIGHTS = (0.01, 0.73, 0.25, 0.01)  # none, one, two, three option axes
_FAMILY_SIZE = (4, 40)
_BRANDS_PER_DOMAIN = 20


@dataclass(frozen=True, slots=True)
class Fact:
    """One answer of one product: a facet value, or a feature (``facet`` is ``None``)."""

    facet: Facet | None
    value: Value


@dataclass(frozen=True, slots=True)
class Item:
    """A product and the facts from which its texts were written."""

    product: Product
    noun: Noun
    facts: tuple[Fact, ...]
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """What near-duplicates share: the noun, candidate answers per facet, option axes, a price level."""

    noun: Noun
    candidates: tuple[tuple[Facet, tuple[Value, ...]], ...]
    features: tuple[Value, ...]
    brands: tuple[str, ...]
    axes: tuple[Axis, ...]
    priced: Axis | None
    price: float


def items_of_noun(words: Words, noun: Noun, brands: Sequence[str], quota: int, seed: int) -> list[Item]:
    """Return ``quota`` products of one head noun, in families of drawn sizes."""
    items: list[Item] = []
    number = 0
    while len(items) < quota:
        where = (noun.value.name, number)
        draws = Draws(seed, "family", *where)
        low, high = _FAMILY_SIZE
        size = min(round(low * (high / low) ** draws.number()), quota - len(items))
        family = _family(words, noun, brands, draws)
        last: Item | None = None
        for k in range(size):
            member = Draws(seed, "product", *where, k)
            product_id = _product_id(seed, *where, k)
            if last is not None and member.chance(TRAP_RATE):
                items.append(_trap(last, words, product_id, member))
            else:
                last = _member(family, words, product_id, member)
                items.append(last)
        number += 1
    return items


def brands_of_domains(words: Words, seed: int) -> list[list[str]]:
    """Return the brands of every domain; no brand stands in two."""
    order = Draws(seed, "brands").sample(words.brands, len(words.brands))
    n = _BRANDS_PER_DOMAIN
    return [order[i * n : (i + 1) * n] for i in range(len(words.domains))]


def _product_id(seed: int, *where: str | int) -> str:
    """Return 20 capital letters and digits: 96 bits, so that ids do not repeat."""
    digest = hashlib.blake2b(repr((seed, "id", where)).encode(), digest_size=12).digest()
    return base64.b32encode(digest)[:20].decode()


def _family(words: Words, noun: Noun, brands: Sequence[str], draws: Draws) -> Family:
    candidates = tuple((facet, tuple(draws.sample(facet.values, 1 + draws.below(4)))) for facet in noun.facets)
    axes = _family_axes(noun, words, draws)
    priced = next((axis for axis in axes if not axis.is_color), None)
    if priced is not None and draws.chance(0.5):
        priced = None
    low, high = words.domains[noun.domain].prices
    return Family(
        noun=noun,
        candidates=candidates,
        features=tuple(draws.sample(noun.features, 6)),
        brands=tuple(draws.sample(brands, 3 + draws.below(6))),
        axes=axes,
        priced=priced,
        price=low * (high / low) ** draws.number(),
    )


def _family_axes(noun: Noun, words: Words, draws: Draws) -> tuple[Axis, ...]:
    """Draw the option axes; near-duplicates offer nearly the same values."""
    count = draws.weighted(_AXES_WEIGHTS)
    chosen = [axis for axis in (*draws.sample(noun.axes, min(count, 2)), words.package)[:count]]
    axes = []
    for axis in (axis for axis in (*noun.axes, words.package) if axis in chosen):
        kept = set(draws.sample(axis.values, 3 + draws.below(3)))
        axes.append(replace(axis, values=tuple(value for value in axis.values if value in kept)))
    return tuple(axes)


def _member(family: Family, words: Words, product_id: str, draws: Draws) -> Item:
    facts = [Fact(facet, draws.pick(values)) for facet, values in family.candidates]
    facts += [Fact(None, value) for value in draws.sample(family.features, 2 + draws.below(3))]
    brand = draws.pick(family.brands)
    price = _shop_price(family.price * draws.between(0.75, 1.35), words)
    axes = {axis.name: _options(axis, axis is family.priced, price, words, draws) for axis in family.axes}
    listed = [fact for fact in facts if draws.chance(_LISTED_RATE)] or facts[:1]
    domain = words.domains[family.noun.domain]
    product = Product(
        id=product_id,
        title=_title(words, family.noun, brand, facts, draws),
        brand=brand,
        category=(domain.name, family.noun.aisle, family.noun.value.name),
        attributes=tuple(fact.value.name for fact in listed),
        bullets=_bullets(words, family.noun, brand, [fact for fact in facts if fact not in listed], draws),
        price=price,
        axes=axes,
    )
    return Item(product, family.noun, tuple(facts), family.axes)


def _trap(twin: Item, words: Words, product_id: str, draws: Draws) -> Item:
    """The same description under another title, at a price beyond the twin's likely budget."""
    factor = draws.between(*_TRAP_FACTOR)
    old = twin.product
    axes = {
        axis: tuple(replace(v, price=None if v.price is None else _shop_price(v.price * factor, words)) for v in values)
        for axis, values in old.axes.items()
    }
    title = _title(words, twin.noun, old.brand, twin.facts, draws)
    product = replace(old, id=product_id, title=title, price=_shop_price(old.price * factor, words), axes=axes)
    return replace(twin, product=product)


def _shop_price(price: float, words: Words) -> float:
    """Return a price as shops write it: 39.99 dollars, 129 yuan."""
    whole = max(1, math.floor(price))
    return float(whole) if words.phrases["currency"] == "¥" else round(whole + 0.99, 2)


def _options(axis: Axis, priced: bool, price: float, words: Words, draws: Draws) -> tuple[OptionValue, ...]:
    """The values that one product offers; a near-duplicate may lack one. Where they are priced, larger costs more."""
    values = list(axis.values)
    if len(values) > 3 and draws.chance(0.3):
        values.remove(draws.pick(values))
    step = draws.between(0.05, 0.2) * price
    return tuple(
        OptionValue(value, _shop_price(price + i * step, words) if priced else None) for i, value in enumerate(values)
    )


def worded(value: Value, draws: Draws, rate: float = OTHER_WORDING_RATE) -> str:
    """Return one wording of a value: another than the canonical one with probability ``rate``."""
    return draws.pick(value.others) if value.others and draws.chance(rate) else value.name


def _title(words: Words, noun: Noun, brand: str, facts: Sequence[Fact], draws: Draws) -> str:
    """Write a title: brand, some facts in any wording, noun, model, marketing, in a drawn order."""
    phrases: Mapping[str, Sequence[str]] = words.phrases
    shown = [worded(fact.value, draws) for fact in draws.sample(facts, 2 + draws.below(3))]
    letters = "ABCDEFGHKLMNPRSTVWXZ"
    model = draws.pick(phrases["models"])
    while "{letter}" in model:
        model = model.replace("{letter}", draws.pick(letters), 1)
    text = draws.pick(phrases["titles"]).format(
        brand=brand,
        noun=worded(noun.value, draws),
        facts=draws.pick(phrases["fact_joiners"]).join(shown),
        model=model.format(number=100 + draws.below(900), digit=2 + draws.below(8)),
        buzz=words.phrases["joiner"].join(draws.sample(phrases["buzz"], 1 + draws.below(2))),
    )
    return " ".join(text.split())


def _bullets(words: Words, noun: Noun, brand: str, facts: Sequence[Fact], draws: Draws) -> tuple[str, ...]:
    """Write what the attribute list leaves out, and a sentence that says nothing."""
    joiner = words.phrases["list_joiner"]
    half = (len(facts) + 1) // 2
    parts = [part for part in (facts[:half], facts[half:]) if part]
    opening = draws.sample(words.phrases["bullets"], len(parts))
    written = [
        start.format(facts=joiner.join(fact.value.name for fact in part))
        for start, part in zip(opening, parts, strict=True)
    ]
    closing = draws.pick(words.phrases["closing"]).format(noun=noun.value.name, brand=brand)
    return (*written, closing)
