"""The word tables of one language: goods (domains, nouns, facets, axes) and the phrases of shops and users."""

from collections.abc import Mapping, Sequence
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
    """A question that every product of a domain answers with one value.

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
    """

    value: Value
    aisle: str
    domain: int
    kind: str


@dataclass(frozen=True, slots=True)
class Domain:
    """A department of the shop; prices in currency units."""

    name: str
    prices: tuple[float, float]
    facets: tuple[Facet, ...]
    features: tuple[Value, ...]
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class Words:
    """Everything that one language says.

    Attributes:
        domains: departments.
        nouns: every head noun.
        package: the rare third axis.
        brands: every brand name.
        phrases: the file ``words_LANGUAGE.yaml`` as it stands.
    """

    domains: tuple[Domain, ...]
    nouns: tuple[Noun, ...]
    package: Axis
    brands: tuple[str, ...]
    phrases: Mapping[str, Any]


@cache
def words_of(language: str) -> Words:
    """Return the tables of ``en`` or ``zh``, read once."""
    phrases, goods = (_read(f"{kind}_{language}.yaml") for kind in ("words", "goods"))
    domains = tuple(_domain(entry, phrases) for entry in goods)
    nouns = tuple(
        Noun(_value(noun), aisle, i, _value(noun).name)
        for i, entry in enumerate(goods)
        for aisle in entry["aisles"]
        for noun in entry["aisles"][aisle]
    )
    first, second = phrases["brand_parts"]
    name, say, values = phrases["package"]
    package = Axis(name, say, tuple(values), is_color=False)
    return Words(domains, nouns, package, tuple(a + b for a in first for b in second), phrases)


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


def _domain(entry: Mapping[str, Any], phrases: Mapping[str, Any]) -> Domain:
    facets = tuple(
        Facet(kind, say, tuple(_value(value) for value in values)) for kind, (say, values) in entry["facets"].items()
    )
    axes = tuple(_axis(name, say, values, phrases["colors"]) for name, (say, values) in entry["axes"].items())
    low, high = entry["price"]
    return Domain(entry["name"], (low, high), facets, tuple(_value(value) for value in entry["features"]), axes)


def _axis(name: str, say: str, values: str | Sequence[str], colors: Sequence[str]) -> Axis:
    return Axis(name, say, tuple(colors), True) if values == "colors" else Axis(name, say, tuple(values), False)
