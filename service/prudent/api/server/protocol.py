"""Limits for connections: the time and size of a request's head, how much is read ahead, discarded, and left unread.

uvicorn with its fast parser has none of these limits: a client that sends an endless head, a byte per second, keeps its
connection forever, and the head grows in memory; a thousand requests in one packet become a thousand objects.
"""

import asyncio
import socket
from enum import Enum
from typing import Any

import orjson
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from prudent.api.problems import problem
from prudent.api.server.connections import Connections, peer_of
from prudent.api.server.lane import Lane, Passage
from prudent.settings import Limits

GRACE_SECONDS = 0.05
"""For the body of a request that may be for the lane: clients send head and body in one packet, or in two at once."""
SEND_BUFFER_BYTES = 128 * 2**10
"""What the system may take of an answer. It would take four megabytes, and copying them to clients that never read them
cost others three quarters of their rate."""
SPARE_SECONDS_MAX = 2
"""For the head of a request on a connection above the limit."""
_REASONS = {400: b"Bad Request", 408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Unavailable"}


class _Waits(Enum):
    """Which part of a request has begun to arrive and is incomplete."""

    NOTHING = 0
    HEAD = 1
    BODY = 2


class _Flow(FlowControl):
    """Reading stays paused while a request is under way and the next one has arrived already."""

    is_held = False

    def resume_reading(self) -> None:
        """Read on, unless held."""
        if not self.is_held:
            super().resume_reading()


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
        self._all: Connections = app_state["connections"]
        self._lane: Lane | None = app_state["lane"]
        self._held_back: bytes | None = None
        """What has arrived of the body of a request that may be for the lane."""
        self._passage: Passage | None = None
        self._is_last = False
        """The connection ends with the response to the request in the lane."""
        self._is_half_closed = False
        self._reading: _Flow
        self.peer: str | None = None
        self.accepted_at = self.loop.time()
        self.drains = 0
        """How often the client has read nearly all that there was."""
        self._is_spare = False
        self._in_head = self._in_body = False
        self._body_left: int | None = None
        """Bytes until the end of the body; None if it comes in chunks."""
        self._ahead = b""
        """What arrived while a request was under way; parsed when it has been answered."""
        self._unframed = 0
        """Bytes since the last complete head that are not part of a body: a head, or chunk sizes and trailers."""
        self._discarded = 0
        self._waits = _Waits.NOTHING
        self._timer: asyncio.TimerHandle | None = None

    # The transport's side

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn narrows it
        """Make room for the connection, or serve it only if it asks for /health."""
        super().connection_made(transport)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER_BYTES)
        self.flow = self._reading = _Flow(transport)
        self.peer = peer_of(self.client)
        self._is_spare = not self._all.admit(self)
        self._wait(_Waits.HEAD)

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timer."""
        self._wait(_Waits.NOTHING)
        self._all.forget(self)
        super().connection_lost(exc)

    def eof_received(self) -> bool:  # type: ignore[override]  # uvicorn's returns None, which closes
        """The client sends no more. True, if it still has to be answered: then the connection stays open for that."""
        self._is_half_closed = self._has_request or bool(self._ahead)
        return self._is_half_closed

    def pause_writing(self) -> None:
        """The client does not read as fast as it is answered."""
        super().pause_writing()
        self._all.note_unread(self)

    def resume_writing(self) -> None:
        """The client has read nearly all."""
        self.drains += 1
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Parse up to the end of a request, then check what is still missing."""
        if self._ahead:
            self._ahead += data
            return
        self._parse(data)
        if self.transport.is_closing():
            return
        if self._in_body:
            waits = _Waits.BODY
        elif self._in_head or self._unframed > 0:
            waits = _Waits.HEAD
        else:
            waits = _Waits.NOTHING
            if (
                self.cycle is not None
                and self.cycle.response_complete
                and self._passage is None
                and self.timeout_keep_alive_task is None
            ):
                # the rest of a body that was answered early: uvicorn has just stopped the clock of an idle connection
                self.timeout_keep_alive_task = self.loop.call_later(
                    self.timeout_keep_alive, self.timeout_keep_alive_handler
                )
        if self._unframed > self._limits.head_bytes_max:
            self._refuse(431, f"the head of the request is larger than {self._limits.head_bytes_max} bytes")
        elif waits is not self._waits:
            self._wait(waits)

    def continue_reading(self) -> None:
        """Parse the next of the requests that arrived ahead, and read on if that was all."""
        data, self._ahead = self._ahead, b""
        self._reading.is_held = False
        self.data_received(data)
        if not self._ahead and not self.transport.is_closing():
            self._reading.resume_reading()
            self._close_if_done()

    def _parse(self, data: bytes) -> None:
        """Feed the parser piece by piece, so that a request is complete at a piece's end, and keep what comes after it.

        The parser itself cannot be stopped, and makes as many requests as there are.
        """
        start, size = 0, len(data)
        while start < size and not self.transport.is_closing():
            if self._has_request:
                self._ahead = data[start:]
                self._reading.pause_reading()
                self._reading.is_held = True
                return
            end = self._end_of_piece(data, start)
            self._unframed += end - start
            super().data_received(data if end - start == size else data[start:end])
            start = end

    def _end_of_piece(self, data: bytes, start: int) -> int:
        """Where the next piece ends, at the latest with the message that has begun. Most pieces are heads or bodies."""
        size = len(data)
        if self._in_body and self._body_left is not None:
            return min(size, start + max(1, self._body_left))
        if start < 2 and (self._in_body or self._unframed > 0):
            return start + 1  # the end of a head or of a body in chunks may have begun in other data
        blank = data.find(b"\n\r\n", start - 2 if start > 1 else 0)
        end = size if blank < 0 else blank + 3
        bare = data.find(b"\n\n", start - 1 if start else 0, end)
        return end if bare < 0 else bare + 2

    @property
    def _has_request(self) -> bool:
        """Whether a request has arrived as a whole and is not answered yet."""
        if self._passage is not None:
            return True
        cycle = self.cycle
        return cycle is not None and not cycle.response_complete and not cycle.more_body

    # The parser's side

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is complete."""
        if self._is_offer:
            return
        self._in_head, self._in_body = False, True
        self._unframed = 0
        self._body_left = _length_of(self.headers)
        if self._waits is not _Waits.NOTHING:
            self._wait(_Waits.NOTHING)  # the next part has its own deadline
        if self._is_spare and not self.url.startswith(b"/health/"):
            self._refuse(503, "too many connections: try again")
            return
        if self._is_for_lane:
            self._held_back = b""
            return
        super().on_headers_complete()
        if self._is_spare:
            self.cycle.keep_alive = False

    @property
    def _is_offer(self) -> bool:
        """Whether the head offers to speak another protocol, as Java's client does with every request."""
        return self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"

    def _unsupported_upgrade_warning(self) -> None:
        """Read a head again without its offer, by a new parser: this one takes a body for the next head."""
        if self._is_offer:
            kept = [b"%s: %s\r\n" % header for header in self.headers if header[0] != b"upgrade"]
            first = (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
            self.parser = type(self.parser)(self)
            super().data_received(b"".join([b"%s %s HTTP/%s\r\n" % first, *kept, b"\r\n"]))

    def on_body(self, body: bytes) -> None:
        """A piece of a body; chunk sizes may add as much again."""
        self._unframed -= 2 * len(body)
        if self._body_left is not None:
            self._body_left -= len(body)
        if self._held_back is not None:
            self._held_back += body
            if self._body_left == 0 and not self._enter_lane(self._held_back):
                self._leave_to_application()
            return
        if self.cycle is None:
            return  # refused
        if self.cycle.response_complete:
            self._discarded += len(body)
            if self._discarded > self._limits.batch_body_bytes_max:
                self.transport.abort()
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._in_body = False
        self._unframed = self._discarded = 0
        if self._passage is None and self.cycle is not None:  # else it is in the lane, or was refused
            super().on_message_complete()

    # The lane

    @property
    def _is_for_lane(self) -> bool:
        """Whether the request whose head is complete may be for the lane."""
        lane, parser = self._lane, self.parser
        return (
            lane is not None
            and lane.takes(parser.get_method(), self.url, self._body_left)
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
            and not self.expect_100_continue
            and not self._is_spare
            and not self.flow.write_paused
        )

    def _enter_lane(self, body: bytes) -> bool:
        """Hand the request in; False if the application must answer it."""
        assert self._lane is not None  # noqa: S101  # `_is_for_lane`
        self._passage = self._lane.enter(self.url, self.headers, body)
        if self._passage is None:
            return False
        self._held_back = None
        self._passage.outcomes.add_done_callback(self._leave_lane)
        return True

    def _leave_lane(self, _outcomes: asyncio.Future[list[Any]]) -> None:
        """Write the response, whether or not anybody is still there to read it: it has been carried out, and counts."""
        assert self._lane is not None and self._passage is not None  # noqa: S101, PT018  # `_enter_lane`
        status, headers, body = self._lane.leave(self._passage)
        self._passage = None
        if not self.transport.is_closing():
            lines = [b"%s: %s\r\n" % header for header in (*self.server_state.default_headers, *headers)]
            if self._is_last:
                lines.append(b"connection: close\r\n")
            self.transport.write(b"".join([STATUS_LINE[status], *lines, b"\r\n", body]))
            if self._is_last:
                self.transport.close()
        self.on_response_complete()

    def _leave_to_application(self) -> None:
        """The request that was held back takes the usual way."""
        body, self._held_back = self._held_back, None
        super().on_headers_complete()
        if body:
            super().on_body(body)

    def shutdown(self) -> None:
        """Close the connection after the response that is under way, or now."""
        if self._held_back is not None:
            self._leave_to_application()
        if self._passage is None:
            super().shutdown()
        else:
            self._is_last = True

    # Ours

    def on_response_complete(self) -> None:
        """Answered: what has arrived meanwhile waits for its turn."""
        super().on_response_complete()
        if self._ahead and not self.transport.is_closing():
            self._all.await_turn(self)
        self._close_if_done()

    def _close_if_done(self) -> None:
        """Close the connection of a client that sends no more, once all that it has sent is answered."""
        if self._is_half_closed and not self._has_request and not self._ahead:
            self.transport.close()

    def _wait(self, waits: _Waits) -> None:
        """Start the deadline of this part of a request."""
        self._waits = waits
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waits is not _Waits.NOTHING:
            self._timer = self.loop.call_later(self._seconds_max, self._too_late)

    @property
    def _seconds_max(self) -> float:
        if self._is_spare:
            return SPARE_SECONDS_MAX
        if self._held_back is not None:
            return GRACE_SECONDS
        return self._limits.head_seconds_max if self._waits is _Waits.HEAD else self._limits.body_seconds_max

    def _too_late(self) -> None:
        if self._held_back is not None:  # the application has a deadline for the rest, and an answer if that passes
            self._leave_to_application()
            self._wait(_Waits.BODY)
        elif self.cycle is not None and not self.cycle.response_complete:
            # it is being answered: its body has a deadline of its own, and the next request is not read yet
            self._timer = self.loop.call_later(self._seconds_max, self._too_late)
        elif self._waits is _Waits.HEAD:
            self._refuse(408, f"the head of the request did not arrive in {self._seconds_max} seconds")
        else:
            self.transport.close()

    @property
    def is_served(self) -> bool:
        """Whether the connection is waiting for us rather than for its client."""
        return self._has_request

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun to arrive."""
        return self._waits is _Waits.NOTHING and not self._ahead

    def _refuse(self, status: int, detail: str) -> None:
        """Reply without the application, and close."""
        self._wait(_Waits.NOTHING)
        self._all.count_refused(status)
        body = orjson.dumps(problem(status, detail))
        head = b"HTTP/1.1 %d %s\r\ncontent-type: application/problem+json\r\ncache-control: no-store\r\n" % (
            status,
            _REASONS[status],
        )
        head += b"content-length: %d\r\nconnection: close\r\n" % len(body)
        if status == 503:
            head += b"retry-after: 1\r\n"
        self.transport.write(head + b"\r\n" + body)
        self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Reply to invalid HTTP with a problem, as to every other error."""
        self._refuse(400, msg)


def _length_of(headers: list[tuple[bytes, bytes]]) -> int | None:
    """The length of a body as declared, 0 without one; None if it comes in chunks. The parser has checked both."""
    length: int | None = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)
    return length
