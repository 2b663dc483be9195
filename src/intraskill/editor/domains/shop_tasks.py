"""Tasks of the plain shops as queries, ``world-0/shop-00012``; train tasks give evidence, the others try skills."""

from functools import lru_cache

from intraskill.editor.domain import Query
from intraskill.environments.shopworld import ShopWorld
from intraskill.method.randomness import Address, shuffled
from intraskill.method.tasks import Split, Task

PAGE_SIZE = 4
ALIKE = ("axes", "soft")
"""Features that a failed task and its anchors share: how many options there are, how much only the profile tells."""
EVIDENCE: Split = "train"
ANCHORS: Split = "skill_validation"
PROBES: Split = "test"


@lru_cache(maxsize=4)
def plain_shop(preset: str, world: int) -> ShopWorld:
    """Return a shop as the tiny policy can read it; built once."""
    return ShopWorld(preset, world, language="plain", page_size=PAGE_SIZE)


@lru_cache(maxsize=16)
def tasks_of(preset: str, world: int, split: Split) -> dict[str, Task]:
    """Return query id → task of one split."""
    return {f"world-{world}/{task.id}": task for task in plain_shop(preset, world).tasks(split)}


def query_of(preset: str, world: int, query_id: str) -> Query | None:
    """Return the query of a world's task, ``None`` where the world has none of this id."""
    for split in (EVIDENCE, ANCHORS, PROBES):
        if task := tasks_of(preset, world, split).get(query_id):
            asked = plain_shop(preset, world).shop_task(task.id)
            text = asked.request if asked.persona is None else f"{asked.request}\n{asked.persona}"
            return Query(query_id, text, {"world": world, "task": task})
    return None


def anchors_like(preset: str, world: int, query_id: str, count: int, *where: Address) -> tuple[str, ...]:
    """Return queries on which to try what a failed train task taught: those like it first, in a drawn order.

    Args:
        preset: size of the world.
        world: its seed.
        query_id: the failed task.
        count: at most how many.
        where: address of the draw.
    """
    failed, others = tasks_of(preset, world, EVIDENCE)[query_id], tasks_of(preset, world, ANCHORS)
    order = shuffled(others, world, "anchors", query_id, *where)
    return tuple(sorted(order, key=lambda other: _kind(others[other]) != _kind(failed))[:count])


def _kind(task: Task) -> tuple[str, ...]:
    return tuple(task.features[name] for name in ALIKE)
