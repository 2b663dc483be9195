"""Requests to a shop server: JSON in, JSON out, and a typed fault for everything else.

Two rules keep purchases single. A request is sent again only when nothing can have been done by it: its connection
was refused, the server turned it away (429), or it is a reset. And a connection is used once: a kept one may be closed
by the server in the moment a purchase is sent, and then nobody can tell whether it happened.
"""

import ipaddress
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

from intraskill.config.option import check_values, option
from intraskill.environments.remote.wire import BAD_REQUEST, DIALECTS, STALE_LEASE
from intraskill.method.errors import ConfigError, EnvironmentFault
from intraskill.method.tasks import SPLITS
from intraskill.net.exchange import HttpCall, HttpClient
from intraskill.net.failures import TOO_MANY, HttpFailure
from intraskill.net.retrying import Patience, persist

FaultKind = Literal[
    "refused",
    "busy",
    "timeout",
    "dropped",
    "stale_lease",
    "bad_request",
    "server",
    "protocol",
    "version",
    "leak",
    "slots",
]


class RemoteFault(EnvironmentFault):
    """A technical failure of a remote shop; its rollout is a fault, never reward 0.

    Attributes:
        kind: ``refused`` (no connection: nothing was sent), ``busy`` (429: the server turns requests away unread),
            ``timeout``, ``dropped`` (the connection broke, and what was sent may have happened), ``stale_lease`` (the
            server no longer knows the lease), ``bad_request``, ``server`` (it failed by its own account), ``protocol``
            (a reply of another shape, or without end), ``version`` (it is not the environment that the run started
            with), ``leak`` (a reply shows an answer), ``slots`` (none came free).
    """

    def __init__(self, kind: FaultKind, message: str) -> None:
        super().__init__(f"{message} [{kind}]")
        self.kind: FaultKind = kind


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSettings:
    """The options of ``env.name=intraskill.environments.remote.shop:RemoteShop``, beside its ``persona``.

    Raises:
        ConfigError: for any value that makes no sense, or a host that is not this machine and not allowed.
    """

    url: str = option("http://127.0.0.1:5700", "where the server listens")
    dialect: str = option("shopsim-lease", "how it speaks", choices=DIALECTS)
    split_sizes: Mapping[str, int] | None = option(
        None, "split → number of tasks; index ranges in this order, for a server without a manifest"
    )
    manifest: str | None = option(None, "file that assigns every task to a split; instead of split_sizes")
    slots: int = option(20, "most episodes open at once; at least rollout.batch, at most the server's own", "[1, inf)")
    connect_timeout_s: float = option(5.0, "longest wait for a connection, seconds", "(0, inf)")
    reset_timeout_s: float = option(300.0, "longest reset, which may queue on the server, seconds", "(0, inf)")
    step_timeout_s: float = option(60.0, "longest wait for anything else, seconds", "(0, inf)")
    slot_timeout_s: float = option(600.0, "longest wait for one of our own slots, seconds", "(0, inf)")
    retries: int = option(4, "further attempts after no connection, a 429 or a failed reset; else none", "[0, inf)")
    backoff_s: float = option(0.5, "pause before the first of them, seconds; doubled each time", "[0, inf)")
    allow_remote_host: bool = option(False, "the server may run on another machine")
    language: str | None = option(None, "of the notices that this client writes: plain, en, zh; null = the server's")

    def __post_init__(self) -> None:
        check_values(self, "env.options.")
        self._check_url()
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


_AGAIN_FOR_ANYTHING: frozenset[FaultKind] = frozenset({"refused", "busy"})
_AGAIN_FOR_A_RESET: frozenset[FaultKind] = _AGAIN_FOR_ANYTHING | {"timeout", "dropped", "server"}
_REMEDIES: dict[FaultKind, str] = {
    "refused": "start the server or correct env.options.url",
    "busy": "ask for less at once (env.options.slots), or raise env.options.retries or backoff_s",
    "timeout": "look at the server's load, or raise env.options.step_timeout_s or reset_timeout_s",
    "dropped": "look at the server's log; the episode is given up, for what was sent may have happened",
    "stale_lease": "the server no longer knows this lease: it restarted or gave the slot away; "
    "use one server per run, or raise its lease time",
    "bad_request": "does it speak env.options.dialect={dialect} ({others} are the others), and hold this task?",
    "server": "look at the server's log",
    "protocol": "does it speak env.options.dialect={dialect}? {others} are the others",
}
_MOST_WORDS = 200


@dataclass(frozen=True, slots=True)
class Request:
    """One exchange.

    Attributes:
        route: path below the server's address.
        body: JSON of a POST; ``None`` for a GET.
        what: how messages call it, such as ``interact``.
        params: query parameters.
        is_reset: a reset may be slow, and may be sent again.
        is_release: one attempt: a server that cannot be reached has nothing left to give back.
        is_ours: whether the slot that it names is still ours; asked before every attempt, for while a request waits for
            a server that was started again, its slot may have gone to another episode.
    """

    route: str
    body: Mapping[str, Any] | None = None
    what: str = ""
    params: Mapping[str, Any] | None = None
    is_reset: bool = False
    is_release: bool = False
    is_ours: Callable[[], bool] | None = None

    @property
    def name(self) -> str:
        """Name for messages."""
        return self.what or self.route


