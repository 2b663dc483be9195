"""The summary of `editor_experiments.py`: means, paired differences with their intervals, and the words for them.

Two intervals go with every difference, since two things were drawn. Over worlds: a bootstrap of held-out worlds, each
with its mean over seeds, holds for the editors that were trained here. Over seeds: Student's t of the seeds' mean
differences holds for further trainings too, and needs two seeds or more. A difference counts when both exclude 0.
"""

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

from editor_conditions import Condition
from scipy.stats import bootstrap

from intraskill.editor.actions import ACTIONS
from intraskill.method.errors import counted
from intraskill.method.gate.intervals import Interval, mean_interval

Row = dict[str, Any]
MEASURES = ("value", "score", "sampled")
SHOWN = {
    "planted": ("value", "expected success over all cases of a held-out world, known exactly"),
    "shop": ("score", "mean reward of the worker on the probes of a held-out stream"),
}
"""By domain: the measure that its table shows, and what it is."""
ANSWERS = (*(name.lower() for name in ACTIONS), "invalid")
BASES = ("full", "sft")
Panel = dict[str, dict[int, float]]
"""World → seed → what was measured."""


def summarise(rows: Iterable[Row], conditions: Sequence[Condition]) -> list[Row]:
    """Return one row per measure and finished condition, in the order of ``conditions``."""
    by_condition: dict[str, list[Row]] = {}
    for row in rows:
        by_condition.setdefault(row["condition"], []).append(row)
    found = []
    for measure in MEASURES:
        panels = {name: panel(own, measure) for name, own in by_condition.items()}
        for condition in conditions:
            if panels.get(condition.name):
                found.append(_line(condition, measure, by_condition[condition.name], panels))
    return found


def panel(rows: Iterable[Row], measure: str) -> Panel:
    """Return what was measured by world and seed; worlds without a number are left out."""
    found: Panel = {}
    for row in rows:
        if row[measure] is not None:
            found.setdefault(row["world"], {})[row["seed"]] = float(row[measure])
    return found


def difference(before: Panel, after: Panel) -> tuple[Interval, Interval | None] | None:
    """Return ``after − before`` with its interval over worlds and, of two seeds or more, the one over seeds.

    Only worlds and seeds that both sides have are compared; ``None`` for fewer than two such worlds.
    """
    seeds = sorted(_seeds(before) & _seeds(after))
    worlds = [w for w in before if w in after and all(s in before[w] and s in after[w] for s in seeds)]
    if len(worlds) < 2 or not seeds:
        return None
    means = [{w: fmean(side[w][s] for s in seeds) for w in worlds} for side in (before, after)]
    by_seed = [fmean(after[w][s] - before[w][s] for w in worlds) for s in seeds]
    gains = [means[1][world] - means[0][world] for world in worlds]
    found = bootstrap((gains,), fmean, method="percentile", rng=0)
    low, high = found.confidence_interval
    over_worlds = Interval(fmean(gains), float(low), float(high), float(found.standard_error), len(worlds))
    return over_worlds, mean_interval(by_seed) if len(seeds) > 1 else None


def _line(condition: Condition, measure: str, rows: Sequence[Row], panels: Mapping[str, Panel]) -> Row:
    own, edits = panels[condition.name], sum(row["edits"] for row in rows)
    means = [fmean(by_seed.values()) for by_seed in own.values()]
    mean = mean_interval(means) if len(means) > 1 else None
    line: Row = {
        "measure": measure,
        "condition": condition.name,
        "label": condition.label,
        "seeds": len(_seeds(own)),
        "worlds": len(own),
        "n": sum(map(len, own.values())),
        "mean": _number(fmean(means)),
        "low": _number(mean and mean.low),
        "high": _number(mean and mean.high),
    }
    for base, name in zip(BASES, ("full", condition.twin or "sft"), strict=True):
        known = difference(panels[name], own) if name in panels and name != condition.name else None
        line |= _parts(base, *(known or (None, None)))
    line["over_sft_of"] = condition.twin or "sft"
    for name in ("tokens", "chunks", "edits"):
        line[name] = _number(fmean(row[name] for row in rows))
    line |= {f"share_{name}": _number(sum(row[name] for row in rows) / edits if edits else None) for name in ANSWERS}
    by_run = {row["seed"]: row for row in rows}.values()
    return line | {name: _number(fmean(row[name] for row in by_run)) for name in ("steps", "answers", "worker_calls")}


def _parts(base: str, over_worlds: Interval | None, over_seeds: Interval | None) -> Row:
    return {
        f"over_{base}": _number(over_worlds and over_worlds.mean),
        f"over_{base}_low": _number(over_worlds and over_worlds.low),
        f"over_{base}_high": _number(over_worlds and over_worlds.high),
        f"over_{base}_seeds_low": _number(over_seeds and over_seeds.low),
        f"over_{base}_seeds_high": _number(over_seeds and over_seeds.high),
    }


