"""Attempts that end in time, for the synchronous client.

httpx limits each step of an exchange, but not the exchange: while a name is looked up, or a reply comes byte by byte,
any time may pass.
"""

import threading
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from ssl import SSLContext
from typing import Any, TypeVar

import httpcore
import httpx

T = TypeVar("T")
Inbox = SimpleQueue[Callable[[], None]]

IDLE_SECONDS_MAX = 10.0
"""How long a thread waits for the next attempt before it ends."""


class Attempts:
    """Makes attempts in daemon threads of its own, which are used again: handing over takes some 20 microseconds.

    An attempt that is given up goes on in its thread until its next step (`end_in_time`), or while a name is looked up.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Inbox] = []

    def run(self, attempt: Callable[[], T], seconds: float) -> T:
        """The attempt's result, in the caller's context. Raises what it raises, and TimeoutError after the seconds."""
        context, outcome = copy_context(), SimpleQueue[tuple[T | None, BaseException | None]]()
        context.run(_ends.set, time.monotonic() + seconds)

        def work() -> None:
            try:
                outcome.put((context.run(attempt), None))
            except BaseException as error:  # noqa: BLE001  # the caller's to handle
                outcome.put((None, error))

        self._find_thread().put(work)
        try:
            result, error = outcome.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # there is one where there is no error

    def _find_thread(self) -> Inbox:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        inbox: Inbox = SimpleQueue()
        threading.Thread(target=self._serve, args=(inbox,), name="prudent-client", daemon=True).start()
        return inbox

    def _serve(self, inbox: Inbox) -> None:
        while True:
            try:
                work = inbox.get(timeout=IDLE_SECONDS_MAX)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # it has just been found: the work is on its way
            work()
            del work  # what it holds, the response and the error, is not kept while idle
            with self._lock:
                self._idle.append(inbox)


_ends: ContextVar[float | None] = ContextVar("_ends", default=None)
"""When the attempt of this context is given up, by the monotonic clock."""


def end_in_time(client: httpx.Client) -> None:
    """Have the client's connections end with their attempts. A transport of the caller's stays as it is."""
    for transport in (client._transport, *client._mounts.values()):  # noqa: SLF001  # httpx has no argument for it
        pool = getattr(transport, "_pool", None)
        if isinstance(pool, httpcore.ConnectionPool):
            pool._network_backend = _InTime(pool._network_backend)  # noqa: SLF001


class _InTime(httpcore.NetworkBackend):
    """A network whose steps end with their attempt: each byte of a slow reply would begin a time-out anew."""

    def __init__(self, network: httpcore.NetworkBackend) -> None:
        self._network = network

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        """As httpcore's own."""
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._network.connect_tcp(host, port, left, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        """As httpcore's own."""
        self._network.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = _left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, left))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _left(timeout: float | None, error: type[Exception]) -> float | None:
    """The time-out of a step, within what is left of its attempt. Raises the error if nothing is."""
    ends = _ends.get()
    if ends is None:
        return timeout
    left = ends - time.monotonic()
    if left <= 0:
        raise error("the deadline has passed")
    return left if timeout is None else min(timeout, left)
