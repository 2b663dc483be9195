"""The HTTP server: JSON in, JSON out, one thread a connection, and never an answer that is not JSON."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from intraskill.environments.boundary import boundary
from intraskill.environments.remote.wire import BAD_REQUEST
from intraskill.environments.serve.agentgym_dialect import AgentGymDialect
from intraskill.environments.serve.desk import Desk
from intraskill.environments.serve.lease_dialect import LeaseDialect
from intraskill.environments.serve.programme import Programme
from intraskill.environments.serve.refusal import SERVER_ERROR, Refusal
from intraskill.environments.shopworld.world import Shop
from intraskill.method.errors import ConfigError
from intraskill.method.tasks import OPENED

SERVED_DIALECTS: dict[str, Callable[[Programme], LeaseDialect | AgentGymDialect]] = {
    "shopsim-lease": LeaseDialect,
    "webshop-agentgym": AgentGymDialect,
}
MAX_BODY = 1 << 20
IDLE_S = 60.0
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ServeSettings:
    """How a shop is served.

    Attributes:
        dialect: ``shopsim-lease`` or ``webshop-agentgym``.
        host: address to listen on; another one than loopback lets other machines in.
        port: 0 lets the system choose.
        splits: data roles that are served; ``test`` only when named.
        slots: episodes at once.
        lease_s: seconds without use after which a slot may be taken back.
        wait_s: seconds that a reset waits for a slot.

    Raises:
        ConfigError: for an unknown dialect, or a number that makes no sense.
    """

    dialect: str = "shopsim-lease"
    host: str = "127.0.0.1"
    port: int = 5700
    splits: tuple[str, ...] = OPENED
    slots: int = 256
    lease_s: float = 600.0
    wait_s: float = 240.0

    def __post_init__(self) -> None:
        if self.dialect not in SERVED_DIALECTS:
            raise ConfigError(f"cannot serve dialect {self.dialect!r}; choose {' or '.join(SERVED_DIALECTS)}")
        if self.slots < 1 or self.lease_s <= 0 or self.wait_s < 0 or not 0 <= self.port <= 65535:
            raise ConfigError(
                "slots must be at least 1, lease_s positive, wait_s at least 0 and port at most 65535; "
                f"got {self.slots}, {self.lease_s:g}, {self.wait_s:g} and {self.port}"
            )


class ShopServer:
    """A running server; close it, or use it in a ``with`` statement, where it serves in a thread.

    Raises:
        ConfigError: when the address cannot be had.
        SplitError: for an unknown split.
    """

    def __init__(self, shop: Shop, settings: ServeSettings) -> None:
        desk = Desk(settings.slots, settings.lease_s, settings.wait_s)
        self.programme = Programme(shop, settings.splits, desk)
        dialect = SERVED_DIALECTS[settings.dialect](self.programme)
        handler = type("Handler", (_Handler,), {"dialect": dialect})
        try:
            self._http = _Server((settings.host, settings.port), handler)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {settings.host}:{settings.port} ({error.strerror}); choose another --port"
            ) from error
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        host, port = self._http.server_address[:2]
        return f"http://{host if isinstance(host, str) else host.decode()}:{port}"

    def serve(self) -> None:
        """Serve in this thread until interrupted."""
        self._http.serve_forever(0.1)

    def close(self) -> None:
        """Listen no more; requests under way are not waited for."""
        self._http.server_close()

    def __enter__(self) -> "ShopServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256  # trainers open hundreds of connections at once; the default of 5 refuses them


class _Handler(BaseHTTPRequestHandler):
    dialect: LeaseDialect | AgentGymDialect
    protocol_version = "HTTP/1.1"
    timeout = IDLE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet per reply: head and body apart would wait for each other's acknowledgement

    def do_GET(self) -> None:
        """Answer a GET."""
        parts = urlsplit(self.path)
        self._answer(lambda: self.dialect.get(parts.path, dict(parse_qsl(parts.query))))

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(lambda: self.dialect.post(urlsplit(self.path).path, self._body()))

    def log_message(self, format: str, *args: Any) -> None:
        """Log requests for those who ask for it."""
        _LOG.debug(format, *args)

    def _answer(self, act: Callable[[], Any]) -> None:
        status, reply = SERVER_ERROR, None
        with boundary("server") as crossing:
            try:
                reply = act()
                status = 200
            except Refusal as refusal:
                status, reply = refusal.status, self.dialect.error(str(refusal))
            payload = json.dumps(reply, ensure_ascii=False, allow_nan=False).encode()
        if crossing.fault is not None:
            _LOG.error("%s %s: %s", self.command, self.path, crossing.fault)
            # Only the error's name leaves the server: its text may hold what a client must not know.
            name = crossing.fault.split(": ")[1]
            status, payload = SERVER_ERROR, json.dumps(self.dialect.error(f"{name}; see the server's log")).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)
        self.wfile.flush()

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            raise Refusal(BAD_REQUEST, f"Content-Length must be a number up to {MAX_BODY}, got {length!r}")
        try:
            found = json.loads(self.rfile.read(int(length)) or b"{}")
        except ValueError as error:
            raise Refusal(BAD_REQUEST, f"the body is not JSON ({error})") from error
        if not isinstance(found, dict):
            raise Refusal(BAD_REQUEST, f"the body must be a JSON object, got {type(found).__name__}")
        return found
