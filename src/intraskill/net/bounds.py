"""Limits of one exchange at the socket: every read and write counts, whatever the server sends or holds back.

A timeout of httpx starts anew with each byte. So its connections are opened by a backend that knows the end of the
exchange under way in this thread, and how many more bytes it may read: status line, headers and framing included.
"""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

_WRITTEN_AT_ONCE = 1 << 16


class EndlessError(Exception):
    """A reply goes on beyond the bytes that it may have."""


class Budget:
    """What an exchange under way may still take."""

    def __init__(self, seconds: float, most_bytes: int) -> None:
        self.deadline, self.left = time.monotonic() + seconds, most_bytes

    def seconds(self, timeout: float | None) -> float:
        """Return a timeout that does not outlast the exchange.

        Raises:
            httpcore.ReadTimeout: when its time is over.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise httpcore.ReadTimeout
        return left if timeout is None else min(left, timeout)


_BUDGET: ContextVar[Budget] = ContextVar("budget of the exchange under way")


@contextmanager
def bounded(seconds: float, most_bytes: int) -> Iterator[Budget]:
    """Let the exchange inside take so long, and read so much, in all; who holds the budget may add to its ``left``.

    Raises:
        EndlessError: for more bytes.
        httpx.TimeoutException: for more time.
    """
    budget = Budget(seconds, most_bytes)
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


def bound(client: httpx.Client) -> httpx.Client:
    """Return a client whose connections obey `bounded`."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool: Any = transport._pool
            pool._network_backend = _Backend(pool._network_backend)
    return client


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend) -> None:
        self._inner = inner

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        seconds = _BUDGET.get().seconds(timeout)
        return _Stream(self._inner.connect_tcp(host, port, seconds, local_address, socket_options))


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        budget = _BUDGET.get()
        block = self._inner.read(max_bytes, budget.seconds(timeout))
        budget.left -= len(block)
        if budget.left < 0:
            raise EndlessError
        return block

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for begin in range(0, len(buffer), _WRITTEN_AT_ONCE):
            self._inner.write(buffer[begin : begin + _WRITTEN_AT_ONCE], _BUDGET.get().seconds(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, _BUDGET.get().seconds(timeout)))

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
