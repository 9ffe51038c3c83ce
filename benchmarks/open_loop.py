"""(h) Latency at a fixed rate: pairs begin when they are due, whatever became of those before.

Each latency counts from when the pair was due, so that a stall is felt by all that should have begun in it. The disk's
own time to sync is measured before, between and after: a commit cannot be faster.
"""

import asyncio
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import numpy as np
import orjson
import uvloop
from rich.box import SIMPLE_HEAD
from rich.table import Table

from benchmarks.load import encode, take_reply
from benchmarks.machine import sync_ms
from benchmarks.payload import Payload
from benchmarks.rounds import Row
from benchmarks.running import client_of, database, service, serving
from tests.servers import HOST

RATE = 400.0
CONNECTIONS = 128
Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _call(streams: Streams, request: bytes) -> tuple[int, bytes]:
    reader, writer = streams
    writer.write(request)
    received = bytearray()
    while (reply := take_reply(received)) is None:
        chunk = await reader.read(65_536)
        if not chunk:
            raise ConnectionError("the server closed a connection")
        received += chunk
    return reply


async def pairs(port: int, payload: Payload, seconds: float, rate: float) -> tuple[list[float], int]:
    """Milliseconds of each pair from when it was due, `rate` of them a second; and how many failed."""
    address = f"{HOST}:{port}"
    selects = [encode("/select", address, body) for body in payload.selects]
    idle: asyncio.Queue[Streams] = asyncio.Queue()
    for _ in range(CONNECTIONS):
        idle.put_nowait(await asyncio.open_connection(HOST, port))
    latencies: list[float] = []
    failures = 0

    async def pair(number: int, due: float) -> None:
        nonlocal failures
        streams = await idle.get()  # a server that is late makes pairs wait here, and their latencies say so
        status, body = await _call(streams, selects[number % len(selects)])
        if status == 200:
            reward = orjson.dumps({"decision_id": orjson.loads(body)["decision_id"], "reward": 0.5})
            status, _ = await _call(streams, encode("/reward", address, reward))
        failures += status != 200
        latencies.append((time.perf_counter() - due) * 1e3)
        idle.put_nowait(streams)

    async with asyncio.TaskGroup() as group:
        start = time.perf_counter()
        for number in range(int(seconds * rate)):
            due = start + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            group.create_task(pair(number, due))
    while not idle.empty():
        idle.get_nowait()[1].close()
    return latencies, failures


def open_loop(seconds: float, directory: Path, rate: float = RATE) -> list[Row]:
    """Latencies of pairs and of the disk."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(service(stack.enter_context(database("sqlite", directory)), directory)))
        payload = Payload(10, 20)
        with client_of(server) as client:
            payload.create(client)
            payload.reply_sizes(client)
        before = sync_ms(directory)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            latencies, failures = runner.run(pairs(server.port, payload, seconds, rate))
        after = sync_ms(directory)
    p50, p99 = np.percentile(latencies, [50, 99])
    return [
        {"name": f"pairs at {rate:g}/s", "p50_ms": float(p50), "p99_ms": float(p99), "failures": failures},
        {"name": "sync of 4 KiB, before", "p50_ms": before[0], "p99_ms": before[1], "failures": 0},
        {"name": "sync of 4 KiB, after", "p50_ms": after[0], "p99_ms": after[1], "failures": 0},
    ]


def table(rows: list[Row]) -> Table:
    """The rows for a person."""
    caption = "A pair is two commits. Latencies count from when the pair was due."
    shown = Table(title="(h) Open loop, K=10, d=20, SQLite", caption=caption, box=SIMPLE_HEAD)
    for heading in ("", "p50 ms", "p99 ms", "failed"):
        shown.add_column(heading, justify="right" if heading else "left")
    for row in rows:
        shown.add_row(row["name"], f"{row['p50_ms']:.2f}", f"{row['p99_ms']:.2f}", str(row["failures"]))
    return shown
