"""A load generator that costs little: HTTP/1.1 written by hand, on connections that stay open.

A general client spends more time on a request than the service does, and would measure itself. Each connection
sends one request at a time and the next when the reply is complete, so concurrency is the number of connections.
It reads what these servers send (a status, Content-Length, a body) and stops at anything else.
"""

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Literal, cast

import httpx
import orjson
import uvloop

Kind = Literal["select", "reward", "pair"]
SETTLE_SECONDS = 0.5
DRAIN_SECONDS_MAX = 30.0
MAXIMUM_HEAD_BYTES = 65_536


class LoadError(Exception):
    """The server sent something that this client does not read, or went away."""


@dataclass(frozen=True)
class Job:
    """What one client process does.

    `selects` are the bodies of select, used in turn. `decision_ids` are rewarded by kind `reward`: once each,
    ending early when they are used up, or in turn for ever if `reuse` is true. Kind `pair` rewards the decision
    that it has just been given.
    """

    host: str
    port: int
    kind: Kind
    connections: int
    seconds: float
    selects: tuple[bytes, ...]
    decision_ids: tuple[str, ...] = ()
    reuse: bool = False
    prefix: str = ""
    settle_seconds: float = SETTLE_SECONDS


@dataclass(frozen=True)
class Outcome:
    """What came of a job: operations (a pair is one) that ended in the window, and how long each took."""

    seconds: float
    latencies_ms: list[float] = field(repr=False)
    failures: dict[int, int]

    @property
    def rate(self) -> float:
        """Successful operations a second."""
        return len(self.latencies_ms) / self.seconds if self.seconds > 0 else 0.0


def encode(path: str, host: str, body: bytes) -> bytes:
    """A POST request of a JSON body."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json"]
    lines += [f"Content-Length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode("ascii") + body


async def exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> bytes:
    """Send a request on a connection that stays open; the body of its reply, which must be a 200. Raises LoadError."""
    writer.write(request)
    received, reply = bytearray(), None
    while reply is None:
        part = await reader.read(2**16)
        if not part:
            raise LoadError("the server has closed a connection")
        received += part
        reply = take_reply(received)
    if reply[0] != httpx.codes.OK:
        raise LoadError(f"a reply with the status {reply[0]}: {reply[1]!r}")
    return reply[1]


class Connection(asyncio.Protocol):
    """One connection: sends a request, reads its reply, and starts over until its run says stop."""

    def __init__(self, run: "Run") -> None:
        self._run = run
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._decision_id: str | None = None  # set between the two halves of a pair
        self._began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is one in all but its class

    def begin(self) -> None:
        """Send the next operation's first request, or close when there is none."""
        assert self._transport is not None
        request = self._run.next_request()
        if request is None:
            self._transport.close()
            return
        self._began = time.perf_counter()
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        try:
            reply = take_reply(self._received)
        except LoadError as error:
            self._run.fail(error)
            return
        if reply is not None:
            self._ended(*reply)

    def _ended(self, status: int, body: bytes) -> None:
        assert self._transport is not None
        if self._run.job.kind == "pair" and self._decision_id is None and status == 200:
            decision_id: str = orjson.loads(body)["decision_id"]
            self._decision_id = decision_id
            self._transport.write(self._run.reward(decision_id))
            return
        self._decision_id = None
        self._run.record(status, self._began)
        self.begin()

    def connection_lost(self, exc: Exception | None) -> None:
        self._run.lost(exc)


