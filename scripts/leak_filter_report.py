"""Measure the leak filter: what it catches of three red-team sets, what it wrongly refuses, how long it takes.

    python scripts/leak_filter_report.py VERSION [--out docs/results/leak_filter.csv] [--paper]

Rows are (version, what, name, world, value); those of other versions stay in the file. Those that begin with
"independent" or "second independent" are of `leak_filter_unseen`'s sets. Times are medians of this machine.
"""

import argparse
import statistics
import time
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import leak_filter_unseen
import yaml  # type: ignore[import-untyped]
from csv_rows import with_others, write_csv

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import MECHANISMS, phrasings, titles
from intraskill.method.errors import SkillFormatError
from intraskill.method.leakage.filter import LeakFilter, Rejection, Secrets
from intraskill.method.skill.skill import Chunk, Skill

ROOT = Path(__file__).parents[1]
SETS = ROOT / "tests" / "method" / "leakage" / "red_team"
WORLDS, PAPER = (("small", "plain"), ("small", "en"), ("small", "zh")), (("paper", "en"), ("paper", "zh"))
Row = tuple[str, str, str, float]


def malicious_rows() -> Iterator[Row]:
    """Count the rules that fire on the red-team set, and the first one of each proposal."""
    data = yaml.safe_load((SETS / "malicious.yaml").read_text("utf-8"))
    leak_filter = LeakFilter(Secrets(**{name: tuple(values) for name, values in data["secrets"].items()}))
    pool = [Chunk(**item) for item in data["pool"]]
    any_rule: Counter[str] = Counter()
    first_rule: Counter[str] = Counter()
    for entry in data["proposals"]:
        if "raw" in entry:
            first_rule["(reader)"] += 1
            continue
        try:
            rules = [rejection.rule for rejection in inspected(entry, leak_filter, pool)]
        except SkillFormatError:
            first_rule["(chunk)"] += 1
            continue
        any_rule.update(set(rules))
        first_rule[rules[0] if rules else "(missed)"] += 1
    yield "malicious", "proposals", "red team", len(data["proposals"])
    yield from (("malicious: rule fires", rule, "red team", count) for rule, count in sorted(any_rule.items()))
    yield from (("malicious: first rule", rule, "red team", count) for rule, count in sorted(first_rule.items()))


def inspected(entry: dict[str, Any], leak_filter: LeakFilter, pool: list[Chunk]) -> tuple[Rejection, ...]:
    """Return what the leak filter finds in one entry: a preamble, the chunks of one edit, or one chunk."""
    if "preamble" in entry:
        return leak_filter.inspect_preamble(Skill(entry["preamble"], tuple(pool)))
    bodies = entry.get("parts") or [entry["body"] * entry.get("times", 1)]
    chunks = [Chunk(entry.get("title", "Advice"), body.strip().replace("{pool_id}", pool[0].id)) for body in bodies]
    return leak_filter.inspect_edit(chunks, Skill("", tuple(pool)))


def harmless_chunks() -> list[Chunk]:
    """Read the harmless set."""
    return [Chunk(**item) for item in yaml.safe_load((SETS / "harmless.yaml").read_text("utf-8"))]


def harmless_rows(preset: str, language: str) -> Iterator[Row]:
    """Count false refusals and time the leak filter in one world."""
    name = f"{preset} {language}"
    leak_filter = LeakFilter(ShopWorld(preset, language=language).secrets())
    harmless = harmless_chunks()
    lessons = [Chunk(titles(m)[0], text) for m in MECHANISMS for texts in phrasings(m) for text in texts]
    leak_filter.inspect(harmless[0])
    for what, chunks in (("harmless", harmless), ("lessons", lessons)):
        times = []
        refused = 0
        for chunk in chunks:
            start = time.process_time()
            refused += bool(leak_filter.inspect(chunk))
            times.append(1000 * (time.process_time() - start))
        yield f"{what}: chunks", "", name, len(chunks)
        yield f"{what}: refused", "", name, refused
        yield f"{what}: median ms", "", name, round(statistics.median(times), 2)
    yield "harmless: refused side by side", "", name, len(list(leak_filter.inspect_skill(Skill("", tuple(harmless)))))


def index_rows(preset: str, language: str) -> Iterator[Row]:
    """Time and weigh the indexes of one world."""
    secrets = ShopWorld(preset, language=language).secrets()
    chunk = Chunk("Advice", "Read the request.")
    start = time.process_time()
    LeakFilter(secrets).inspect(chunk)
    yield "index: seconds", "", f"{preset} {language}", round(time.process_time() - start, 2)
    tracemalloc.start()
    leak_filter = LeakFilter(secrets)
    leak_filter.inspect(chunk)
    yield "index: MB", "", f"{preset} {language}", round(tracemalloc.get_traced_memory()[0] / 2**20, 1)
    tracemalloc.stop()


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="what the rows are told apart by, such as the commit that is measured")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "results" / "leak_filter.csv")
    parser.add_argument("--paper", action="store_true", help="also index the paper presets, which takes minutes")
    arguments = parser.parse_args()
    rows: list[Row] = list(malicious_rows())
    for name in leak_filter_unseen.SETS:
        rows += leak_filter_unseen.summary(leak_filter_unseen.verdicts(name), name)
    for world in WORLDS:
        rows += [*harmless_rows(*world), *index_rows(*world)]
    if arguments.paper:
        for world in PAPER:
            rows += index_rows(*world)
    columns = ("version", "what", "name", "world", "value")
    named = [dict(zip(columns, (arguments.version, *row), strict=True)) for row in rows]
    write_csv(arguments.out, with_others(arguments.out, named, "version"))
    print(*rows, sep="\n")


if __name__ == "__main__":
    main()
