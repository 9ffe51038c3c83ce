"""Limits for connections: their number, the time and size of a request's head, and how much is read and discarded.

uvicorn with its fast parser has none of these limits: a client that sends an endless head, a byte per second, keeps its
connection forever, and the head grows in memory.
"""

import asyncio
import time
from enum import Enum
from typing import Any

import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from prudent.api.problems import problem
from prudent.settings import Limits

SHED_SHARE = 20
"""When there are too many connections, one in 20 is closed at a time, because finding them takes a pass over all."""
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Unavailable"}


class _Waits(Enum):
    """Which part of a request has begun to arrive and is incomplete."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


class BoundedProtocol(HttpToolsProtocol):
    """uvicorn's protocol with limits, which come from the state of the application's lifespan.

    Requests that arrive in one piece, as nearly all do, start no timer.
    """

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits: Limits = app_state["limits"]
        self._accepted_at = time.monotonic()
        self._in_head = self._in_body = False
        self._unframed = 0
        """Bytes since the last complete head that are not part of a body: a head, or chunk sizes and trailers."""
        self._discarded = 0
        self._waits = _Waits.NOTHING
        self._timer: asyncio.TimerHandle | None = None

    # The transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Make room for the connection, or reject it."""
        super().connection_made(transport)
        if len(self.connections) > self._limits.connections_max and not self._make_room():
            self._refuse(503, "too many connections: try again")
            return
        self._wait(_Waits.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._wait(_Waits.NOTHING)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, then check what is still missing."""
        self._unframed += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_body:
            waits = _Waits.BODY
        elif self._in_head or self._unframed > 0:
            waits = _Waits.HEAD
        else:
            waits = _Waits.NOTHING
            if self.cycle is not None and self.cycle.response_complete and self.timeout_keep_alive_task is None:
                # the rest of a body that was answered early: uvicorn has just stopped the clock of an idle connection
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        if self._unframed > self._limits.head_bytes_max:
            self._refuse(431, f"the head of the request is larger than {self._limits.head_bytes_max} bytes")
        elif waits is not self._waits:
            self._wait(waits)

    # The parser's side

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is complete."""
        self._in_head, self._in_body = False, True
        self._unframed = 0
        if self._waits is not _Waits.NOTHING:
            self._wait(_Waits.NOTHING)  # the next part has its own deadline
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body; chunk sizes may add as much again."""
        self._unframed -= 2 * len(body)
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self._limits.batch_body_bytes_max:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_body = False
        self._unframed = self._discarded = 0
        super().on_message_complete()

    # Ours

    def _wait(self, waits: _Waits) -> None:
        """Start the deadline of this part of a request."""
        self._waits = waits
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waits is not _Waits.NOTHING:
            self._timer = self.loop.call_later(self._seconds_max, self._too_late)

    @property
    def _seconds_max(self) -> int:
        return self._limits.head_seconds_max if self._waits is _Waits.HEAD else self._limits.body_seconds_max

    def _too_late(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            # it is being answered: its body has a deadline of its own, and the next request is not read yet
            self._timer = self.loop.call_later(self._seconds_max, self._too_late)
        elif self._waits is _Waits.HEAD:
            self._refuse(408, f"the head of the request did not arrive in {self._seconds_max} seconds")
        else:
            self.transport.close()

    @property
    def _is_served(self) -> bool:
        """Whether the connection is waiting for us rather than for its client."""
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def _make_room(self) -> bool:
        """Close some connections that wait for their clients: unfinished requests first, then idle ones, by age."""
        bounded = [one for one in self.connections if isinstance(one, BoundedProtocol) and one is not self]
        waiting = [one for one in bounded if not one.transport.is_closing() and not one._is_served]  # noqa: SLF001
        waiting.sort(key=lambda one: (one._waits is _Waits.NOTHING, one._accepted_at))  # noqa: SLF001
        for one in waiting[: len(bounded) // SHED_SHARE + 1]:
            one.transport.abort()
        return bool(waiting)

    def _refuse(self, status: int, detail: str) -> None:
        """Reply without the application, and close."""
        self._wait(_Waits.NOTHING)
        body = orjson.dumps(problem(status, detail))
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\n" % (status, _REASONS[status])
        head += b"content-length: %d\r\nconnection: close\r\n" % len(body)
        if status == 503:
            head += b"retry-after: 1\r\n"
        self.transport.write(head + b"\r\n" + body)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Reply to invalid HTTP with a problem, as to every other error."""
        self._refuse(400, msg)
