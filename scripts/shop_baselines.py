"""How scripted shoppers fare in ShopWorld, by the rules they obey; write docs/results/shop_baselines.csv.

python scripts/shop_baselines.py [--tasks N]
"""

import argparse
import csv
from pathlib import Path

from intraskill.environments.shopworld import ShopWorld
from intraskill.environments.shopworld.lessons import USEFUL
from intraskill.environments.shopworld.plain.difficulty import play
from intraskill.environments.shopworld.reward import REWARD_PARTS
from intraskill.method.gate.intervals import mean_interval

OUT = Path(__file__).parents[1] / "docs" / "results" / "shop_baselines.csv"
SHOPPERS = {
    "no rule": frozenset(),
    **{f"only {rule}": frozenset({rule}) for rule in USEFUL},
    **{f"all but {rule}": frozenset(USEFUL) - {rule} for rule in USEFUL},
    "all useful rules": frozenset(USEFUL),
    "all useful rules, opens the last result": frozenset({*USEFUL, "open_last"}),
}


def main() -> None:
    """Play every shopper on the same train tasks and write the means with their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=600)
    arguments = parser.parse_args()
    world = ShopWorld("small", 0, page_size=4, language="plain")
    task_ids = [task.id for task in world.tasks("train")][: arguments.tasks]
    with OUT.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["shopper", "tasks", *(f"{part}{end}" for part in REWARD_PARTS for end in ("", "_se"))])
        for name, rules in SHOPPERS.items():
            played = [play(world, task_id, rules)[1] for task_id in task_ids]
            found = [mean_interval([parts[part] for parts in played]) for part in REWARD_PARTS]
            rows.writerow([name, len(played), *(f"{v:.4f}" for one in found for v in (one.mean, one.se))])
            print(f"{name:42s} r_strict {found[0].mean:.3f} ± {found[0].se:.3f}, success {found[2].mean:.3f}")


if __name__ == "__main__":
    main()