def take_reply(received: bytearray) -> tuple[int, bytes] | None:
    """Take one complete reply off the front: its status and body; None when more is to come. Raises LoadError."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        if len(received) > MAXIMUM_HEAD_BYTES:
            raise LoadError("a reply without an end to its head")
        return None
    head = bytes(received[:end]).lower()
    start = head.find(b"\r\ncontent-length:")
    if not head.startswith(b"http/1.1 ") or start < 0:
        raise LoadError(f"a reply that is not HTTP/1.1 with Content-Length: {head[:200]!r}")
    length = int(head[start + 17 :].partition(b"\r\n")[0])
    if len(received) < end + 4 + length:
        return None
    body = bytes(received[end + 4 : end + 4 + length])
    del received[: end + 4 + length]
    return int(head[9:12]), body


class Run:
    """The state that the connections of a job share."""

    def __init__(self, job: Job, loop: asyncio.AbstractEventLoop) -> None:
        self.job = job
        self.finished: asyncio.Future[None] = loop.create_future()
        self._address = f"{job.host}:{job.port}"
        select_path = f"{job.prefix}/select"
        self._selects = itertools.cycle([encode(select_path, self._address, body) for body in job.selects])
        self._decision_ids = itertools.cycle(job.decision_ids) if job.reuse else iter(job.decision_ids)
        self._open = job.connections
        self._failures: Counter[int] = Counter()
        self._latencies_ms: list[float] = []
        self._window_start = self._window_end = 0.0
        self._exhausted_at: float | None = None

    def start(self) -> None:
        """Start the clock: from now on connections may begin."""
        self._window_start = time.perf_counter() + self.job.settle_seconds
        self._window_end = self._window_start + self.job.seconds

    def reward(self, decision_id: str) -> bytes:
        body = b'{"decision_id":"%s","reward":0.5}' % decision_id.encode("ascii")
        return encode(f"{self.job.prefix}/reward", self._address, body)

    def next_request(self) -> bytes | None:
        if time.perf_counter() >= self._window_end:
            return None
        if self.job.kind != "reward":
            return next(self._selects)
        decision_id = next(self._decision_ids, None)
        if decision_id is None:
            self._exhausted_at = self._exhausted_at or time.perf_counter()
            return None
        return self.reward(decision_id)

    def record(self, status: int, began: float) -> None:
        """Count an operation, if it ended in the window: what ran before is warm-up, what runs after a rest."""
        now = time.perf_counter()
        ends = self._window_end if self._exhausted_at is None else self._exhausted_at
        if not self._window_start <= now < ends:
            return
        if status == 200:
            self._latencies_ms.append((now - began) * 1e3)
        else:
            self._failures[status] += 1

    def lost(self, error: Exception | None) -> None:
        self._open -= 1
        if error is not None or (time.perf_counter() < self._window_end and self._exhausted_at is None):
            self.fail(LoadError(f"the server closed a connection: {error!r}"))
        elif self._open == 0 and not self.finished.done():
            self.finished.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(error)

    def outcome(self) -> Outcome:
        ends = self._window_end if self._exhausted_at is None else min(self._window_end, self._exhausted_at)
        return Outcome(max(ends - self._window_start, 0.0), self._latencies_ms, dict(self._failures))


async def _run(job: Job) -> Outcome:
    loop = asyncio.get_running_loop()
    run = Run(job, loop)
    pending: list[Connection] = []
    for _ in range(job.connections):
        _, connection = await loop.create_connection(lambda: Connection(run), job.host, job.port)
        pending.append(connection)
    run.start()
    for connection in pending:
        connection.begin()
    async with asyncio.timeout(job.settle_seconds + job.seconds + DRAIN_SECONDS_MAX):
        await run.finished
    return run.outcome()


def run_job(job: Job) -> Outcome:
    """Carry out a job in this process. Raises LoadError when the server closes or talks otherwise."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_run(job))


def shared_out(job: Job, clients: int) -> list[Job]:
    """The job in `clients` parts of nearly equal size, for as many processes; fewer when connections are fewer."""
    parts = min(clients, job.connections)
    return [
        replace(
            job,
            connections=len(range(part, job.connections, parts)),
            decision_ids=job.decision_ids if job.reuse else job.decision_ids[part::parts],
        )
        for part in range(parts)
    ]
