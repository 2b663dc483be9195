"""Is the shop's known worth of a skill what the frozen worker earns, and how fast is the worker?

Writes docs/results/shop_editor_worth.csv, one row per set of rules, and docs/results/shop_editor_speed.csv.

python scripts/shop_editor.py [--tasks N] [--world W] [--reread]
"""

import argparse
import csv
import itertools
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from csv_rows import write_csv

from intraskill.editor.domain import Job, Query
from intraskill.editor.domains.shop_rules import PREAMBLE, first_skill, shopper_reward
from intraskill.editor.domains.shop_worker import ANCHORS, ShopWorker, query_of, tasks_of
from intraskill.editor.tiny.traces import LEAST_GAIN
from intraskill.environments.shopworld.lessons import TAUGHT
from intraskill.method.errors import offenders
from intraskill.method.randomness import child_seed, shuffled
from intraskill.method.skill.skill import Skill
from intraskill.recipes.demonstrations import Draw, draw_chunk
from intraskill.rl.start import policy_directory

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
PRESET, PARTS = "small", ("r_strict", "r_loose")
STEP, LARGE, REPEATS = 48, 128, 3
"""Jobs of a step of 8 states with 5 distinct edits and one anchor each; of a large batch; measurements of each."""


def worth_rows(world: int, count: int) -> list[dict[str, object]]:
    """Return what worker and scripted shopper earn under every set of rules, each task with phrasings of its own."""
    known = tasks_of(PRESET, world, ANCHORS)
    names = shuffled(known, world, "valued")[:count]
    worker, rows = ShopWorker(policy_directory("tiny"), PRESET), []
    for number in range(len(TAUGHT) + 1):
        for rules in itertools.combinations(TAUGHT, number):
            jobs = [Job(asked(world, name), written(rules, world, name), 0) for name in names]
            answers = worker.answer(jobs)
            if faults := [answer.fault for answer in answers if answer.fault]:
                raise SystemExit(f"episodes that broke, {offenders(faults)}")
            row: dict[str, object] = {"rules": " ".join(rules), "episodes": len(jobs)}
            for part in PARTS:
                ids = tuple(known[name].id for name in names)
                earned = fmean(answer.facts["rollout"].parts[part] for answer in answers)
                row[f"worker_{part}"] = f"{earned:.4f}"
                row[f"shopper_{part}"] = f"{shopper_reward(PRESET, world, ids, part, frozenset(rules)):.4f}"
            rows.append(row)
            print(*row.values(), flush=True)
    return rows


def asked(world: int, name: str) -> Query:
    """Return a query that is there."""
    found = query_of(PRESET, world, name)
    assert found is not None
    return found


def written(rules: tuple[str, ...], world: int, name: str) -> Skill:
    """Return a skill of some rules, in phrasings drawn for one task."""
    draw = Draw(child_seed(world, "worth", name))
    return Skill(PREAMBLE, tuple(draw.shuffle([draw_chunk(rule, draw) for rule in rules])))


def agreement(rows: Sequence[Mapping[str, object]], part: str) -> tuple[int, int]:
    """Return in how many states the shopper's best edit is worth the best to the worker, or nearly, and of how many.

    A state is a set of rules and at most one draft of a rule; an edit takes a rule out, puts the draft in, or both.
    """
    worth = {
        name: {frozenset(str(row["rules"]).split()): float(str(row[f"{name}_{part}"])) for row in rows}
        for name in ("worker", "shopper")
    }
    states = [(rules, draft) for rules in worth["worker"] for draft in (None, *TAUGHT)]
    near = 0
    for rules, draft in states:
        added = frozenset({draft} if draft else ())
        edits = [rules] + [rules - {rule} | new for rule in ("", *rules) for new in (added, frozenset())]
        # As in a trace: the best edit that gains enough, else none; of equals the first.
        shown = max(edits, key=lambda edit: worth["shopper"][edit] - LEAST_GAIN * (edit != rules))
        near += max(worth["worker"][edit] for edit in edits) - worth["worker"][shown] <= LEAST_GAIN
    return near, len(states)


def speed_rows(world: int) -> list[dict[str, object]]:
    """Return seconds per batch of jobs, each a task and one of 48 first skills; CPU seconds tell on a busy machine."""
    names = shuffled(tasks_of(PRESET, world, ANCHORS), world, "speed")
    rows = []
    for workers in (1, 2):
        worker = ShopWorker(policy_directory("tiny"), PRESET, workers=workers)
        for size in (STEP, LARGE):
            jobs = [
                Job(asked(world, names[k % len(names)]), first_skill(child_seed(world, k % 48), False), 0)
                for k in range(size)
            ]
            worker.answer(jobs[:8])
            for repeat in range(REPEATS):
                began, spent = time.perf_counter(), time.process_time()
                answers = worker.answer(jobs)
                took, used = time.perf_counter() - began, time.process_time() - spent
                turns = sum(len(answer.facts["rollout"].turns) for answer in answers)
                row: dict[str, object] = {"workers": workers, "jobs": size, "repeat": repeat, "actions": turns}
                rows.append(row | {"seconds": f"{took:.3f}", "cpu_seconds": f"{used:.3f}"})
                print(*rows[-1].values(), flush=True)
    return rows


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--tasks", type=int, default=96, help="tasks per set of rules")
    parser.add_argument("--world", type=int, default=0, help="seed of the world")
    parser.add_argument("--reread", action="store_true", help="measure nothing, only count in the rows that are there")
    arguments = parser.parse_args()
    if not arguments.reread:
        write_csv(RESULTS / "shop_editor_speed.csv", speed_rows(arguments.world))
        write_csv(RESULTS / "shop_editor_worth.csv", worth_rows(arguments.world, arguments.tasks))
    with (RESULTS / "shop_editor_worth.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    for part in PARTS:
        print(
            part,
            "states in which the shopper's best edit is within {} of the worker's: {} of {}".format(
                LEAST_GAIN, *agreement(rows, part)
            ),
        )


if __name__ == "__main__":
    main()
