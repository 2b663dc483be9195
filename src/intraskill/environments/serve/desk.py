"""What a shop server offers, and who holds which episode: slots, leases with ids, expiry, release exactly once."""

import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeGuard

from intraskill.environments.protocol import Opening, Outcome, Session
from intraskill.environments.remote.wire import BAD_REQUEST, STALE_LEASE, Manifest, ManifestTask
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.shopworld.stock import CONTRACT
from intraskill.environments.shopworld.world import Shop
from intraskill.environments.tool_calls import write_call
from intraskill.method.errors import ConfigError, SplitError, offenders
from intraskill.method.tasks import SPLITS, Split, Task


class RequestRefusal(Exception):
    """Answered as a JSON error; never leaves the server.

    Attributes:
        status: HTTP status code.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


NOT_FOUND = 404
SERVER_ERROR = 500


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a JSON value is an integer; ``true`` is none."""
    return isinstance(value, int) and not isinstance(value, bool)


@dataclass(eq=False)
class Lease:
    """One slot in use.

    Attributes:
        env_idx: number of the slot.
        lease_id: whoever knows it may act.
        idx: number of its task; ``None`` before the first reset.
        session: the episode.
        opening: what it showed first.
        outcome: what the last action led to.
        used: when it was last used, seconds of the desk's clock.
        lock: held while a request acts, so that two requests never act at once.
    """

    env_idx: int
    lease_id: str
    idx: int | None = None
    session: Session | None = None
    opening: Opening | None = None
    outcome: Outcome | None = None
    used: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Desk:
    """Gives out slots and takes them back; safe between threads.

    Args:
        slots: episodes at once.
        lease_s: seconds without use after which a slot is taken back when somebody waits, or its holder returns.
        wait_s: seconds that a reset waits for a slot.
        clock: seconds that only grow.
    """

    def __init__(self, slots: int, lease_s: float, wait_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.slots, self._lease_s, self._wait_s, self._clock = slots, lease_s, wait_s, clock
        self._leases: dict[int, Lease] = {}
        self._free = list(range(slots - 1, -1, -1))
        self._changed = threading.Condition()

    @property
    def free_slots(self) -> int:
        """Slots that nobody holds; expired ones count as free."""
        with self._changed:
            self._expire()
            return len(self._free)

    def take(self) -> Lease:
        """Wait for a slot and lease it.

        Raises:
            Refusal: when none comes free in time.
        """
        deadline = time.monotonic() + self._wait_s
        with self._changed:
            self._expire()
            while not self._free:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise RequestRefusal(SERVER_ERROR, f"all {self.slots} slots stayed taken for {self._wait_s:g} s")
                self._changed.wait(min(left, 1.0))
                self._expire()
            lease = Lease(self._free.pop(), secrets.token_hex(8), used=self._clock())
            self._leases[lease.env_idx] = lease
            return lease

    def find(self, env_idx: object, lease_id: object = None) -> Lease | None:
        """Return a lease that is still held, and renew it; ``None`` when it is not, or has another id."""
        with self._changed:
            self._expire()
            lease = self._leases.get(env_idx) if is_number(env_idx) else None
            if lease is None or (lease_id is not None and lease.lease_id != lease_id):
                return None
            lease.used = self._clock()
            return lease

    def held(self, env_idx: object, lease_id: object) -> Lease:
        """Return a lease by slot and id.

        Raises:
            Refusal: 409, for one that is stale, released or was never given.
        """
        lease = self.find(env_idx, lease_id)
        if lease is None:
            raise RequestRefusal(
                STALE_LEASE, f"lease {lease_id!r} of slot {env_idx!r} is stale, released or was never given"
            )
        return lease

    def release(self, lease: Lease) -> bool:
        """Take a slot back; ``False`` when this lease no longer holds it, and then nothing changes."""
        with self._changed:
            if self._leases.get(lease.env_idx) is not lease:
                return False
            self._drop(lease)
            return True

    def _expire(self) -> None:
        before = self._clock() - self._lease_s
        for lease in [lease for lease in self._leases.values() if lease.used < before and not lease.lock.locked()]:
            self._drop(lease)

    def _drop(self, lease: Lease) -> None:
        del self._leases[lease.env_idx]
        self._free.append(lease.env_idx)
        self._changed.notify()


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
            raise RequestRefusal(BAD_REQUEST, f"there is no task {idx!r}; idx goes from 0 to {len(self.tasks) - 1}")
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
            raise RequestRefusal(BAD_REQUEST, f"an action is a text such as search[words], got {type(text).__name__}")
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
            raise RequestRefusal(BAD_REQUEST, f"slot {lease.env_idx} was not reset yet")
        if lease.outcome is not None and lease.outcome.done:
            raise RequestRefusal(
                BAD_REQUEST, f"the episode of slot {lease.env_idx} is over ({lease.outcome.termination})"
            )
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
        raise RequestRefusal(BAD_REQUEST, f"slot {lease.env_idx} was not reset yet")
    return shown.state
