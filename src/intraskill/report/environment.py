"""Tables of a world's statistics, for people."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean, median
from typing import Any

from intraskill.config.config import Config
from intraskill.environments.contract.play import random_rollout, sample
from intraskill.environments.protocol import Environment
from intraskill.environments.shop_files import FileShop
from intraskill.environments.shopworld.world import Shop
from intraskill.method.errors import ConfigError, EnvironmentFault, offenders
from intraskill.method.tasks import OPENED, SPLITS
from intraskill.report.screen import Block, Line, Look, print_blocks
from intraskill.report.sheet import Cell, Column, number, sheet
from intraskill.rl.start import policy_directory

CountTokens = Callable[[str], int]
_MAX_OPENINGS = 300
"""Tasks whose requests are read, spread over the splits; never a test task."""
_WORDS = re.compile(r"[一-鿿]|[^\s一-鿿]+")
"""A Han character counts as a word of its own."""


def token_counter(config: Config) -> CountTokens | None:
    """Return what counts tokens with the configured policy's tokenizer; ``None`` where it has no tokenizer.json."""
    try:
        path = policy_directory(config.policy.path) / "tokenizer.json"
    except ConfigError:
        return None
    if not path.is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(path))
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def statistics(
    environment: Environment, *, episodes: int = 12, count_tokens: CountTokens | None = None, prove: bool = True
) -> dict[str, Any]:
    """Return everything as plain JSON.

    Args:
        environment: any.
        episodes: random episodes that are played to see pages.
        count_tokens: of the policy's tokenizer; ``None`` leaves tokens out.
        prove: a shop also proves that each of its tasks can be solved; ``unsolvable`` says why not.
    """
    tasks = [task for split in SPLITS for task in environment.tasks(split)]
    found: dict[str, Any] = {
        "family": environment.family,
        "version": environment.version,
        "tools": {t["function"]["name"]: list(t["function"]["parameters"]["properties"]) for t in environment.tools},
        "reward_parts": list(environment.reward_parts),
        "tasks": {split: sum(task.split == split for task in tasks) for split in SPLITS},
        "features": {
            name: dict(sorted(Counter(task.features[name] for task in tasks if name in task.features).items()))
            for name in sorted({name for task in tasks for name in task.features})
        },
        "texts": _texts(environment, episodes, count_tokens),
    }
    if isinstance(environment, Shop):
        found["shop"] = _shop(environment)
        if isinstance(environment, FileShop):
            loaded = environment.loaded
            found["files"] = {"excluded": [asdict(row) for row in loaded.excluded], "notes": list(loaded.notes)}
        if prove:
            found |= _proof(environment)
    return found


