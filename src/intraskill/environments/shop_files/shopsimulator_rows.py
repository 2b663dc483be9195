"""ShopSimulator's released rows, one product with its instructions each, as a catalogue and tasks.

Facts of the release (arXiv 2601.18225): ``asin, title, shop_name, category, pricing, customization_options, attribute,
tag, instructions, user_persona``. A task has a persona iff its instruction has ``instruction_simple`` and the row has
``user_persona``; its goal always comes from the full instruction.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from intraskill.environments.shop_files.fields import (
    UnusableError,
    axes_of,
    category_of,
    prices_of,
    read_rows,
    structure_of,
    text_of,
    texts_of,
    variants,
)
from intraskill.environments.shop_files.loaded import Loaded, RowLedger, features_of, goal_of, goal_options
from intraskill.environments.shopworld.budget import budget_of
from intraskill.environments.shopworld.catalogue import Product
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import Split

_ROLES: Mapping[str, Split] = {"eval": "test", "test": "test", "train": "train"}


def load_shopsimulator(path: str | Path) -> Loaded:
    """Load ShopSimulator's rows from a JSON list or JSON-lines file, plain or gzipped.

    Raises:
        ConfigError: for a file that cannot be read, is of another kind, or holds no usable task.
        SplitError: for an id that the file tags both eval and train.
    """
    rows = read_rows(path, "path")
    _check_kind(rows, path)
    ledger = RowLedger(text_of(row.get("asin")) for row in rows if isinstance(row, Mapping))
    roles = dict[str, Split]()
    crossing: list[str] = []
    for number, row in enumerate(rows, start=1):
        name = text_of(row.get("asin")) if isinstance(row, Mapping) else ""
        try:
            if not name:
                raise UnusableError("the row has no asin" if isinstance(row, Mapping) else "the row is no object")
            tag = text_of(row.get("tag")).casefold()
            if tag in _ROLES and roles.setdefault(name, _ROLES[tag]) != _ROLES[tag]:
                crossing.append(name)
            if name in ledger.products:
                raise UnusableError("an earlier row has the same asin")
            product = _product(name, row, ledger)
        except UnusableError as reason:
            ledger.exclude("row", name or f"row {number}", reason)
            continue
        ledger.products[name] = product
        _add_tasks(product, row, _role(tag, name, ledger), ledger)
    if crossing:
        raise SplitError(
            f"{path} tags the same asin as eval and as train, {offenders(crossing)}; keep each id under one tag"
        )
    ledger.check_gold("shopsimulator")
    return ledger.close(path)


def _check_kind(rows: list[Any], path: str | Path) -> None:
    objects = [row for row in rows if isinstance(row, Mapping)]
    if any("asin" in row and "title" in row for row in objects):
        return
    keys = ", ".join(list(objects[0])[:6]) if objects else "none, the rows are no objects"
    hint = "WebShop's items load with webshop(items=…, instructions=…)" if any("name" in r for r in objects) else ""
    raise ConfigError(
        f"path={path} is no ShopSimulator file: none of its {len(rows)} rows has asin and title (keys of the first: "
        f"{keys}); {hint or 'give the release file of products'}"
    )


def _role(tag: str, name: str, ledger: RowLedger) -> Split:
    if tag not in _ROLES:
        ledger.note(f"tag {tag!r} is neither eval nor train, read as train" if tag else "no tag, read as train", name)
    return _ROLES.get(tag, "train")


def _product(name: str, row: Mapping[str, Any], ledger: RowLedger) -> Product:
    title, attributes = text_of(row.get("title")), texts_of(row.get("attribute"))
    if not title:
        raise UnusableError("the title is blank")
    if not attributes:
        raise UnusableError("every attribute is blank")
    pricing = prices_of(row.get("pricing"))
    axes, price = variants(axes_of(row.get("customization_options")), pricing)
    if pricing and pricing[0] < pricing[1] and price == pricing[1]:
        ledger.note("a price range without a price per variant, read as its upper end", name)
    if len(attributes) < len(_items(row.get("attribute"))):
        ledger.note("blank attributes among others were dropped", name)
    bullets = (
        *texts_of(row.get("small_description")),
        *texts_of(row.get("full_description") or row.get("description")),
    )
    return Product(
        name, title, text_of(row.get("shop_name")), category_of(row.get("category")), attributes, bullets, price, axes
    )


def _add_tasks(product: Product, row: Mapping[str, Any], split: Split, ledger: RowLedger) -> None:
    instructions = structure_of(row.get("instructions"))
    items = [instructions] if isinstance(instructions, Mapping) else _items(instructions)
    if not items:
        ledger.note("products without an instruction: in the catalogue, without a task", product.id)
    for number, item in enumerate(items, start=1):
        name = product.id if len(items) == 1 else f"{product.id}-{number}"
        try:
            task = _task(name, product, row, structure_of(item), ledger)
            ledger.tasks.append(replace(task, split=split))
        except UnusableError as reason:
            ledger.exclude("task", name, reason)


def _task(name: str, product: Product, row: Mapping[str, Any], item: object, ledger: RowLedger) -> ShopTask:
    if not isinstance(item, Mapping):
        raise UnusableError(f"the instruction is a {type(item).__name__}, not an object")
    instruction, simple = text_of(item.get("instruction")), text_of(item.get("instruction_simple"))
    if not instruction:
        raise UnusableError("the instruction is null or blank")
    persona = ledger.public_persona(item.get("user_persona") or row.get("user_persona"), name) if simple else None
    request, hidden = (simple, instruction) if persona else (instruction, simple)
    budget = _budget(name, item, (request, hidden), ledger)
    wanted = texts_of(item.get("attributes")) or texts_of(item.get("instruction_attributes"))
    options = goal_options(texts_of(item.get("instruction_options")), product)
    goal = goal_of(product, wanted, options, budget)
    ledger.require_unnamed(request)
    user = f"user-{content_hash(persona)}" if persona else f"user-{product.id}"
    return ShopTask(name, instruction, request, persona, user, goal, features_of(product, goal, bool(persona)))


def _budget(name: str, item: Mapping[str, Any], texts: tuple[str, str], ledger: RowLedger) -> float | None:
    """``price_upper`` where it is given and above 0, else what the visible request says, else the hidden text.

    Where the two texts name different budgets, the policy can only keep the one that it sees.
    """
    given = item.get("price_upper")
    if text_of(given) and not _is_nothing(given):
        upper = prices_of(given)
        if upper is None:
            raise UnusableError(f"price_upper={given!r} is no price")
        return upper[1]
    found = [budget_of(text) for text in texts]
    named = [upper for upper, _ in found if upper is not None]
    if len(set(named)) > 1:
        ledger.note("the hidden instruction names another budget than the request, which decides", name)
    budget = named[0] if named else None
    if budget is None and any(stated for _, stated in found):
        ledger.note("a budget without a number, read as no budget", name)
    return budget


def _is_nothing(price: object) -> bool:
    """Whether a price is a number up to 0, written as number or text."""
    try:
        return float(text_of(price)) <= 0
    except ValueError:
        return False


def _items(value: object) -> list[Any]:
    value = structure_of(value)
    if isinstance(value, list | tuple):
        return list(value)
    return [] if value is None or value == "" or value == {} else [value]
