"""The HTTP server: JSON in, JSON out, one thread a connection, and never an answer that is not JSON."""

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from intraskill.environments.protocol import boundary
from intraskill.environments.remote.wire import BAD_REQUEST
from intraskill.environments.serve.desk import SERVER_ERROR, Desk, Programme, RequestRefusal
from intraskill.environments.serve.dialects import ServedAgentGym, ServedLease
from intraskill.environments.shopworld.world import Shop
from intraskill.method.errors import ConfigError
from intraskill.method.tasks import OPENED

SERVED_DIALECTS: dict[str, Callable[[Programme], ServedLease | ServedAgentGym]] = {
    "shopsim-lease": ServedLease,
    "webshop-agentgym": ServedAgentGym,
}
_MAX_BODY = 1 << 20
_MOST_DISCARDED = 1 << 26
"""Bytes of a refused body that are read: a client that is still sending would not read its answer."""
MOST_DIGITS = 18
_TOO_LARGE, _NOT_ALLOWED = 413, 405
_IDLE_S = 60.0
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
        if not 0 <= self.port <= 65535:
            raise ConfigError(f"--port={self.port} is no port; choose one from 1 to 65535, or 0 for any free one")
        if self.slots < 1 or not self.lease_s > 0 or not self.wait_s >= 0:
            raise ConfigError(
                "--slots must be at least 1, --lease-seconds positive and wait_s at least 0; "
                f"got {self.slots}, {self.lease_s:g} and {self.wait_s:g}"
            )


class ShopServer:
    """A running server; close it, or use it in a ``with`` statement, where it serves in a thread.

    Raises:
        ConfigError: when the address cannot be had.
        SplitError: for an unknown split.
    """

    def __init__(self, shop: Shop, settings: ServeSettings) -> None:
        desk = Desk(settings.slots, settings.lease_s, settings.wait_s)
        self.programme = Programme(shop, settings.splits, desk, settings.dialect)
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
    dialect: ServedLease | ServedAgentGym
    protocol_version = "HTTP/1.1"
    timeout = _IDLE_S
    disable_nagle_algorithm = True
    wbufsize = -1  # one packet per reply: head and body apart would wait for each other's acknowledgement

    def do_GET(self) -> None:
        """Answer a GET."""
        self._discard()
        parts = urlsplit(self.path)
        self._answer(lambda: self.dialect.get(parts.path, dict(parse_qsl(parts.query))))

    def do_POST(self) -> None:
        """Answer a POST."""
        self._answer(lambda: self.dialect.post(urlsplit(self.path).path, self._body()))

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answer in JSON what the standard library refuses by itself: other methods, malformed request lines."""
        self.close_connection = True  # where the request ends may not be known
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._discard()
            code, message = _NOT_ALLOWED, f"{self.command} is not served; use GET or POST"
        words = message or HTTPStatus(code).phrase
        self._send(code, json.dumps(self.dialect.error(words), ensure_ascii=False).encode(errors="replace"))

    def log_message(self, format: str, *args: Any) -> None:
        """Log requests for those who ask for it."""
        _LOG.debug(format, *args)

    def _answer(self, act: Callable[[], Any]) -> None:
        status, reply = SERVER_ERROR, None
        with boundary("server") as crossing:
            try:
                reply = act()
                status = 200
            except RequestRefusal as refusal:
                status, reply = refusal.status, self.dialect.error(str(refusal))
            payload = json.dumps(reply, ensure_ascii=False, allow_nan=False).encode()
        if crossing.fault is not None:
            _LOG.error("%s %s: %s", self.command, self.path, crossing.fault)
            # Only the error's name leaves the server: its text may hold what a client must not know.
            name = crossing.fault.split(": ")[1]
            status, payload = SERVER_ERROR, json.dumps(self.dialect.error(f"{name}; see the server's log")).encode()
        self._send(status, payload)

    def _send(self, status: int, payload: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json; charset=utf-8")
        self.send_header("Content-Length", str(len(payload)))
        if status == _NOT_ALLOWED:
            self.send_header("Allow", "GET, POST")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(payload)
        self.wfile.flush()

    def _length(self) -> int | None:
        """Return the body's length; ``None`` when it is not stated in a way that can be read."""
        stated = self.headers.get("Content-Length", "")
        return int(stated) if stated.isdecimal() and len(stated) <= MOST_DIGITS else None

    def _discard(self) -> None:
        """Read what nobody asked for, and close a connection that has more of it, or does not say how much."""
        left = self._length() or 0
        if left > _MOST_DISCARDED or self.headers.get("Transfer-Encoding"):
            self.close_connection = True
        left = min(left, _MOST_DISCARDED)
        while left > 0 and (read := len(self.rfile.read(min(left, _MAX_BODY)))):
            left -= read

    def _body(self) -> dict[str, Any]:
        length = self._length()
        if length is None:
            self.close_connection = True
            raise RequestRefusal(BAD_REQUEST, "a POST states its length: Content-Length must be a number")
        if length > _MAX_BODY:
            self.close_connection = True
            self._discard()
            raise RequestRefusal(_TOO_LARGE, f"the body has {length} bytes, and {_MAX_BODY} are the most")
        try:
            found = json.loads(self.rfile.read(length) or b"{}")
        except (ValueError, RecursionError) as error:
            raise RequestRefusal(BAD_REQUEST, f"the body is not JSON that can be read ({error})") from error
        if not isinstance(found, dict):
            raise RequestRefusal(BAD_REQUEST, f"the body must be a JSON object, got {type(found).__name__}")
        return found
