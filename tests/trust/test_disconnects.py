"""R7: clients that leave, at any moment of a request."""

import asyncio
import contextlib
import json
import time

import httpx
import numpy as np
import psutil
import psycopg
import pytest

from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.servers import HOST, Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Record, create_campaigns

ABORTS = length("ABORTS", 400)
AT_ONCE = 50
CLOSED_SECONDS_MAX = 5.0
"""For the last connections to be closed on a busy machine; idle ones are kept for longer than that."""
ABORT_SECONDS_MAX = 0.05
POOLS = 6
"""Connections that a worker may have; see docs/operations.md."""


def head_of(path: str, length: int) -> bytes:
    """The head of a POST of so many bytes of JSON."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"]
    return "\r\n".join([*lines, "", ""]).encode()


async def leave(port: int, number: int, draw: np.random.Generator) -> None:
    """Send all of a request or a part of it, and go."""
    path, body = (
        ("/select", {"campaign_id": "ridge", "decision_id": f"d{number // 2}"}),
        ("/reward", {"decision_id": f"d{number // 2}", "reward": 0.5}),
    )[number % 2]
    content = json.dumps(body).encode()
    message = head_of(path, len(content)) + content
    part = len(message) if number % 4 < 2 else int(draw.integers(1, len(message)))
    _, writer = await asyncio.open_connection(HOST, port)
    writer.write(message[:part])
    await asyncio.sleep(float(draw.uniform(0, ABORT_SECONDS_MAX)))
    if number % 3 == 0:
        writer.transport.abort()  # a reset, as of a process that was killed
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


async def leave_all(port: int) -> None:
    draw = np.random.default_rng(7)
    for start in range(0, ABORTS, AT_ONCE):
        await asyncio.gather(*(leave(port, number, draw) for number in range(start, min(start + AT_ONCE, ABORTS))))


def connections_of(server: Server) -> int:
    """Sockets of clients that the server still holds."""
    assert server.process is not None
    found = psutil.Process(server.process.pid).net_connections("tcp")
    return sum(one.status != psutil.CONN_LISTEN and one.laddr.port == server.port for one in found)


def sessions_of(database_url: str) -> tuple[int, int]:
    """The service's sessions on Postgres, and how many of them are idle inside a transaction."""
    with psycopg.connect(database_url) as connection:
        row = connection.execute(
            "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%') FROM pg_stat_activity "
            "WHERE application_name = 'prudent' AND datname = current_database()"
        ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_clients_that_leave_leak_nothing(make_server: MakeServer, database_url: str, promise: Promise) -> None:
    """R7. Users who close a page would use up the connections, and at some point nobody would be answered."""
    server, record = make_server(database_url), Record()
    create_campaigns(server.url)
    asyncio.run(leave_all(server.port))
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        decided = len(http.get("/campaigns/ridge/decisions", params={"limit": 1000}).json()["items"])
        for number in range(20):
            for path, body in (
                ("/select", {"campaign_id": "exact", "decision_id": f"after{number}"}),
                ("/reward", {"decision_id": f"after{number}", "reward": 0.25}),
            ):
                assert record.note((path, body), http.post(path, json=body))
    deadline = time.monotonic() + CLOSED_SECONDS_MAX
    while (held := connections_of(server)) and time.monotonic() < deadline:
        time.sleep(0.05)
    sessions, idle = (0, 0) if database_url.startswith("sqlite") else sessions_of(database_url)
    found = check(database_url, record)
    name = database_url.partition(":")[0]
    promise(
        "R7",
        f"{name}: {ABORTS:,} aborted requests, {decided} of them decided: connections left {held}, "
        f"idle transactions {idle}, {found}",
    )
    assert decided > ABORTS / 10  # otherwise they were refused, and nothing was tried
    assert (held, idle) == (0, 0)
    assert sessions <= POOLS
    assert found.none, found.faults
    assert "Traceback" not in server.log()
    prudent_verify(database_url, server.url)


@pytest.mark.parametrize("path", ["/select", "/reward", "/campaigns/ridge/observations"])
def test_a_client_that_leaves_in_mid_body_causes_no_traceback(
    make_server: MakeServer, sqlite_database: str, path: str
) -> None:
    """An alarm on tracebacks would ring whenever a phone loses its network."""
    server = make_server(sqlite_database)

    async def run() -> None:
        _, writer = await asyncio.open_connection(HOST, server.port)
        writer.write(head_of(path, 1_000) + b"{")
        await writer.drain()
        await asyncio.sleep(0.1)
        writer.close()

    asyncio.run(run())
    assert httpx.get(f"{server.url}/health/ready", trust_env=False).status_code == 200
    assert server.stop() == 0
    assert "Traceback" not in server.log()
