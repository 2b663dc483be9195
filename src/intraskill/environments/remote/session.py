"""One remote episode: single use, one slot, one lease that is given back exactly once, whatever happens."""

import logging
import threading
import weakref
from collections.abc import Callable
from typing import TypeVar

from intraskill.environments.protocol import Opening, Outcome
from intraskill.environments.remote.episode import Episode
from intraskill.environments.remote.faults import RemoteFault
from intraskill.environments.remote.roster import Roster
from intraskill.environments.shopworld.session import PARAMETERS
from intraskill.environments.tool_calls import read_call

Answer = TypeVar("Answer", Opening, Outcome)
_LOG = logging.getLogger(__name__)


class Slots:
    """Bounds the episodes that are open at once, over all threads.

    Args:
        count: how many.
        timeout_s: seconds that `take` waits.
    """

    def __init__(self, count: int, timeout_s: float) -> None:
        self.count, self._timeout_s = count, timeout_s
        self._free = threading.Semaphore(count)
        self._starved = False

    def take(self) -> None:
        """Wait for a slot; not again after a wait in vain, until one was given back.

        Raises:
            RemoteFault: ``slots``, when none came free in time.
        """
        if not self._free.acquire(timeout=0 if self._starved else self._timeout_s):
            self._starved = True
            raise RemoteFault(
                "slots",
                f"all {self.count} slots stayed taken for {self._timeout_s:g} s; raise env.options.slots (and the "
                "server's own) to at least rollout.batch, or lower rollout.batch",
            )

    def give_back(self) -> None:
        """Let the next episode in."""
        self._starved = False
        self._free.release()


class RemoteSession:
    """A single-use session; see `intraskill.environments.protocol.Session`.

    Args:
        episode: how the dialect plays one episode.
        roster: task ids and their numbers.
        slots: shared by all sessions of the environment.
    """

    def __init__(self, episode: Episode, roster: Roster, slots: Slots) -> None:
        self._episode, self._roster, self._slots = episode, roster, slots
        self._task_id = ""
        self._over = ""
        self._finalizer: weakref.finalize[..., RemoteSession] | None = None

    def reset(self, task_id: str) -> Opening:
        """Take a slot and a lease, and start a task.

        Raises:
            RuntimeError: when the session was used before.
            SplitError: for an id that the shop does not list.
            RemoteFault: for a technical failure; slot and lease are given back.
        """
        if self._task_id:
            raise RuntimeError(f"a session is used once, and this one already holds {self._task_id}; open another")
        number = self._roster.number(task_id)
        self._task_id, self._over = task_id, "no slot"
        self._slots.take()
        self._over = ""
        self._finalizer = weakref.finalize(self, _forgotten, self._episode, self._slots)
        return self._guarded(lambda: self._episode.reset(number))

    def step(self, action: str) -> Outcome:
        """Send the one call in a text, or answer locally with the feedback code that says why there is none.

        Raises:
            RuntimeError: before the first reset, and after the episode is over.
            RemoteFault: for a technical failure; nothing is sent twice, and the episode is over.
        """
        self._require_open()
        call = read_call(action, PARAMETERS)
        if isinstance(call, str):
            return self._episode.refuse(call)
        return self._ended(self._guarded(lambda: self._episode.act(call)))

    def terminate(self, reason: str) -> Outcome:
        """End the episode without a purchase: zero on every component."""
        self._require_open()
        return self._ended(self._guarded(lambda: self._episode.terminate(reason)))

    def _ended(self, outcome: Outcome) -> Outcome:
        if outcome.done:
            self._over = outcome.termination
            self._close()
        return outcome

    def _guarded(self, act: Callable[[], Answer]) -> Answer:
        """Let the server answer; if it cannot, the episode is over and everything is given back."""
        finished = False
        try:
            answer = act()
            finished = True
            return answer
        finally:
            if not finished:
                self._over = "fault"
                self._close()

    def _close(self) -> None:
        # Detaching succeeds once, in whichever thread comes first.
        if self._finalizer is not None and self._finalizer.detach() is not None:
            _give_back(self._episode, self._slots)

    def _require_open(self) -> None:
        if not self._task_id:
            raise RuntimeError("reset the session before its first step")
        if self._over:
            raise RuntimeError(f"the episode of {self._task_id} is over ({self._over}); open another session")


def _give_back(episode: Episode, slots: Slots) -> None:
    """Release the lease, then our slot: the server must be free before the next episode asks for it."""
    try:
        quietly(episode.release)
    finally:
        slots.give_back()


def _forgotten(episode: Episode, slots: Slots) -> None:
    in_background(lambda: _give_back(episode, slots))


def quietly(release: Callable[[], None]) -> None:
    """Give something back; where that fails, an episode's reward stands, and its own fault is already under way."""
    try:
        release()
    except RemoteFault as fault:
        _LOG.warning("a slot may stay taken on the server: %s", fault)


def in_background(release: Callable[[], None]) -> None:
    """Run what gives back a forgotten object's slot in a thread of its own.

    The garbage collector may run anywhere, also while this thread holds a lock that an HTTP request needs.
    """
    if threading.main_thread().is_alive():
        threading.Thread(target=release, name="release").start()
    else:  # the interpreter is shutting down and starts no more threads
        release()
