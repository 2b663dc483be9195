"""Who holds which episode: slots, leases with ids, expiry, and release exactly once."""

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeGuard

from intraskill.environments.protocol import Opening, Outcome, Session
from intraskill.environments.remote.wire import STALE_LEASE
from intraskill.environments.serve.refusal import SERVER_ERROR, Refusal


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
                    raise Refusal(SERVER_ERROR, f"all {self.slots} slots stayed taken for {self._wait_s:g} s")
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
            raise Refusal(STALE_LEASE, f"lease {lease_id!r} of slot {env_idx!r} is stale, released or was never given")
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
