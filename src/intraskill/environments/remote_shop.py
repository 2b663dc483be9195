"""`RemoteShop`: a real ShopSimulator or WebShop server as an `intraskill.environments.protocol.Environment`."""

import inspect
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from intraskill.environments.protocol import Session, ToolSpec
from intraskill.environments.remote.agentgym import AgentGymDialect
from intraskill.environments.remote.episode import Dialect, Identity
from intraskill.environments.remote.lease import LeaseDialect
from intraskill.environments.remote.roster import FAMILY, Roster, choose_roster
from intraskill.environments.remote.session import RemoteSession, Slots
from intraskill.environments.remote.settings import RemoteSettings
from intraskill.environments.remote.transport import Request, Transport
from intraskill.environments.remote.upstream import UpstreamDialect
from intraskill.environments.remote.wire import MANIFEST_ROUTE
from intraskill.environments.shopworld.session import shop_tools
from intraskill.method.errors import ConfigError
from intraskill.method.randomness import content_hash
from intraskill.method.tasks import Split, Task


@dataclass(frozen=True, slots=True)
class _Connection:
    """What the first contact told."""

    identity: Identity
    roster: Roster


class RemoteShop:
    """A shop behind HTTP; nothing is sent before its tasks, its version or a session are asked for.

    There is no ``solvable``: nobody here knows the answers, so triage has no oracle.

    Args:
        preset: unused, as ``seed`` is: a server's world is its own.
        seed: unused.
        persona: requests leave out what the persona document holds; ``False`` asks for full requests without one.
        options: see `intraskill.environments.remote.settings.RemoteSettings`.

    Raises:
        ConfigError: for options that make no sense.
    """

    family = FAMILY

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