class Transport:
    """Sends requests to one server; safe to share between threads."""

    def __init__(self, settings: RemoteSettings) -> None:
        self._settings = settings
        # A proxy of the surroundings must not stand between this client and a server on the same machine.
        self._http = HttpClient(keeps_connections=False)
        self._down = False

    def send(self, request: Request) -> Any:
        """Return the JSON of a reply, after as many attempts as the request allows.

        Once a server was waited for in vain, nobody else waits until it answers again: hundreds of episodes that each
        wait in turn would hide for hours that it is gone.

        Raises:
            RemoteFault: of the kind that ended the last attempt.
            ConfigError: when the server's url is no address.
        """
        again = _AGAIN_FOR_A_RESET if request.is_reset else _AGAIN_FOR_ANYTHING
        retries = 0 if request.is_release or self._down else self._settings.retries
        outcome, _ = persist(
            lambda _: self._once(request),
            lambda failure: _kind_of(failure) in again,
            Patience(retries, first_s=self._settings.backoff_s),
            (request.route, request.body),
        )
        if isinstance(outcome, HttpFailure):
            kind = _kind_of(outcome)
            # A release does not wait, so it cannot tell whether waiting is in vain.
            self._down = kind == "refused" and (self._down or not request.is_release)
            if outcome.kind == "address":
                raise ConfigError(f"env.options.url={self._settings.url!r} is no address ({outcome.text}); correct it")
            raise self.fault(kind, request, _problem(outcome))
        self._down = False
        return outcome

    def offered(self, request: Request) -> Any | None:
        """Return the JSON of an optional route, or ``None`` where the server has no such route."""
        try:
            return self.send(request)
        except RemoteFault as fault:
            if fault.kind == "bad_request":
                return None
            raise

    def require_dialect(self, stated: object) -> None:
        """Refuse a server that says that it speaks another dialect; most say nothing.

        Raises:
            ConfigError: naming both.
        """
        if stated is not None and stated != self._settings.dialect:
            raise ConfigError(
                f"{self._settings.url} speaks {stated!r}, and env.options.dialect={self._settings.dialect}; set "
                f"env.options.dialect={stated}, or start it with another --dialect"
            )

    def fault(self, kind: FaultKind, request: Request, problem: str) -> RemoteFault:
        """Return a fault that says what, where and what to do."""
        dialect = self._settings.dialect
        others = " and ".join(other for other in DIALECTS if other != dialect)
        remedy = _REMEDIES.get(kind, "").format(dialect=dialect, others=others)
        return RemoteFault(kind, f"{request.name} at {self._settings.url}: {problem}{'; ' if remedy else ''}{remedy}")

    def _require_ours(self, request: Request) -> None:
        if request.is_ours is not None and not request.is_ours():
            raise self.fault("stale_lease", request, "the server gave this slot to another episode")

    def _once(self, request: Request) -> Any | HttpFailure:
        self._require_ours(request)
        settings = self._settings
        call = HttpCall(
            url=settings.url.rstrip("/") + request.route,
            body=request.body,
            params=request.params,
            seconds=settings.reset_timeout_s if request.is_reset else settings.step_timeout_s,
            connect_s=settings.connect_timeout_s,
        )
        reply = self._http.ask(call)
        stated = None if isinstance(reply, HttpFailure) else _error_of(reply)
        return reply if stated is None else HttpFailure("status", "an error with status 200", 200, reply)


def _kind_of(failure: HttpFailure) -> FaultKind:
    if failure.kind == "status":
        if failure.status == STALE_LEASE:
            return "stale_lease"
        if failure.status == TOO_MANY:
            return "busy"
        return "bad_request" if BAD_REQUEST <= failure.status < 500 else "server"
    kinds: dict[str, FaultKind] = {"refused": "refused", "timeout": "timeout", "dropped": "dropped"}
    return kinds.get(failure.kind, "protocol")


def _problem(failure: HttpFailure) -> str:
    """Return what went wrong; a reply is never quoted beyond the error that it states, for it may hold an answer."""
    if failure.kind == "status":
        stated = _error_of(failure.data)
        return f"status {failure.status}{'' if stated is None else f': {stated}'}"
    words = {"refused": f"no connection ({failure.text})", "dropped": f"the connection broke ({failure.text})"}
    return words.get(failure.kind, failure.text)


def _error_of(reply: object) -> str | None:
    """Return the error that a reply states, at its top or in ``result``, cut to a few words."""
    for place in (reply, reply.get("result") if isinstance(reply, Mapping) else None):
        if isinstance(place, Mapping) and place.get("error"):
            return " ".join(str(place["error"]).split())[:_MOST_WORDS]
    return None