def _seeds(one: Panel) -> set[int]:
    return {seed for by_seed in one.values() for seed in by_seed}


def _number(value: float | None) -> float | str:
    """Return six decimals, or an empty cell."""
    return "" if value is None else round(value, 6) + 0.0


def findings(summary: Sequence[Row], measure: str) -> list[str]:
    """Return what the differences show, in sentences; one seed shows nothing about a training."""
    rows = [row for row in summary if row["measure"] == measure]
    if not rows or max(row["seeds"] for row in rows) < 2:
        return ["One seed shows nothing: run two or more (--seeds)."]
    tested: set[frozenset[str]] = set()
    lines = []
    for row in rows:
        for base in BASES:
            name = "full" if base == "full" else row["over_sft_of"]
            pair = frozenset((row["condition"], name))
            if row[f"over_{base}"] == "" or row["seeds"] < 2 or pair in tested:
                continue
            tested.add(pair)
            if _excludes_zero(row, base, ""):
                firm = "over worlds and over seeds" if _excludes_zero(row, base, "_seeds") else "over worlds only"
                lines.append(f"{row['condition']} − {name}: {cell(row, base)}, {firm}")
    by_chance = len(tested) / 20
    head = f"{len(lines)} of {len(tested)} differences exclude 0 over worlds; {by_chance:.1f} would by chance alone."
    return [head, *lines]


def _excludes_zero(row: Row, base: str, over: str) -> bool:
    low, high = row[f"over_{base}{over}_low"], row[f"over_{base}{over}_high"]
    return low != "" and (low > 0 or high < 0)


def cell(row: Row, base: str) -> str:
    """Return a difference with its interval over worlds, bold where both intervals exclude 0; a dash without one."""
    if row[f"over_{base}"] == "":
        return "–"
    text = f"{row[f'over_{base}']:+.3f} [{row[f'over_{base}_low']:+.3f}, {row[f'over_{base}_high']:+.3f}]"
    return f"**{text}**" if _excludes_zero(row, base, "") and _excludes_zero(row, base, "_seeds") else text


def markdown(domain: str, summary: Sequence[Row], full: Row) -> str:
    """Return the section of one domain.

    Args:
        domain: its name.
        summary: from `summarise`.
        full: any raw row of ``full``.
    """
    measure, meaning = SHOWN[domain]
    rows = [row for row in summary if row["measure"] == measure]
    trained = [row for row in rows if row["steps"]]
    sampled = {row["condition"]: row for row in summary if row["measure"] == "sampled"}
    seeds, worlds = max(row["seeds"] for row in rows), max(row["worlds"] for row in rows)
    facts = f"{counted(seeds, 'seed')}, {worlds} held-out streams; measured: {meaning}."
    if trained:
        steps, answers = ({row[name] for row in trained} for name in ("steps", "answers"))
        facts += f" Every trained condition has {_all(steps)} steps and {_all(answers)} answers."
    pieces, anchors = counted(full["evidence"], "piece"), counted(full["anchors"], "anchor")
    head = ["condition", "mean", "− full", "− SFT that reads alike", "sampled", "− SFT, both sampled"]
    head += ["tokens", "NOOP", "invalid", "worker calls"]
    lines = [
        [
            row["label"],
            f"{row['mean']:.3f}",
            cell(row, "full"),
            cell(row, "sft"),
            *_sampled(sampled.get(row["condition"])),
            f"{row['tokens']:.0f}",
            _share(row["share_noop"]),
            _share(row["share_invalid"]),
            f"{row['worker_calls']:,.0f}" if row["steps"] else "–",
        ]
        for row in rows
    ]
    table = "\n".join("| " + " | ".join(cells) + " |" for cells in (head, ["---"] * len(head), *lines))
    told = _bullets(summary, measure)
    if sampled:
        told += f"\n\nThe known worth of skills, editors sampled as in training:\n\n{_bullets(summary, 'sampled')}"
    facts += f" `full`: rollback reward as a margin, {anchors}, {pieces} of evidence per edit, in source order."
    return f"## {domain}\n\n{facts}\n\n{table}\n\n{told}\n"


def _bullets(summary: Sequence[Row], measure: str) -> str:
    return "\n".join(f"- {line.replace('**', '')}" for line in findings(summary, measure))


def _sampled(row: Row | None) -> tuple[str, str]:
    """Return mean and difference from the untrained twin of editors that were sampled, dashes without an editor."""
    return ("–", "–") if row is None or row["share_noop"] == "" else (f"{row['mean']:.3f}", cell(row, "sft"))


def _all(numbers: Iterable[float]) -> str:
    return " or ".join(f"{number:,.0f}" for number in sorted(numbers))


def _share(value: float | str) -> str:
    return "–" if value == "" else f"{100 * float(value):.0f} %"
