"""Products and the immutable catalogue that all sessions share."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property

from intraskill.method.errors import ConfigError, offenders
from intraskill.method.randomness import content_hash


@dataclass(frozen=True, slots=True)
class OptionValue:
    """One choosable value of an axis; ``price`` replaces the base price where it is set (currency units)."""

    value: str
    price: float | None = None


@dataclass(frozen=True, slots=True)
class Product:
    """One product.

    Attributes:
        id: unique, at most 20 characters.
        category: nodes from general to special, head noun last.
        attributes: searchable attribute values.
        price: base price in currency units.
        axes: option axis → its values, in display order; at most one axis varies the price.
        query: the search that the product was collected with; only WebShop's files have one, and only its reward
            reads it.
    """

    id: str
    title: str
    brand: str
    category: tuple[str, ...]
    attributes: tuple[str, ...]
    bullets: tuple[str, ...]
    price: float
    axes: Mapping[str, tuple[OptionValue, ...]]
    query: str = ""

    def price_of(self, selected: Mapping[str, str]) -> float:
        """Return the price of a (partly) chosen variant: the chosen value's price, else the base price."""
        for axis, values in self.axes.items():
            for option in values:
                if option.price is not None and selected.get(axis) == option.value:
                    return option.price
        return self.price


class Catalogue:
    """All products, sorted by id.

    Raises:
        ConfigError: for repeated ids, or products with several price-varying axes.
    """

    def __init__(self, products: Iterable[Product]) -> None:
        self.products = tuple(sorted(products, key=lambda product: product.id))
        self.by_id = {product.id: product for product in self.products}
        if len(self.by_id) != len(self.products):
            raise ConfigError(f"repeated product ids: {len(self.products) - len(self.by_id)}; ids must be unique")
        bad = [p.id for p in self.products if sum(any(v.price is not None for v in a) for a in p.axes.values()) > 1]
        if bad:
            raise ConfigError(f"products with several price-varying axes, {offenders(bad)}; keep one axis with prices")

    @cached_property
    def hash(self) -> str:
        """Content hash of every product."""
        return content_hash([_as_dict(product) for product in self.products])


def _as_dict(product: Product) -> dict[str, object]:
    """`dataclasses.asdict` without its deep copies, which take seconds for 20,000 products."""
    shallow = {field.name: getattr(product, field.name) for field in fields(product)}
    axes = {axis: [{"value": v.value, "price": v.price} for v in values] for axis, values in product.axes.items()}
    return shallow | {"axes": axes}
