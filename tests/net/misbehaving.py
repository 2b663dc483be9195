"""A server on 127.0.0.1 below HTTP: it reads each request and then writes whatever bytes a script says."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count

Send = Callable[[bytes], None]
Script = Callable[[Send, bytes], None]
DRIPS, DRIP_S = 200, 0.04
"""A dripping server gives up after these, so that a client without a deadline fails instead of hanging."""
FLOOD = 160 << 20
"""An endless server gives up after so many bytes, for the same reason."""


class Misbehaving:
    """Keeps the requests and counts what it could send before the client left."""

    def __init__(self, *scripts: Script) -> None:
        self.scripts, self.requests, self.sent, self.writes = scripts, [], 0, 0
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        def send(data: bytes) -> None:
            connection.sendall(data)
            with self._lock:
                self.sent, self.writes = self.sent + len(data), self.writes + 1

        with connection, suppress(OSError):
            request = _read_request(connection)
            if not request:
                return
            with self._lock:
                self.requests.append(request)
                script = self.scripts[min(len(self.requests), len(self.scripts)) - 1]
            script(send, request)
            connection.shutdown(socket.SHUT_WR)
            connection.settimeout(5)
            connection.recv(1)  # the client closes first, so that nothing is reset under its hands


def _read_request(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data and (block := connection.recv(65536)):
        data += block
    head, _, body = data.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0)
    while len(body) < length and (block := connection.recv(65536)):
        body += block
    return head + b"\r\n\r\n" + body if data else b""


@contextmanager
def misbehaving(*scripts: Script) -> Iterator[Misbehaving]:
    """Serve scripts in the order of the requests, the last one again and again."""
    server = Misbehaving(*scripts)
    try:
        yield server
    finally:
        server.close()


def head(status: int = 200, kind: str = "application/json", **headers: object) -> bytes:
    """Return status line and headers of a reply whose end is the end of its connection."""
    lines = {"Content-Type": kind, "Connection": "close"} | {
        key.replace("_", "-"): value for key, value in headers.items()
    }
    return "\r\n".join([f"HTTP/1.1 {status} X", *(f"{key}: {value}" for key, value in lines.items()), "", ""]).encode()


def whole(body: object, status: int = 200, kind: str = "application/json", **headers: object) -> Script:
    """Send one reply as it should be: bytes as they are, anything else as JSON."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return lambda send, _: send(head(status, kind, Content_Length=len(data), **headers) + data)


def endless(status: int = 200, begin: bytes = b'{"a": "', **headers: object) -> Script:
    """Send a body that does not end."""

    def script(send: Send, _: bytes) -> None:
        send(head(status, **headers) + begin)
        for _ in range(FLOOD >> 20):
            send(b"x" * (1 << 20))

    return script


def dripping(begin: bytes, drop: bytes = b" ") -> Script:
    """Send the beginning, and then one piece at a time, each soon enough for a timeout of each read."""

    def script(send: Send, _: bytes) -> None:
        send(begin)
        for _ in range(DRIPS):
            time.sleep(DRIP_S)
            send(drop)

    return script


def informing(send: Send, _: bytes) -> None:
    """Promise a reply for ever."""
    for number in count():
        send(b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n" * 1000)
        if number * 39_000 > FLOOD:
            return
