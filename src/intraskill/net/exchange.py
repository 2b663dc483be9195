"""One HTTP exchange: JSON out, a bounded reply in; a failure is a value, so no traceback holds a request or its key."""

import json
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from intraskill.net.failures import FailureKind, HttpFailure, reason_of, wait_asked
from intraskill.net.keys import key_in, scrub, scrubbed

if TYPE_CHECKING:
    import httpx

MOST_BYTES = 32 << 20
_MOST_BYTES_OF_AN_ERROR = 1 << 16
_BYTES_OF_HEADERS = 1 << 18
_MOST_WORDS = 200
_GZIP = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """What is sent, and how much time and memory the reply may take.

    Attributes:
        url: address.
        body: JSON of a POST; ``None`` for a GET.
        params: query parameters.
        seconds: from the connection to the last byte.
        connect_s: seconds of these for the connection.
        most_bytes: longest body of a reply, unpacked.
    """

    url: str
    body: Mapping[str, Any] | None = None
    params: Mapping[str, Any] | None = None
    seconds: float
    connect_s: float = 10.0
    most_bytes: int = MOST_BYTES


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A reply of success.

    Attributes:
        status: HTTP status, 200 to 299.
        kind: its content type.
        body: the bytes as they came, unpacked; they may quote the key.
        cut: whether more would have come than was allowed.
    """

    status: int
    kind: str
    body: bytes
    cut: bool


class HttpClient:
    """Sends calls to servers that share a key; safe among threads. A redirect is never followed.

    Args:
        api_key_env: environment variable that holds the key; it is read at each call.
        keeps_connections: whether a connection serves several calls.
        uses_proxies: whether the proxies that the environment names stand between.
    """

    def __init__(self, api_key_env: str = "", *, keeps_connections: bool = True, uses_proxies: bool = False) -> None:
        self._api_key_env, self._kept, self._proxies = api_key_env, keeps_connections, uses_proxies
        self._lock = threading.Lock()
        self._client: httpx.Client | None = None

    def attempt(self, call: HttpCall) -> HttpReply | HttpFailure:
        """Return the reply to one call, or why there is none."""
        import httpx

        from intraskill.net.bounds import EndlessError, bounded

        def failure(kind: FailureKind, words: str) -> HttpFailure:
            return HttpFailure(kind, self.scrub(words)[:_MOST_WORDS])

        try:
            key = key_in(self._api_key_env)
        except ValueError as error:
            return HttpFailure("key", str(error))
        headers = {"Accept-Encoding": "gzip"} | ({"Authorization": f"Bearer {key}"} if key else {})
        content = None
        if call.body is not None:
            content = json.dumps(call.body).encode()
            headers["Content-Type"] = "application/json"
        timeout = httpx.Timeout(call.seconds, connect=min(call.connect_s, call.seconds))
        ask = {"params": call.params, "content": content, "headers": headers, "timeout": timeout}
        try:
            with (
                bounded(call.seconds, _BYTES_OF_HEADERS) as budget,
                self._connections().stream("GET" if content is None else "POST", call.url, **ask) as response,  # type: ignore[arg-type]
            ):
                budget.left += 2 * call.most_bytes  # a body in small pieces is half framing
                return self._read(response, call.most_bytes)
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
            return failure("address", f"{type(error).__name__}: {error}")
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            return failure("refused", f"{type(error).__name__}: {error}")
        except httpx.TimeoutException:
            return failure("timeout", f"no reply within {call.seconds:g} s")
        except EndlessError:
            return _endless(call.most_bytes)
        except httpx.HTTPError as error:
            return failure("dropped", f"{type(error).__name__}: {error}")
        except zlib.error as error:
            return failure("protocol", f"the reply cannot be unpacked ({error})")

    def ask(self, call: HttpCall) -> Any | HttpFailure:
        """Return the JSON of the reply to one call, without the key, or why there is none."""
        reply = self.attempt(call)
        if isinstance(reply, HttpFailure):
            return reply
        if reply.cut:
            return _endless(call.most_bytes)
        data = self._data(reply.body)
        if data is _NOTHING:
            kind = self.scrub(reply.kind)[:_MOST_WORDS] or "no content type"
            return HttpFailure("protocol", f"status {reply.status}, {len(reply.body)} bytes of {kind}, not JSON")
        return data

    def scrub(self, text: str) -> str:
        """Return a text without the key; see `intraskill.net.keys.scrub`."""
        return scrub(text, self._api_key_env)

    def close(self) -> None:
        """Drop all connections."""
        if self._client is not None:
            self._client.close()

    def _read(self, response: "httpx.Response", most_bytes: int) -> HttpReply | HttpFailure:
        status = response.status_code
        if response.is_redirect:
            place = self.scrub(response.headers.get("location", "elsewhere"))[:_MOST_WORDS]
            return HttpFailure("redirect", f"status {status} sends this client to {place}; give that address", status)
        if (packing := response.headers.get("content-encoding", "").strip().lower()) not in ("", "identity", "gzip"):
            return HttpFailure("protocol", self.scrub(f"a reply packed as {packing}")[:_MOST_WORDS], status)
        most_bytes = most_bytes if response.is_success else min(most_bytes, _MOST_BYTES_OF_AN_ERROR)
        body, cut = _body(response.iter_raw(), packed=packing == "gzip", most_bytes=most_bytes)
        if response.is_success:
            return HttpReply(status, response.headers.get("content-type", ""), body, cut)
        data = self._data(body)
        if data is _NOTHING:
            data = self.scrub(body.decode(errors="replace"))
        words = reason_of(data)
        text = f"status {status}: {words}" if words else f"status {status}"
        return HttpFailure("status", text, status, data, wait_asked(response.headers))

    def _data(self, body: bytes) -> Any:
        """Return the JSON of a body without the key, or ``_NOTHING`` for anything else."""
        try:
            return scrubbed(json.loads(body), self._api_key_env)
        except (ValueError, RecursionError):
            return _NOTHING

    def _connections(self) -> "httpx.Client":
        import httpx

        from intraskill.net.bounds import bound

        with self._lock:
            if self._client is None:
                limits = httpx.Limits(max_connections=None, max_keepalive_connections=None if self._kept else 0)
                self._client = bound(httpx.Client(limits=limits, trust_env=self._proxies, follow_redirects=False))
            return self._client


_NOTHING = object()


def _body(blocks: Iterator[bytes], *, packed: bool, most_bytes: int) -> tuple[bytes, bool]:
    """Return the unpacked body, and whether it was cut at ``most_bytes``."""
    body, unpacker = bytearray(), zlib.decompressobj(_GZIP) if packed else None
    for block in blocks:
        body += block if unpacker is None else unpacker.decompress(block, most_bytes + 1 - len(body))
        if len(body) > most_bytes:
            return bytes(body[:most_bytes]), True
    if unpacker is not None and not unpacker.eof:
        raise zlib.error("it ends too early")
    return bytes(body), False


def _endless(most_bytes: int) -> HttpFailure:
    return HttpFailure("endless", f"the reply goes on beyond {most_bytes:,} bytes")
