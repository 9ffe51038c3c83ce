"""Messages between the processes of one `prudent serve`, over a Unix socket.

What is sent in one turn of the event loop travels together: a length, and a pickle of the list of messages. Both ends
are this program, in one version, and the socket is in a folder that only its user can enter: a pickle from anybody else
could run anything.
"""

import asyncio
import pickle
import struct
from collections.abc import Callable
from typing import Any, cast

_LENGTH = struct.Struct("<Q")


class Wire(asyncio.Protocol):
    """One end of a connection.

    receive: takes the messages that have travelled together. lost: called once, when the connection is gone; what was
    not sent by then is dropped.
    """

    def __init__(self, receive: Callable[[list[Any]], None], lost: Callable[[], None]) -> None:
        self._receive, self._lost = receive, lost
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[Any] = []
        self._incoming = bytearray()

    @property
    def unsent_bytes(self) -> int:
        """Bytes that the other end has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, message: Any) -> None:
        """Send a message, which nobody may change before this turn of the event loop ends."""
        if not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(message)

    def _flush(self) -> None:
        messages, self._outgoing = self._outgoing, []
        if self._transport is None or self._transport.is_closing():
            return
        data = pickle.dumps(messages, pickle.HIGHEST_PROTOCOL)
        self._transport.writelines((_LENGTH.pack(len(data)), data))

    # asyncio's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The other end is there."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what has arrived, in whatever pieces."""
        incoming = self._incoming
        incoming += data
        start = 0
        while len(incoming) >= start + _LENGTH.size:
            (length,) = _LENGTH.unpack_from(incoming, start)
            end = start + _LENGTH.size + length
            if len(incoming) < end:
                break
            with memoryview(incoming) as view, view[start + _LENGTH.size : end] as whole:
                messages = pickle.loads(whole)  # noqa: S301  # of our own
            start = end
            self._receive(messages)
        del incoming[:start]

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  # asyncio's
        """The other end is gone."""
        self._transport = None
        self._lost()
