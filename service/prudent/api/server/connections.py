"""The connections of a process: how many, whose are closed to make room, and answers that nobody reads.

What a client does not read stays in memory, and its connection is held, also one that has been closed: neither uvicorn
nor the event loop has a deadline for that. So once a second every connection is looked at.

Requests that were sent before the answer to the one ahead of them (pipelining) take turns over all connections. Clients
that wait for their answers, as nearly all do, are then not slowed down by one that sends a thousand at once.
"""

import asyncio
from collections import Counter
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, Protocol

from prudent.observability.metrics import Metrics
from prudent.settings import Limits

SHED_SHARE = 20
"""When there are too many connections, one in 20 is closed at a time, because finding them takes a pass over all."""
SPARE_MAX = 32
"""Connections above the limit that are kept until their request is known, because /health is always served."""
SWEEP_SECONDS = 1.0
PROGRESS_BYTES = 64 * 2**10
"""Of an answer, to be read within `unread_seconds_max`."""
TURN_SECONDS = 0.01
"""From one pipelined request of any connection to the next one."""


class Connection(Protocol):
    """What is known of a connection here. Times are the event loop's."""

    transport: asyncio.Transport
    peer: str | None
    accepted_at: float
    drains: int

    @property
    def is_served(self) -> bool:
        """Whether it is waiting for us rather than for its client."""

    @property
    def is_idle(self) -> bool:
        """Whether no request has begun to arrive."""

    def continue_reading(self) -> None:
        """Go on with what arrived while the last request was being answered."""


class _Unread(NamedTuple):
    """How much of its answers a connection had not read, and when it last read a good part of them."""

    size: int
    since: float
    drains: int


class Connections:
    """All connections of a process."""

    def __init__(self, limits: Limits, metrics: Metrics, loop: asyncio.AbstractEventLoop) -> None:
        self._limits, self._metrics, self._loop = limits, metrics, loop
        self._per_peer_max = max(1, limits.connections_max * limits.peer_connections_percent // 100)
        self._admitted: dict[Connection, None] = {}
        self._spare: dict[Connection, None] = {}
        self._peers: Counter[str] = Counter()
        self._unread: dict[Connection, _Unread] = {}
        self._turns: dict[Connection, None] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._turn: asyncio.TimerHandle | None = None

    def admit(self, connection: Connection) -> bool:
        """Take in a new connection, and close others where there are too many; False if it may only ask for /health."""
        if self._sweeper is None:
            self._sweeper = self._loop.call_later(SWEEP_SECONDS, self._sweep)
        peer = connection.peer
        has_room = peer is None or self._peers[peer] < self._per_peer_max or self._make_room(peer)
        if has_room and (len(self._admitted) < self._limits.connections_max or self._make_room(None)):
            self._admitted[connection] = None
            if peer is not None:
                self._peers[peer] += 1
            return True
        if len(self._spare) >= SPARE_MAX:
            self._close(next(iter(self._spare)), "room")
        self._spare[connection] = None
        return False

    def forget(self, connection: Connection) -> None:
        """The connection is lost, or given up."""
        self._spare.pop(connection, None)
        self._unread.pop(connection, None)
        self._turns.pop(connection, None)
        if connection in self._admitted:
            del self._admitted[connection]
            if connection.peer is not None:
                self._peers[connection.peer] -= 1
                if not self._peers[connection.peer]:
                    del self._peers[connection.peer]

    def note_unread(self, connection: Connection) -> None:
        """The client reads more slowly than it is answered. Where all hold too much together, close the slowest."""
        self._unread.setdefault(connection, _Unread(unread_bytes(connection), self._loop.time(), connection.drains))
        total = sum(unread_bytes(one) for one in self._unread)
        for slow in sorted(self._unread, key=lambda one: self._unread[one].since):
            if total <= self._limits.unread_bytes_max:
                return
            total -= unread_bytes(slow)
            self._close(slow, "unread")

    def await_turn(self, connection: Connection) -> None:
        """Have the connection continue when it is its turn."""
        self._turns[connection] = None
        if self._turn is None:
            self._turn = self._loop.call_later(TURN_SECONDS, self._take_turn)

    def _take_turn(self) -> None:
        self._turn = None
        if self._turns:
            connection = next(iter(self._turns))
            del self._turns[connection]
            connection.continue_reading()
        if self._turns and self._turn is None:
            self._turn = self._loop.call_later(TURN_SECONDS, self._take_turn)

    def _make_room(self, peer: str | None) -> bool:
        """Close some connections that wait for their clients, of one peer or of all; whether there were any.

        Those with unread answers first, then unfinished requests, then idle ones, each by age.
        """
        considered = [one for one in self._admitted if peer is None or one.peer == peer]
        ranked = [(rank, one.accepted_at, one) for one in considered if (rank := self._rank(one)) is not None]
        ranked.sort(key=lambda entry: entry[:2])
        for _, _, one in ranked[: len(considered) // SHED_SHARE + 1]:
            self._close(one, "room")
        return bool(ranked)

    def _rank(self, connection: Connection) -> int | None:
        """Which connections are closed first; None for one that waits for us."""
        unread = self._unread.get(connection)
        has_stalled = unread is not None and self._loop.time() - unread.since >= SWEEP_SECONDS
        if has_stalled or connection.transport.is_closing():
            return 0
        if connection.is_served:
            return None
        return 2 if connection.is_idle else 1

    def count_refused(self, status: int) -> None:
        """Count an answer that the application has no part in."""
        self._metrics.requests.labels("unparsed", "none", status).inc()

    def _close(self, connection: Connection, reason: str) -> None:
        self._metrics.connections_closed.labels(reason).inc()
        self.forget(connection)
        connection.transport.abort()

    def _sweep(self) -> None:
        """Close connections that have not read their answers in time."""
        now = self._loop.time()
        for one in [*self._admitted, *self._spare]:
            size, before = unread_bytes(one), self._unread.get(one)
            if size == 0:
                self._unread.pop(one, None)
            elif before is None or one.drains != before.drains or size <= before.size - PROGRESS_BYTES:
                self._unread[one] = _Unread(size, now, one.drains)
            elif now - before.since >= self._limits.unread_seconds_max:
                self._close(one, "unread")
        is_over = not self._admitted and not self._spare
        self._sweeper = None if is_over else self._loop.call_later(SWEEP_SECONDS, self._sweep)


def unread_bytes(connection: Connection) -> int:
    """Bytes of its answers that the operating system has not taken yet."""
    return connection.transport.get_write_buffer_size()


def peer_of(address: tuple[str, int] | None) -> str | None:
    """What counts as one peer: an IPv4 address, or the 64 bits of an IPv6 address that a site is given as a whole."""
    if address is None:
        return None
    try:
        parsed = ip_address(address[0].partition("%")[0])
    except ValueError:
        return address[0]
    if isinstance(parsed, IPv6Address):
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped is not None else parsed.packed[:8].hex()
    return address[0]
