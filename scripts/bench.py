"""Measure the speed of the hot paths that need no policy: the shop, and the gate's arithmetic.

python scripts/bench.py            # one line per path, some seconds on one core once the worlds are on disk

Writes env_steps_small and env_steps_paper (steps/s, English, no query seen before) into docs/results/bench.json and
leaves the file's other keys alone. scripts/bench_shop.py has the details.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from bench_shop import record, replay

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.environments.shopworld.plain.expert import RuleShopper
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import write_call
from intraskill.method.attribution import fit_contributions
from intraskill.method.paired_validation import Conditions, Scored, pair, plan_visible
from intraskill.method.skill import BARE, Chunk, Skill
from intraskill.method.tasks import Task

OUT = Path(__file__).parents[1] / "docs" / "results" / "bench.json"
REPEATS = 5


def per_second(work: Callable[[], int], seconds: float) -> float:
    """Repeat ``work``, which returns how many units it did, for about ``seconds``; return units per second."""
    work()  # warm caches and imports
    done, began = 0, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        done += work()
    return done / elapsed


def play_all(world: ShopWorld) -> int:
    """Play every train task with the scripted shopper; return the number of steps."""
    steps = 0
    for task in world.tasks("train"):
        session = world.open()
        opening = session.reset(task.id)
        shopper, state, done = RuleShopper(opening, set(USEFUL)), dict(opening.state), False
        while not done:
            call = shopper.act(state)
            outcome = session.step(write_call(call.name, PARAMETERS[call.name], call.argument))
            state, done, steps = dict(outcome.state), outcome.done, steps + 1
    return steps


def browse(preset: str) -> float:
    """Return steps per second of varied shopping in English, each time with an empty memory of queries."""
    world = ShopWorld(preset)
    episodes, found = record(world, 400), []
    for _ in range(REPEATS):
        world.index.ranked.cache_clear()
        found.append(replay([world], episodes))
    return median(found)


def note(figures: dict[str, float]) -> None:
    """Merge figures into the file of results."""
    known = json.loads(OUT.read_text()) if OUT.exists() else {}
    OUT.write_text(json.dumps({**known, **figures}, indent=1, sort_keys=True) + "\n")


def gate_once(num_tasks: int = 400, num_chunks: int = 12) -> int:
    """Plan, pair and fit one gate of the published size; return 1."""
    skill = Skill("p", tuple(Chunk(f"Chunk {j}", f"Rule {j}.") for j in range(num_chunks)))
    tasks = [Task(f"v{i}", "shopping", "skill_validation") for i in range(num_tasks)]
    planned = plan_visible(skill, (), tasks, seed=0, round_index=0)
    conditions = Conditions("c", "skill_validation", "s", "p", "e")
    rewards = np.random.Generator(np.random.PCG64(0)).random((2, num_tasks)).tolist()
    arms = [
        [
            Scored(task.id, 0, BARE if arm == 0 else planned[task.id], reward, {"r_strict": reward}, conditions)
            for task, reward in zip(tasks, rewards[arm], strict=True)
        ]
        for arm in (0, 1)
    ]
    fit_contributions(pair(arms[0], arms[1], planned, skill.ids))
    return 1


def main() -> None:
    """Print one line per path."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="time per measurement")
    seconds = parser.parse_args().seconds
    for preset in ("tiny", "small"):
        world = ShopWorld(preset, language="plain")
        print(f"shop steps, {preset:<8} {per_second(partial(play_all, world), seconds):>12,.0f} /s")
    figures = {}
    for preset in ("small", "paper"):
        figures[f"env_steps_{preset}"] = round(browse(preset))
        print(f"varied shopping, {preset:<6} {figures[f'env_steps_{preset}']:>9,.0f} /s")
    note(figures)
    print(f"gate, 400 pairs, 12 chunks {per_second(gate_once, seconds):>6,.1f} /s")


if __name__ == "__main__":
    main()
