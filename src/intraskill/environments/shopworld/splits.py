"""Splits by linked components: no product, request, telling persona or user is shared by two data roles (method §12.4).

A persona of up to three remarks ("keeps two cats") tells nothing about its user, so it links no tasks; linking all
would make one component of the whole world. Products that differ in price only (traps) are different products.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from intraskill.environments.shopworld.reward import normalize
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.tasks import Split

SHARES: tuple[tuple[Split, float], ...] = (
    ("test", 0.20),
    ("skill_validation", 0.22),
    ("model_dev", 0.04),
    ("audit", 0.04),
    ("train", 1.0),
)


def assign_splits(
    tasks: Sequence[ShopTask], seed: int, shares: Sequence[tuple[Split, float]] = SHARES
) -> tuple[ShopTask, ...]:
    """Return the tasks with their splits; whole components fill ``shares`` in order, the last takes the rest."""
    components = linked_components(tasks)
    order = sorted(components, key=lambda members: (uniform(seed, "split", members[0].id), members[0].id))
    split_of: dict[str, Split] = {}
    queue = iter(order)
    for split, share in shares:
        filled = 0
        while filled < round(share * len(tasks)) and (members := next(queue, None)):
            split_of |= {task.id: split for task in members}
            filled += len(members)
    return tuple(replace(task, split=split_of[task.id]) for task in tasks)


def linked_components(tasks: Sequence[ShopTask]) -> list[list[ShopTask]]:
    """Return groups of tasks connected by any shared key, by union–find."""
    parent = list(range(len(tasks)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first_with: dict[tuple[str, str], int] = {}
    for i, task in enumerate(tasks):
        for key in _keys(task):
            j = first_with.setdefault(key, i)
            parent[root(i)] = root(j)
    groups: dict[int, list[ShopTask]] = defaultdict(list)
    for i, task in enumerate(tasks):
        groups[root(i)].append(task)
    return list(groups.values())


def manifest(tasks: Sequence[ShopTask], catalogue_hash: str) -> dict[str, object]:
    """Return ids per split and one hash that binds them to their catalogue."""
    ids: dict[str, list[str]] = {split: [task.id for task in tasks if task.split == split] for split, _ in SHARES}
    return {"catalogue": catalogue_hash, "splits": ids, "hash": content_hash(catalogue_hash, ids)}


def _keys(task: ShopTask) -> list[tuple[str, str]]:
    persona = task.persona or ""
    return [
        ("product", task.goal.product_id),
        ("instruction", normalize(task.instruction)),
        ("request", normalize(task.request + persona)),
        ("persona", content_hash(persona) if persona.count(";") > 2 else task.id),
        ("user", task.user),
    ]
