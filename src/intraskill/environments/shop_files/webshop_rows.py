"""WebShop's released items and instructions as a catalogue and tasks (arXiv 2207.01206).

English, no persona, no price per variant. The budget is no part of the files: the published server draws one of the
next tens above the price for every task and writes it into the instruction, and so does `load_webshop`, by a draw that
depends on the seed and the task only.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from intraskill.environments.shop_files.fields import (
    UnusableError,
    axes_of,
    category_of,
    prices_of,
    read_mapping,
    read_rows,
    text_of,
    texts_of,
    variants,
)
from intraskill.environments.shop_files.loaded import Loaded, RowLedger, features_of, goal_of, goal_options
from intraskill.environments.shopworld.catalogue import Product
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import shuffled

_DEFAULT_PRICE = 100.0
_TENS = tuple(10.0 * i for i in range(1, 100))


def load_webshop(
    items: str | Path,
    instructions: str | Path,
    human: str | Path | None = None,
    budgets: bool = True,
    seed: int = 0,
) -> Loaded:
    """Load WebShop's files.

    Args:
        items: products: a JSON list or JSON lines, each a product or ``{id, contents, product}``; plain or gzipped.
        instructions: one JSON object: product id → ``{attributes, instruction?, instruction_attributes?}``.
        human: one JSON object: product id → list of instructions by people. Where it is given, the tasks are these.
        budgets: write a budget into every instruction, as the published server does.
        seed: seed of the budgets.

    Raises:
        ConfigError: for a file that cannot be read, is of another kind, or leaves no usable task.
    """
    entries = read_mapping(instructions, "instructions")
    _check_entries(entries, instructions, "instructions", dict)
    spoken = None if human is None else read_mapping(human, "human")
    if spoken is not None and human is not None:
        _check_entries(spoken, human, "human", list)
    rows = read_rows(items, "items")
    products = [row.get("product", row) if isinstance(row, Mapping) else row for row in rows]
    ledger = RowLedger([*entries, *(text_of(row.get("asin")) for row in products if isinstance(row, Mapping))])
    _add_products(products, entries, items, ledger)
    wanted = list(_spoken(spoken) if spoken is not None else _written(entries))
    asked = {product_id for _, product_id, _ in wanted}
    for product_id in entries:
        if product_id not in asked:
            ledger.note("entries without an instruction: no task", product_id)
    for name, product_id, entry in wanted:
        try:
            if product_id not in ledger.products:
                raise UnusableError("its product is not among the items")
            task = _task(name, ledger.products[product_id], entry, seed if budgets else None)
            ledger.require_unnamed(task.request)
            ledger.tasks.append(task)
        except UnusableError as reason:
            ledger.exclude("task", name, reason)
    ledger.check_gold("webshop")
    return ledger.close(items)


def _check_entries(entries: Mapping[str, Any], path: str | Path, what: str, kind: type) -> None:
    if not any(isinstance(entry, kind) for entry in entries.values()):
        other = "human=" if what == "instructions" else "instructions="
        raise ConfigError(
            f"{what}={path}: none of its {len(entries)} entries is a {'list' if kind is list else 'JSON object'}; "
            f"is it the file for {other}?"
        )


def _add_products(products: list[Any], entries: Mapping[str, Any], path: str | Path, ledger: RowLedger) -> None:
    if not any(isinstance(row, Mapping) and "asin" in row and ("name" in row or "Title" in row) for row in products):
        first = ", ".join(list(products[0])[:6]) if isinstance(products[0], Mapping) else "none"
        raise ConfigError(
            f"items={path} is no WebShop items file: none of its {len(products)} rows has asin and name (keys of the "
            f"first: {first}); ShopSimulator's rows load with shopsimulator(path=…)"
        )
    for number, row in enumerate(products, start=1):
        name = text_of(row.get("asin")) if isinstance(row, Mapping) else ""
        try:
            if not name:
                raise UnusableError("the row has no asin" if isinstance(row, Mapping) else "the row is no object")
            if name in ledger.products:
                raise UnusableError("an earlier row has the same asin")
            ledger.products[name] = _product(name, row, entries.get(name), ledger)
        except UnusableError as reason:
            ledger.exclude("row", name or f"row {number}", reason)


def _product(name: str, row: Mapping[str, Any], entry: object, ledger: RowLedger) -> Product:
    title = text_of(row.get("name") or row.get("Title"))
    if not title:
        raise UnusableError("the name is blank")
    listed = row.get("Attributes") or (entry.get("attributes") if isinstance(entry, Mapping) else None)
    bullets = (
        *texts_of(row.get("small_description") or row.get("BulletPoints")),
        *texts_of(row.get("full_description") or row.get("Description")),
    )
    axes, _ = variants(_axes(row), (1.0, 1.0))
    return Product(
        name,
        title,
        text_of(row.get("brand")),
        category_of(row.get("product_category")) or texts_of(row.get("category")),
        texts_of(listed),
        bullets,
        _price(name, row, ledger),
        axes,
        text_of(row.get("query")).casefold(),
    )


def _price(name: str, row: Mapping[str, Any], ledger: RowLedger) -> float:
    """The mean of the range, which is the mean of the published server's draw; 100 where none is given, as there."""
    pricing = prices_of(row.get("pricing"))
    if pricing is None:
        ledger.note(f"no price, read as {_DEFAULT_PRICE:g} as the published server does", name)
        return _DEFAULT_PRICE
    if pricing[0] < pricing[1]:
        ledger.note("a price range, read as its mean", name)
    return round(sum(pricing) / 2, 2)


def _axes(row: Mapping[str, Any]) -> dict[str, dict[str, float | None]]:
    """Names and values in lower case, no price: WebShop's price is the product's."""
    axes = axes_of(row.get("customization_options")) or axes_of(row.get("options"))
    lower: dict[str, dict[str, float | None]] = {}
    for axis, values in axes.items():
        lower.setdefault(axis.casefold(), {}).update({value.casefold(): None for value in values})
    return lower


def _written(entries: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for product_id, entry in entries.items():
        if isinstance(entry, Mapping) and "instruction" in entry:
            yield product_id, product_id, entry


def _spoken(entries: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for product_id, listed in entries.items():
        for number, entry in enumerate(listed if isinstance(listed, list) else [listed], start=1):
            yield f"{product_id}-{number}", product_id, entry if isinstance(entry, Mapping) else {}


def _task(name: str, product: Product, entry: Mapping[str, Any], seed: int | None) -> ShopTask:
    instruction = text_of(entry.get("instruction")).strip(".")
    if not instruction:
        raise UnusableError("the instruction is null or blank")
    budget = _budget(product.price, name, seed) if seed is not None else None
    if budget is not None:
        instruction += f", and price lower than {budget:.2f} dollars"
    wanted = texts_of(entry.get("instruction_attributes"))
    options = goal_options(texts_of(entry.get("instruction_options")), product)
    goal = goal_of(product, wanted, options, budget)
    features = features_of(product, goal, persona=False)
    return ShopTask(name, instruction, instruction, None, f"user-{product.id}", goal, features)


def _budget(price: float, name: str, seed: int) -> float | None:
    """The larger of two of the four tens above the price; none where fewer than two are left below 1,000."""
    above = [ten for ten in _TENS if ten > price][:4]
    if len(above) < 2:
        return None
    drawn = shuffled([f"{ten:g}" for ten in above], seed, "webshop-budget", name)[:2]
    return max(map(float, drawn))
