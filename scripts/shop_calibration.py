"""Measure every market preset with scripted shoppers; write docs/results/shop_calibration.csv.

python scripts/shop_calibration.py [--tasks N] [--presets tiny small paper]
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.calibration import calibrate, calibration_tasks
from intraskill.method.gate.intervals import mean_interval

OUT = Path(__file__).parents[1] / "docs" / "results" / "shop_calibration.csv"
SEEDS = {"tiny": (0, 1, 2), "small": (0, 1, 2), "paper": (0,)}


def rows(presets: list[str], limit: int) -> Iterator[dict[str, str]]:
    """Yield one row per world: the mean of every measure and its standard error over tasks."""
    for preset in presets:
        for language in ("en", "zh"):
            for seed in SEEDS[preset]:
                world = ShopWorld(preset, seed, language=language)
                task_ids = calibration_tasks(world, limit)
                row = {"preset": preset, "language": language, "seed": str(seed), "world": world.version}
                row |= {"products": str(len(world.catalogue.products)), "tasks": str(len(task_ids))}
                for name, values in calibrate(world, task_ids).items():
                    interval = mean_interval(values)
                    row |= {name: f"{interval.mean:.4f}", f"{name}_se": f"{interval.se:.4f}"}
                yield row


def main() -> None:
    """Write the table row by row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=1000, help="at most this many tasks per world, never test tasks")
    parser.add_argument("--presets", nargs="+", default=list(SEEDS), choices=list(SEEDS))
    arguments = parser.parse_args()
    with OUT.open("w", newline="") as file:
        table: csv.DictWriter[str] | None = None
        for row in rows(arguments.presets, arguments.tasks):
            if table is None:
                table = csv.DictWriter(file, list(row))
                table.writeheader()
            table.writerow(row)
            print({key: value for key, value in row.items() if not key.endswith("_se")}, flush=True)


if __name__ == "__main__":
    main()
