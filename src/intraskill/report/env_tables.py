"""Tables of a world's statistics, for people."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table

from intraskill.method.errors import offenders
from intraskill.method.tasks import SPLITS

HIDDEN = 12
"""A feature with more values than this is summed up."""


def print_statistics(found: Mapping[str, Any], console: Console | None = None) -> None:
    """Print one table of what a world holds, and one of what there is to read."""
    console = console or Console()
    world = Table(title=f"{found['family']}: {sum(found['tasks'].values()):,} tasks", title_justify="left")
    world.add_column("what")
    world.add_column("how much", overflow="fold")
    for what, how_much in _rows(found):
        world.add_row(what, how_much)
    console.print(world, highlight=False)
    texts = Table(title="Texts (none of test)", title_justify="left")
    texts.add_column("text")
    texts.add_column("seen", justify="right")
    for unit in ("words", "tokens"):
        texts.add_column(f"{unit}: mean", justify="right")
        texts.add_column("min–max", justify="right")
    for name, row in found["texts"].items():
        cells = [cell for unit in ("words", "tokens") for cell in _range(row.get(unit))]
        texts.add_row(name, f"{row['texts']:,}", *cells)
    console.print(texts, highlight=False)
    if "unsolvable" in found:
        console.print(f"NOT SOLVABLE: {found['unsolvable']}", highlight=False, markup=False)


def _rows(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "version", found["version"]
    yield "tools", ", ".join(f"{name}({', '.join(names)})" for name, names in found["tools"].items()) or "none"
    yield "reward parts", ", ".join(found["reward_parts"])
    yield "tasks per split", ", ".join(f"{split} {found['tasks'][split]:,}" for split in SPLITS)
    for name, counts in found["features"].items():
        shown = _counted(counts) if len(counts) <= HIDDEN else f"{len(counts)} values"
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


def _range(spread: Mapping[str, float] | None) -> tuple[str, str]:
    return ("–", "–") if spread is None else (f"{spread['mean']:.0f}", f"{spread['min']:g}–{spread['max']:g}")
