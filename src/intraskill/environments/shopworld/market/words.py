"""The word tables of one language: goods (domains, nouns, facets, axes) and the phrases of shops and users."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import yaml  # type: ignore[import-untyped]

LANGUAGES = ("en", "zh")
_HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Value:
    """One attribute value.

    Attributes:
        name: canonical wording, the one that scoring knows.
        others: other wordings, which titles and users may use.
    """

    name: str
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Facet:
    """A question that every product of a noun answers with one value.

    Attributes:
        kind: language-independent name, such as ``material``.
        say: how a request states it; ``{}`` is the value.
        values: possible answers.
    """

    kind: str
    say: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """An option axis.

    Attributes:
        name: what the shop calls it.
        say: how a request states a choice.
        values: from small to large where it is a size.
        is_color: colours carry no price of their own.
    """

    name: str
    say: str
    values: tuple[str, ...]
    is_color: bool


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A head noun: one kind of product; it is itself and no other, so that sets of nouns are cheap.

    Attributes:
        value: its wordings.
        aisle: second category node.
        domain: index of its domain.
        kind: canonical wording without the line ("compact", "professional") that a large market adds.
        facets: the questions that its products answer.
        features: what else may be said of them.
        axes: the options in which they come.
    """

    value: Value
    aisle: str
    domain: int
    kind: str
    facets: tuple[Facet, ...]
    features: tuple[Value, ...]
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class MarketDomain:
    """A department of the shop; prices in currency units."""

    name: str
    prices: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Words:
    """Everything that one language says.

    Attributes:
        language: ``en`` or ``zh``.
        domains: departments.
        nouns: every head noun.
        package: the rare third axis.
        brands: every brand name.
        phrases: the file ``words_LANGUAGE.yaml`` as it stands.
    """

    language: str
    domains: tuple[MarketDomain, ...]
    nouns: tuple[Noun, ...]
    package: Axis
    brands: tuple[str, ...]
    phrases: Mapping[str, Any]


@cache
def words_of(language: str) -> Words:
    """Return the tables of ``en`` or ``zh``, read once."""
    phrases, goods = (_read(f"{kind}_{language}.yaml") for kind in ("words", "goods"))
    domains = tuple(MarketDomain(entry["name"], (entry["price"][0], entry["price"][1])) for entry in goods)
    nouns = tuple(
        _noun(noun, aisle, i, entry, phrases["colors"])
        for i, entry in enumerate(goods)
        for aisle in entry["aisles"]
        for noun in entry["aisles"][aisle]
    )
    first, second = phrases["brand_parts"]
    name, say, values = phrases["package"]
    package = Axis(name, say, tuple(values), is_color=False)
    return Words(language, domains, nouns, package, tuple(a + b for a in first for b in second), phrases)


def lines_of(noun: Noun, words: Words, count: int) -> list[Noun]:
    """Return a noun as it is, or in ``count`` lines, each with its own word in front: a compact wok, a travel wok."""
    joiner, value = words.phrases["joiner"], noun.value
    spelled = [
        (f"{line}{joiner}{value.name}", [f"{line}{joiner}{o}" for o in value.others])
        for line in words.phrases["lines"][:count]
    ]
    return [replace(noun, value=Value(name, tuple(others))) for name, others in spelled] or [noun]


def _read(name: str) -> Any:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same loader, in C where PyYAML was built with it
    return yaml.load((_HERE / name).read_text(encoding="utf-8"), loader)  # noqa: S506


def _value(text: str) -> Value:
    name, *others = text.split("|")
    return Value(name, tuple(others))


def _tagged(text: str) -> tuple[str, frozenset[str]]:
    """Split ``canonical|other @tag @tag`` into its text and its tags."""
    plain, *tags = text.split(" @")
    return plain, frozenset(tags)


def _worn(entries: Iterable[str], worn: frozenset[str]) -> list[str]:
    """Return the texts that have no tag, or one that the noun wears."""
    return [text for text, tags in map(_tagged, entries) if not tags or tags & worn]


def _noun(text: str, aisle: str, domain: int, entry: Mapping[str, Any], colors: Sequence[str]) -> Noun:
    """Give a noun what its domain declares for its tags."""
    name, worn = _tagged(text)
    value = _value(name)
    facets = tuple(
        Facet(_tagged(kind)[0], say, tuple(map(_value, _worn(values, worn))))
        for kind, (say, values) in entry["facets"].items()
        if _worn([kind], worn)
    )
    axes = tuple(
        _axis(_tagged(axis)[0], say, values, colors)
        for axis, (say, values) in entry["axes"].items()
        if _worn([axis], worn)
    )
    return Noun(value, aisle, domain, value.name, facets, tuple(map(_value, _worn(entry["features"], worn))), axes)


def _axis(name: str, say: str, values: str | Sequence[str], colors: Sequence[str]) -> Axis:
    return Axis(name, say, tuple(colors), True) if values == "colors" else Axis(name, say, tuple(values), False)
