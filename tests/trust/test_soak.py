"""R26: an hour of steady traffic on both databases: memory, descriptors, logs that grow, and latency that drifts."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np
import psutil
import psycopg

from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.servers import Postgres, Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, Request, create_campaigns

MIB = 2**20
PAUSE_SECONDS = 0.25
"""Of each client after each request: traffic that leaves the machine room for other things."""
READ_SECONDS = 5.0
READS = (
    "/campaigns",
    "/campaigns/exact/model",
    "/campaigns/ridge/report",
    "/campaigns/streamed/export",
    "/metrics",
    "/",
)
MEMORY_GROWTH_MAX = 48 * MIB
"""The exact minimiser keeps its observations, and the allocator what it once had."""
LOG_BYTES_MAX = {"sqlite": 72 * MIB, "postgresql": 1_100 * MIB}
"""SQLite's is cut to 64 MiB; PostgreSQL's max_wal_size is 1 GiB."""


class TimedLoad(Load):
    """Load that keeps the time of each answer."""

    def __init__(self, url: str, record: Record) -> None:
        super().__init__(url, record, clients=8)
        self.answers: list[tuple[float, float]] = []

    async def send(self, http: httpx.AsyncClient, request: Request) -> bool:
        """Send one request, and pause."""
        started = time.monotonic()
        success = await super().send(http, request)
        self.answers.append((started, time.monotonic() - started))
        await asyncio.sleep(PAUSE_SECONDS)
        return success

    def milliseconds(self, start: float, end: float) -> str:
        """Median and 99th percentile of the answers to requests sent in this time."""
        taken = [seconds * 1e3 for sent, seconds in self.answers if start <= sent < end]
        median, slow = np.percentile(taken, [50, 99])
        return f"p50 {median:.0f} ms, p99 {slow:.0f} ms"


@dataclass
class Watch:
    """A server under observation."""

    name: str
    server: Server
    log_bytes: Callable[[], int]
    record: Record = field(default_factory=Record)
    memory: list[int] = field(default_factory=list)
    descriptors: list[int] = field(default_factory=list)
    logs: list[int] = field(default_factory=list)
    failed_reads: list[str] = field(default_factory=list)

    def look(self) -> None:
        """Take one sample."""
        assert self.server.process is not None
        process = psutil.Process(self.server.process.pid)
        self.memory.append(process.memory_info().rss)
        self.descriptors.append(process.num_fds())
        self.logs.append(self.log_bytes())

    async def run(self, seconds: float) -> "TimedLoad":
        """Traffic for so long, with readers in between and about a hundred samples."""
        load, end = TimedLoad(self.server.url, self.record), time.monotonic() + seconds
        traffic = asyncio.create_task(load.run(seconds))
        next_read = time.monotonic()
        async with httpx.AsyncClient(base_url=self.server.url, timeout=30, trust_env=False) as http:
            while time.monotonic() < end:
                self.look()
                if time.monotonic() >= next_read:
                    next_read += READ_SECONDS
                    for path in READS:
                        reply = await http.get(path)
                        if reply.status_code != 200:
                            self.failed_reads.append(f"{path}: {reply.status_code}")
                await asyncio.sleep(min(seconds / 100, 30))
        await traffic
        return load


def largest_log(url: str) -> Callable[[], int]:
    """How many bytes the log that is written ahead takes at the moment."""
    if url.startswith("sqlite"):
        wal = Path(url.removeprefix("sqlite:///") + "-wal")
        return lambda: wal.stat().st_size

    def ask() -> int:
        with psycopg.connect(url) as connection:
            row = connection.execute("SELECT sum(size) FROM pg_ls_waldir()").fetchone()
        return 0 if row is None else int(row[0])

    return ask


def test_an_hour_of_traffic(
    make_server: MakeServer, sqlite_database: str, lone_postgres: Postgres, lone_database: str, promise: Promise
) -> None:
    """R26. What leaks a little with each request stops a service after a week."""
    seconds = float(length("SOAK_SECONDS", 6))
    watches = []
    for name, url in (("sqlite", sqlite_database), ("postgresql", lone_database)):
        server = make_server(url)
        create_campaigns(server.url)
        watches.append(Watch(name, server, largest_log(url)))

    async def run() -> list[TimedLoad]:
        await asyncio.gather(*(watch.run(min(seconds / 4, 60)) for watch in watches))  # caches fill, code is loaded
        for watch in watches:
            watch.memory, watch.descriptors, watch.logs = [], [], []
        return await asyncio.gather(*(watch.run(seconds) for watch in watches))

    for watch, load in zip(watches, asyncio.run(run()), strict=True):
        start, end = load.answers[0][0], load.answers[-1][0]
        part = max(0.1 * (end - start), 1.0)
        found = check(watch.server.database_url, watch.record)
        tenth = max(1, len(watch.memory) // 10)
        memory = [max(watch.memory[:tenth]) / MIB, max(watch.memory[-tenth:]) / MIB]
        half = len(watch.descriptors) // 2 + 1  # the clients' own connections come one by one
        descriptors = [max(watch.descriptors[:half]), max(watch.descriptors[-tenth:])]
        promise(
            "R26",
            f"{watch.name}: {seconds:,.0f} s, {watch.record.acknowledged:,} acknowledged, {found}; "
            f"memory {memory[0]:.0f} to {memory[1]:.0f} MiB; descriptors {descriptors[0]} to "
            f"{descriptors[1]}; written ahead at most {max(watch.logs) / MIB:.0f} MiB; "
            f"{load.milliseconds(start, start + part)} at the start, "
            f"{load.milliseconds(end - part, end + 1)} at the end",
        )
        assert not watch.record.wrong_statuses
        assert watch.failed_reads == []
        assert found.none, found.faults
        assert memory[1] - memory[0] < MEMORY_GROWTH_MAX / MIB
        assert descriptors[1] <= descriptors[0] + 3
        assert max(watch.logs) <= LOG_BYTES_MAX[watch.name]
        prudent_verify(watch.server.database_url, watch.server.url)
