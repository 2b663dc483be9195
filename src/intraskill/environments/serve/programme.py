"""What a shop server offers: the tasks of the splits it was asked to serve, numbered, and what it says about itself."""

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.wire import BAD_REQUEST, Manifest, ManifestTask
from intraskill.environments.serve.desk import Desk, Lease
from intraskill.environments.serve.refusal import Refusal
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.world import CONTRACT, Shop
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.tasks import SPLITS, Split, Task

_ACTION = re.compile(r"\s*(\w+)\[(.*)\]\s*", re.DOTALL)


class Programme:
    """A shop's tasks by number.

    Args:
        shop: any catalogue with its tasks.
        splits: which data roles are served.
        desk: gives out slots.
        dialect: what is spoken.

    Raises:
        SplitError: for an unknown split.
        ConfigError: when the splits hold no task.
    """

    def __init__(self, shop: Shop, splits: Sequence[str], desk: Desk, dialect: str) -> None:
        unknown = [split for split in splits if split not in SPLITS]
        if unknown:
            raise SplitError(f"unknown splits, {offenders(unknown)}; choose from {', '.join(SPLITS)}")
        self.shop, self.desk, self.dialect = shop, desk, dialect
        self.splits: tuple[Split, ...] = tuple(split for split in SPLITS if split in splits)
        self.tasks: tuple[Task, ...] = tuple(task for split in self.splits for task in shop.tasks(split))
        if not self.tasks:
            named = ", ".join(splits) or "nothing"
            raise ConfigError(f"--splits names {named}, which hold no task; serve others, or a larger env.preset")

    @cached_property
    def names(self) -> list[str]:
        """Task ids as clients know them: their own, or numbers where files name tasks by the product that is wanted."""
        wanted = [self.shop.shop_task(task.id).goal.product_id for task in self.tasks]
        if any(product_id in task.id for task, product_id in zip(self.tasks, wanted, strict=True)):
            return [f"task-{idx:05d}" for idx in range(len(self.tasks))]
        return [task.id for task in self.tasks]

    def manifest(self) -> Manifest:
        """Return every served task with its number."""
        tasks: list[ManifestTask] = [
            {"idx": idx, "id": self.names[idx], "split": task.split, "features": dict(task.features)}
            for idx, task in enumerate(self.tasks)
        ]
        return {"catalogue": self.shop.catalogue.hash, "environment_version": self.shop.version, "tasks": tasks}

    def health(self) -> dict[str, Any]:
        """Return what the server says about itself; ``language`` is the pages'."""
        return {
            "ready": True,
            "environment_slots": self.desk.slots,
            "free_slots": self.desk.free_slots,
            "tasks": len(self.tasks),
            "environment_version": self.shop.version,
            "observation_version": CONTRACT,
            "primary_reward": "r_strict",
            "language": self.shop.settings.language,
            "dialect": self.dialect,
        }

    def number(self, idx: object) -> int:
        """Return a task's number.

        Raises:
            Refusal: 400, for one that is no task's.
        """
        if not isinstance(idx, int) or isinstance(idx, bool) or not 0 <= idx < len(self.tasks):
            raise Refusal(BAD_REQUEST, f"there is no task {idx!r}; idx goes from 0 to {len(self.tasks) - 1}")
        return idx

    def begin(self, lease: Lease, idx: int) -> Opening:
        """Start a task in a slot; what the slot played before is left."""
        session = self.shop.open()
        lease.opening = session.reset(self.tasks[idx].id)
        lease.session, lease.idx, lease.outcome = session, idx, None
        return lease.opening

    def act(self, lease: Lease, text: object) -> Outcome:
        """Apply an action such as ``search[words]``; the caller holds the lease's lock.

        Raises:
            Refusal: 400, for a request without text, before a reset or after the end.
        """
        if not isinstance(text, str):
            raise Refusal(BAD_REQUEST, f"an action is a text such as search[words], got {type(text).__name__}")
        lease.outcome = self._running(lease).step(as_call(text))
        return lease.outcome

    def end(self, lease: Lease, reason: str) -> Outcome:
        """End an episode without a purchase; the caller holds the lease's lock.

        Raises:
            Refusal: 400, before a reset or after the end.
        """
        lease.outcome = self._running(lease).terminate(reason)
        return lease.outcome

    def _running(self, lease: Lease) -> Any:
        if lease.session is None:
            raise Refusal(BAD_REQUEST, f"slot {lease.env_idx} was not reset yet")
        if lease.outcome is not None and lease.outcome.done:
            raise Refusal(BAD_REQUEST, f"the episode of slot {lease.env_idx} is over ({lease.outcome.termination})")
        return lease.session


def as_call(text: str) -> str:
    """Return the tool call that an action text means; a text that is no action stays as it is, and is refused there."""
    found = _ACTION.fullmatch(text)
    if found is None or found[1] not in PARAMETERS:
        return text
    return write_call(found[1], PARAMETERS[found[1]], found[2])


def state_now(lease: Lease) -> Mapping[str, Any]:
    """Return the public state that a slot shows.

    Raises:
        Refusal: 400, before the first reset.
    """
    shown = lease.outcome or lease.opening
    if shown is None:
        raise Refusal(BAD_REQUEST, f"slot {lease.env_idx} was not reset yet")
    return shown.state
