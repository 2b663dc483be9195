"""Steps per second of varied shopping in English, each time with an empty memory of queries.

python scripts/bench_env.py [--repeats 5]

Replays 400 recorded episodes in one process; time is processor time. Writes docs/results/bench_env.csv;
`bench_shop.py` has the details.
"""

import argparse
from typing import Any

from bench_model import write_rows
from bench_shop import record, replay

from intraskill.environments.shopworld import ShopWorld


def main() -> None:
    """Measure both presets and write the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    rows: list[dict[str, Any]] = []
    for preset in ("small", "paper"):
        world = ShopWorld(preset)
        episodes = record(world, 400)
        for repeat in range(repeats):
            world.index.ranked.cache_clear()
            rows.append({"variant": preset, "repeat": repeat, "steps_per_s": round(replay([world], episodes))})
            print(preset, rows[-1]["steps_per_s"], flush=True)
    write_rows("bench_env", rows)


if __name__ == "__main__":
    main()