def _texts(environment: Environment, episodes: int, count_tokens: CountTokens | None) -> dict[str, Any]:
    pools = [[task.id for task in environment.tasks(split)] for split in OPENED]
    share = -(-_MAX_OPENINGS // len(pools))
    texts: dict[str, list[str]] = {"request": [], "persona": []}
    for task_id in (task_id for pool in pools for task_id in sample(pool, share, 0, "statistics")):
        opening = random_rollout(environment, task_id, 0, limit=0).opening
        texts["request"].append(opening.instruction)
        texts["persona"] += [opening.persona] if opening.persona is not None else []
    played = [task_id for pool in pools for task_id in sample(pool, -(-episodes // len(pools)), 0, "pages")]
    for task_id in played[:episodes]:
        trace = random_rollout(environment, task_id, 0)
        pages = [trace.opening.observation, *(outcome.observation for outcome in trace.outcomes)]
        for page, state in zip(pages, trace.states, strict=False):
            texts.setdefault(f"page: {state.get('page_type', 'any')}", []).append(page)
    return {name: _lengths(found, count_tokens) for name, found in texts.items() if found}


def _lengths(texts: Sequence[str], count_tokens: CountTokens | None) -> dict[str, Any]:
    found: dict[str, Any] = {"texts": len(texts), "words": _spread(len(_WORDS.findall(text)) for text in texts)}
    if count_tokens is not None:
        found["tokens"] = _spread(count_tokens(text) for text in texts)
    return found


def _spread(numbers: Iterable[float]) -> dict[str, float]:
    values = list(numbers)
    return {"mean": round(fmean(values), 2), "median": median(values), "min": min(values), "max": max(values)}


def _shop(shop: Shop) -> dict[str, Any]:
    """Count products and goals; goals of test tasks are left alone."""
    products = shop.catalogue.products
    tasks = [shop.shop_task(task.id) for split in OPENED for task in shop.tasks(split)]
    axes = [values for product in products for values in product.axes.values()]
    return {
        "catalogue": shop.catalogue.hash,
        "manifest": shop.manifest["hash"],
        "language": shop.settings.language,
        "renderer": shop.settings.renderer,
        "reward": shop.settings.reward,
        "products": len(products),
        "brands": len({product.brand for product in products}),
        "categories": len({product.category for product in products}),
        "families": len({product.category[-1] for product in products if product.category}),
        "domains": len({product.category[0] for product in products if product.category}),
        "price": _spread(product.price for product in products),
        "products with a price per option": sum(
            any(value.price is not None for values in product.axes.values() for value in values) for product in products
        ),
        "attributes per product": _spread(len(product.attributes) for product in products),
        "option axes per product": _counts(len(product.axes) for product in products),
        "values per option axis": _spread(len(values) for values in axes) if axes else {},
        "goal attributes": _counts(len(task.goal.attributes) for task in tasks),
        "goal options": _counts(len(task.goal.options) for task in tasks),
        "goal budget": _counts("stated" if task.goal.budget_stated else "none" for task in tasks),
        "persona": _counts("with" if task.persona else "without" for task in tasks),
        "users": len({task.user for task in tasks}),
    }


def _counts(values: Iterable[int | str]) -> dict[str, int]:
    return {str(value): count for value, count in sorted(Counter(values).items())}


def _proof(shop: Shop) -> dict[str, Any]:
    from intraskill.environments.shopworld.proof import prove

    try:
        return {"proof": asdict(prove(shop))}
    except EnvironmentFault as fault:
        return {"unsolvable": str(fault)}


_HIDDEN = 12
"""A feature with more values than this is summed up."""


def print_statistics(found: Mapping[str, Any]) -> None:
    """Print one table of what a world holds, and one of what there is to read."""
    title = f"{found['family']}: {sum(found['tasks'].values()):,} tasks"
    world = sheet(title, [Column("what", wraps=True), Column("how much", wraps=True)], list(_rows(found)))
    columns = [Column("text", wraps=True), Column("seen", 1, right=True, parts=("seen",))]
    for unit in ("words", "tokens"):
        mean = Column(f"{unit}: mean", right=True, parts=(f"{unit} mean",))
        columns += [mean, Column("min–max", 2, right=True, parts=(f"{unit} min", f"{unit} max"))]
    lines = [
        [Cell(name), number(row["texts"]), *(cell for unit in ("words", "tokens") for cell in _range(row.get(unit)))]
        for name, row in found["texts"].items()
    ]
    blocks: list[Block] = [world, sheet("Texts (none of test)", columns, lines)]
    if "unsolvable" in found:
        blocks.append(Line(f"NOT SOLVABLE: {found['unsolvable']}"))
    print_blocks(blocks, Look(remedy="--json has them"))


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", found["version"]
    yield "tools", ", ".join(f"{name}({', '.join(names)})" for name, names in found["tools"].items()) or "none"
    yield "reward parts", ", ".join(found["reward_parts"])
    yield "tasks per split", ", ".join(f"{split} {found['tasks'][split]:,}" for split in SPLITS)
    for name, counts in found["features"].items():
        shown = _counted(counts) if len(counts) <= _HIDDEN else f"{len(counts)} values"
        yield f"slice: {name}", shown
    for name, value in found.get("shop", {}).items():
        yield name, _value(value)
    if files := found.get("files"):
        left_out = [f"{row['id']} ({row['reason']})" for row in files["excluded"]]
        yield "rows not loaded", offenders(left_out) + "; all of them with --json" if left_out else "none"
        yield from (("note", note) for note in files["notes"])
    if proof := found.get("proof"):
        tasks, mean, most = proof["tasks"], proof["mean_actions"], proof["most_actions"]
        yield (
            "solvable",
            f"all {tasks:,} tasks, by an oracle, in {mean:.1f} actions on average, {most} at most",
        )
        yield "deepest gold product", f"rank {proof['deepest_rank']} for its full instruction"


def _value(value: Any) -> str:
    if isinstance(value, Mapping) and "median" in value:
        return f"mean {value['mean']:g}, median {value['median']:g}, {value['min']:g} to {value['max']:g}"
    if isinstance(value, Mapping):
        return _counted(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _counted(counts: Mapping[str, int]) -> str:
    total = sum(counts.values())
    return ", ".join(f"{name}: {count:,} ({count / total:.0%})" for name, count in counts.items())


def _range(spread: Mapping[str, float] | None) -> tuple[Cell, Cell]:
    if spread is None:
        return Cell("–"), Cell("–")
    ends = spread["min"], spread["max"]
    return number(spread["mean"], "{:.0f}"), Cell("{:g}–{:g}".format(*ends), ends)
