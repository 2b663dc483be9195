"""Splits by linked components: no product, request, telling persona or user is shared by two data roles (method §12.4).

A persona of up to three remarks ("keeps two cats") links no tasks, although it may tell something; linking all
would make one component of the whole world. Products that differ in price only (traps) are different products.

This holds where personas are documents, in the English and Chinese markets. In the plain language a persona is a few
short remarks, and of the 1,071 of `small`, seed 0, 45 are said by users of several splits; some tell a brand or a size
("Profile: wears adult; travels by train; likes onyx."). Plain splits are kept as they are, for results rest on them:
read them as disjoint in products and requests, and in no persona of more than three remarks shared.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from intraskill.environments.shopworld.reward import normalize
from intraskill.environments.shopworld.task import ShopTask
from intraskill.method.errors import SplitError, offenders
from intraskill.method.randomness import content_hash, uniform
from intraskill.method.tasks import Split

SHARES: tuple[tuple[Split, float], ...] = (
    ("test", 0.20),
    ("skill_validation", 0.22),
    ("model_dev", 0.04),
    ("audit", 0.04),
    ("train", 1.0),
)
# A market's audit split is large enough to rank chunks by; its test and skill-validation splits hold 400 tasks at most.
MARKET_SHARES: tuple[tuple[Split, float], ...] = (
    ("test", 0.20),
    ("skill_validation", 0.22),
    ("model_dev", 0.04),
    ("audit", 0.09),
    ("train", 1.0),
)
MARKET_MOST = 400
_DOCUMENT_CHARACTERS = 150  # a persona of this length, or of several lines, is one user's and no other's


def assign_splits(
    tasks: Sequence[ShopTask], seed: int, shares: Sequence[tuple[Split, float]] = SHARES, most: int | None = None
) -> tuple[ShopTask, ...]:
    """Return the tasks with their splits; whole components fill ``shares`` in order, the last takes the rest.

    Args:
        tasks: every task.
        seed: seed of the order of components.
        shares: split → its share of the tasks.
        most: no split but the last holds more tasks than its share and than this, and a component that does not fit
            is left to a later split; ``None`` lets a split's last component go beyond its share.
    """
    components = linked_components(tasks)
    rest = sorted(components, key=lambda members: (uniform(seed, "split", members[0].id), members[0].id))
    split_of: dict[str, Split] = {}
    for split, share in shares:
        room, left = round(share * len(tasks)), []
        if most is not None and split != shares[-1][0]:
            room = min(room, most)
        for members in rest:
            if room > 0 and (most is None or len(members) <= room):
                split_of |= {task.id: split for task in members}
                room -= len(members)
            else:
                left.append(members)
        rest = left
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


def check_manifest(found: Mapping[str, object], own: Mapping[str, object]) -> None:
    """Refuse a manifest that is not this world's.

    Args:
        found: a manifest as `Shop.manifest` gives it, from a file say.
        own: the manifest of the shop that its tasks are to be taken from.

    Raises:
        SplitError: for another catalogue, an id in two splits, ids that the world does not hold in that split, or
            content that does not fit its hash.
    """
    splits = found.get("splits")
    if not isinstance(splits, Mapping) or not all(
        isinstance(ids, list) and all(isinstance(task_id, str) for task_id in ids) for ids in splits.values()
    ):
        raise SplitError(
            "a manifest holds catalogue, splits (split → list of task ids) and hash; this one has no splits"
        )
    if found.get("catalogue") != own["catalogue"]:
        raise SplitError(
            f"the manifest belongs to catalogue {found.get('catalogue')}, and this world has catalogue "
            f"{own['catalogue']}; use the preset, seed and language that it was written with"
        )
    repeated = [i for i, n in Counter(i for ids in splits.values() for i in ids).items() if n > 1]
    if repeated:
        raise SplitError(f"task ids that stand in two splits of the manifest, {offenders(repeated)}; keep each in one")
    held = cast(Mapping[str, list[str]], own["splits"])
    foreign = [i for split, ids in splits.items() for i in sorted(set(ids) - set(held.get(split, ())))]
    if foreign:
        raise SplitError(f"task ids that this world does not hold in the manifest's split, {offenders(foreign)}")
    if found.get("hash") != own["hash"]:
        raise SplitError(
            f"the manifest's hash {found.get('hash')} is not this world's {own['hash']}: tasks are missing from it, or "
            "it was edited; write it again"
        )


def _keys(task: ShopTask) -> list[tuple[str, str]]:
    persona = task.persona or ""
    document = "\n" in persona or len(persona) > _DOCUMENT_CHARACTERS
    return [
        ("product", task.goal.product_id),
        ("instruction", normalize(task.instruction)),
        ("request", normalize(task.request if document else task.request + persona)),
        ("persona", content_hash(persona) if document or persona.count(";") > 2 else task.id),
        ("user", task.user),
    ]
