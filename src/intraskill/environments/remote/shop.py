"""`RemoteShop`: a real ShopSimulator or WebShop server as an `intraskill.environments.protocol.Environment`."""

import inspect
import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from intraskill.environments.protocol import Opening, Outcome, Session, ToolSpec
from intraskill.environments.remote.agentgym import AgentGymDialect
from intraskill.environments.remote.episode import Dialect, RemoteEpisode, ServerIdentity
from intraskill.environments.remote.lease import LeaseDialect
from intraskill.environments.remote.roster import FAMILY, Roster, choose_roster
from intraskill.environments.remote.transport import RemoteFault, RemoteSettings, Request, Transport
from intraskill.environments.remote.upstream import UpstreamDialect
from intraskill.environments.remote.wire import MANIFEST_ROUTE
from intraskill.environments.shopworld.session import PARAMETERS, SYSTEM, shop_tools
from intraskill.environments.tool_calls import read_call
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import Split, Task

if TYPE_CHECKING:
    from intraskill.environments.shop_evidence.reader import ShopReader

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

    def __init__(self, episode: RemoteEpisode, roster: Roster, slots: Slots) -> None:
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


def _give_back(episode: RemoteEpisode, slots: Slots) -> None:
    """Release the lease, then our slot: the server must be free before the next episode asks for it."""
    try:
        _quietly(episode.release)
    finally:
        slots.give_back()


def _forgotten(episode: RemoteEpisode, slots: Slots) -> None:
    _in_background(lambda: _give_back(episode, slots))


def _quietly(release: Callable[[], None]) -> None:
    """Give something back; where that fails, an episode's reward stands, and its own fault is already under way."""
    try:
        release()
    except RemoteFault as fault:
        _LOG.warning("a slot may stay taken on the server: %s", fault)


def _in_background(release: Callable[[], None]) -> None:
    """Run what gives back a forgotten object's slot in a thread of its own.

    The garbage collector may run anywhere, also while this thread holds a lock that an HTTP request needs.
    """
    if threading.main_thread().is_alive():
        threading.Thread(target=release, name="release").start()
    else:  # the interpreter is shutting down and starts no more threads
        release()


@dataclass(frozen=True, slots=True)
class _Connection:
    """What the first contact told."""

    identity: ServerIdentity
    roster: Roster


class RemoteShop:
    """A shop behind HTTP; nothing is sent before its tasks, its version or a session are asked for.

    There is no ``solvable``: nobody here knows the answers, so triage has no oracle.

    Args:
        preset: unused, as ``seed`` is: a server's world is its own.
        seed: unused.
        persona: requests leave out what the persona document holds; ``False`` asks for full requests without one.
        options: see `intraskill.environments.remote.transport.RemoteSettings`.

    Raises:
        ConfigError: for options that make no sense.
    """

    family = FAMILY
    system = SYSTEM

    __signature__ = inspect.Signature(
        [
            inspect.Parameter("preset", inspect.Parameter.POSITIONAL_OR_KEYWORD, default="", annotation=str),
            inspect.Parameter("seed", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=0, annotation=int),
            inspect.Parameter("persona", inspect.Parameter.KEYWORD_ONLY, default=True, annotation=bool),
            *inspect.signature(RemoteSettings).parameters.values(),
        ]
    )
    """What a factory's caller sees: every option by its name and type."""

    def __init__(self, preset: str = "", seed: int = 0, *, persona: bool = True, **options: Any) -> None:
        if preset == "plain":
            raise ConfigError("env.preset=plain: a remote shop has no presets; set env.options.persona=false instead")
        self.settings = RemoteSettings(**options)
        self._kind = "persona" if persona else "plain"
        self._transport = Transport(self.settings)
        self._dialect = _dialect(self._transport, self.settings, persona)
        self._slots = Slots(self.settings.slots, self.settings.slot_timeout_s)
        self._lock = threading.Lock()
        self._connection: _Connection | None = None

    @property
    def version(self) -> str:
        """Dialect, reward profile, the server's versions and the kind of request, then a hash of them and the tasks."""
        known, settings = self._connected(), self.settings
        words = [settings.dialect, self._dialect.profile, known.identity.environment_version]
        words += [known.identity.observation_version, self._kind]
        return f"{'/'.join(words)}/{content_hash(words, known.identity.tasks, known.roster.hash)}"

    @property
    def tools(self) -> Sequence[ToolSpec]:
        """The two tools, as JSON schemas: the same as `ShopWorld`'s, whatever the server calls its own."""
        return shop_tools()

    @property
    def language(self) -> str:
        """``env.options.language``; ``unknown``, which is none that anything was made for, where it is not set."""
        return self.settings.language or "unknown"

    @property
    def reader(self) -> "ShopReader":
        """Reads episodes of this shop, and recorded ones of others, for the rules proposer."""
        from intraskill.environments.shop_evidence.reader import ShopReader

        return ShopReader(self.language)

    @property
    def slots(self) -> int:
        """Most episodes open at once; the next one waits, so a batch must not hold more."""
        return self.settings.slots

    @property
    def reward_parts(self) -> Sequence[str]:
        """Names of the components that a finished episode carries; they depend on the dialect."""
        return self._dialect.reward_parts

    def tasks(self, split: Split) -> tuple[Task, ...]:
        """Return the tasks of one split, in a fixed order; those of ``test`` only under that name."""
        return self._connected().roster.of(split)

    def open(self) -> Session:
        """Return a new single-use session; it takes its slot at `reset`."""
        known = self._connected()
        return RemoteSession(self._dialect.episode(known.identity), known.roster, self._slots)

    def _connected(self) -> _Connection:
        """Ask the server once what it is and what tasks it has.

        Raises:
            RemoteFault: when it does not answer, or not in this dialect.
            ConfigError: when it holds fewer slots than asked for, or nothing says what its tasks are.
        """
        with self._lock:
            if self._connection is None:
                settings = self.settings
                identity = self._dialect.identify()
                if identity.slots is not None and identity.slots < settings.slots:
                    raise ConfigError(
                        f"{settings.url} holds {identity.slots} episodes at once, and env.options.slots="
                        f"{settings.slots}: start it with more, or lower env.options.slots and rollout.batch"
                    )
                offered = self._transport.offered(Request(MANIFEST_ROUTE))
                roster = choose_roster(settings.manifest, offered, settings.split_sizes, identity, settings.url)
                self._connection = _Connection(identity, roster)
            return self._connection


def _dialect(transport: Transport, settings: RemoteSettings, persona: bool) -> Dialect:
    if settings.dialect == "shopsim-lease":
        return LeaseDialect(transport, settings, persona)
    if settings.dialect == "shopsim-upstream":
        return UpstreamDialect(transport, settings, persona)
    return AgentGymDialect(transport, settings)
