"""What a chunk of the shopping skill must not hold, gathered from the private side of a `Shop`."""

from collections.abc import Iterator

from intraskill.environments.shopworld.task import ShopTask
from intraskill.environments.shopworld.world import Shop
from intraskill.method.leakage.filter import Secrets
from intraskill.method.leakage.rules import stated_amounts
from intraskill.method.tasks import SPLITS


def shop_secrets(world: Shop) -> Secrets:
    """Return product ids and titles, task and user ids, goals and their prices, and the words of held-out tasks.

    Every split but train counts as held out. Reading texts to forbid them is no use of the test split: nothing here
    is scored or shown to a policy or an analyst.
    """
    tasks = [world.shop_task(task.id) for split in SPLITS for task in world.tasks(split)]
    held_out = [task for task in tasks if task.split != "train"]
    return Secrets(
        product_ids=tuple(product.id for product in world.catalogue.products),
        product_titles=tuple(product.title for product in world.catalogue.products),
        task_ids=tuple(name for task in tasks for name in (task.id, task.user)),
        goals=tuple(" ".join(task.goal.attributes) for task in tasks if len(task.goal.attributes) > 2),
        prices=tuple(sorted({price for task in tasks for price in _prices(task, world)})),
        instructions=tuple(text for task in held_out for text in (task.instruction, task.request, task.persona or "")),
    )


def _prices(task: ShopTask, world: Shop) -> Iterator[float]:
    """The goal's budget as it is and as the request states it, and the price of the variant it wants."""
    yield from stated_amounts((task.instruction, task.request))
    if task.goal.budget is not None:
        yield task.goal.budget
    yield world.catalogue.by_id[task.goal.product_id].price_of(task.goal.options)
