"""How to reach a remote shop: address, dialect, patience; checked before anything is sent."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, fields
from urllib.parse import urlsplit

from intraskill.environments.remote.wire import DIALECTS
from intraskill.method.errors import ConfigError
from intraskill.method.tasks import SPLITS


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """The options of ``env.name=intraskill.environments.remote_shop:RemoteShop``, beside its ``persona``.

    Attributes:
        url: where the server listens, such as ``http://127.0.0.1:5700``.
        dialect: ``shopsim-lease``, ``shopsim-upstream`` or ``webshop-agentgym``.
        split_sizes: split → number of tasks; index ranges in this order, for a server without a manifest.
        manifest: file that assigns every task to a split; instead of ``split_sizes``.
        slots: most episodes open at once; at least ``rollout.batch``, at most the slots of the server.
        connect_timeout_s: seconds for a connection.
        reset_timeout_s: seconds for a reset, which may queue on the server.
        step_timeout_s: seconds for anything else.
        slot_timeout_s: seconds to wait for one of our own slots.
        retries: further attempts after a refused connection or a failed reset; nothing else is ever sent twice.
        backoff_s: seconds before the first further attempt; doubled each time.
        allow_remote_host: the server may run on another machine.
        language: of the notices that this client writes: ``plain``, ``en``, ``zh``; ``None``: the server's own.

    Raises:
        ConfigError: for any value that makes no sense, or a host that is not this machine and not allowed.
    """

    url: str = "http://127.0.0.1:5700"
    dialect: str = "shopsim-lease"
    split_sizes: Mapping[str, int] | None = None
    manifest: str | None = None
    slots: int = 20
    connect_timeout_s: float = 5.0
    reset_timeout_s: float = 300.0
    step_timeout_s: float = 60.0
    slot_timeout_s: float = 600.0
    retries: int = 4
    backoff_s: float = 0.5
    allow_remote_host: bool = False
    language: str | None = None

    def __post_init__(self) -> None:
        if self.dialect not in DIALECTS:
            raise ConfigError(f"unknown env.options.dialect {self.dialect!r}; choose one of {', '.join(DIALECTS)}")
        self._check_url()
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name.endswith("_timeout_s") and not value > 0:
                raise ConfigError(f"env.options.{item.name} must be positive, got {value}")
        if self.slots < 1 or self.retries < 0 or self.backoff_s < 0:
            raise ConfigError(
                "env.options.slots must be at least 1, retries and backoff_s at least 0; "
                f"got {self.slots}, {self.retries}, {self.backoff_s}"
            )
        if self.manifest is not None and self.split_sizes:
            raise ConfigError("env.options.manifest and split_sizes both say which task is in which split; keep one")
        wrong = [f"{split}={size}" for split, size in (self.split_sizes or {}).items() if not _fits(split, size)]
        if wrong:
            raise ConfigError(
                f"env.options.split_sizes cannot hold {', '.join(wrong)}; give counts ≥ 0 for {', '.join(SPLITS)}"
            )

    def _check_url(self) -> None:
        host = _host(self.url)
        if host is None:
            raise ConfigError(f"env.options.url must read like http://127.0.0.1:5700, got {self.url!r}")
        if not self.allow_remote_host and not is_loopback(host):
            raise ConfigError(
                f"env.options.url names {host}, which is not this machine, and what the policy writes would be sent "
                "there in clear text; set env.options.allow_remote_host=true if that is meant"
            )


def _host(url: str) -> str | None:
    """Return the host that a plain http address names; ``None`` for an address of any other form."""
    try:
        parts = urlsplit(url)
        port = parts.port  # raises where it is no port number
    except ValueError:
        return None
    odd = parts.username or parts.query or parts.fragment or parts.netloc.endswith(":") or port == 0
    plain = parts.scheme in ("http", "https") and url.isprintable() and " " not in url
    return parts.hostname if plain and not odd else None


def is_loopback(host: str) -> bool:
    """Return whether a host name is this machine by its look alone; nothing is resolved."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.casefold() == "localhost"


def _fits(split: str, size: object) -> bool:
    return split in SPLITS and isinstance(size, int) and not isinstance(size, bool) and size >= 0
