"""How hard a shop is without learning: oracle, greedy and random shoppers, and how well its search finds the goods."""

from collections.abc import Mapping, Sequence

from intraskill.environments.shopworld.proof import ORACLE_ACTIONS, oracle_actions
from intraskill.environments.shopworld.shoppers import play
from intraskill.environments.shopworld.world import Shop
from intraskill.method.randomness import shuffled
from intraskill.method.tasks import OPENED

# Where a market's mean over its tasks must lie; the published server's data has a recall of 0.69 and 0.86.
BANDS: Mapping[str, tuple[float, float]] = {
    "oracle": (1.0, 1.0),
    "greedy": (0.15, 0.40),
    "random": (0.0, 0.02),
    "recall20_simple": (0.60, 0.75),
    "recall20_full": (0.80, 0.90),
    "recall150_full": (1.0, 1.0),
}


def calibration_tasks(shop: Shop, limit: int | None = None) -> list[str]:
    """Return the ids of at most ``limit`` tasks in an addressed order; test tasks are left alone."""
    ids = [task.id for split in OPENED for task in shop.tasks(split)]
    return shuffled(ids, 0, "calibration")[:limit]


def calibrate(shop: Shop, task_ids: Sequence[str]) -> dict[str, list[float]]:
    """Play every task with every scripted shopper and search for its gold product.

    Returns:
        Measure → one value per task: full success of ``oracle``, ``greedy``, ``greedy_request`` (options from the
        request alone) and ``random``; ``oracle_actions`` (8 where it failed); and whether the gold product is among
        the first 20 or 150 results of the simple request and of the full instruction.
    """
    taken = [oracle_actions(shop, task_id) for task_id in task_ids]
    found: dict[str, list[float]] = {
        "oracle": [float(count is not None) for count in taken],
        "oracle_actions": [float(count or ORACLE_ACTIONS) for count in taken],
    }
    for kind in ("greedy", "greedy_request", "random"):
        found[kind] = [play(shop, task_id, kind)[0]["r_success"] for task_id in task_ids]
    tasks = [shop.shop_task(task_id) for task_id in task_ids]
    for name, texts in (("simple", [t.request for t in tasks]), ("full", [t.instruction for t in tasks])):
        results = [shop.index.search(text, 150) for text in texts]
        for depth in (20, 150):
            hits = [float(t.goal.product_id in row[:depth]) for t, row in zip(tasks, results, strict=True)]
            found[f"recall{depth}_{name}"] = hits
    return found
