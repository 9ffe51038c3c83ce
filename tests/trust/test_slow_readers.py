"""R21. Clients that do not read their answers, send many requests at once, or hold many connections.

None of these needs a key. Each first showed a fault of the release before, commit a92648e: see the tests' docstrings.
"""

import json
import re
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx
import psutil
import pytest

from tests.api.contract import create, multi_armed, ok, problem
from tests.conftest import MakeServer
from tests.end_to_end.hostile import MIB, Watch, received
from tests.promises import Promise, length
from tests.servers import HOST, ROOT, Server, clean_environment
from tests.trust.attackers import ELSEWHERE, SMALL, connect, stalled_reader
from tests.trust.selecting import Selecting

pytestmark = pytest.mark.slow

GROWTH_BYTES_MAX = 20 * MIB
LIVE_SECONDS_MAX = 10.0
"""Whether it lives at all: how fast is measured at full length, on a machine that does nothing else."""


def held(server: Server) -> int:
    """Connections that the server holds, besides the socket that listens."""
    assert server.process is not None
    found = psutil.Process(server.process.pid).net_connections()
    return sum(one.status != psutil.CONN_LISTEN for one in found)


def wait_until_at_most(server: Server, count: int, seconds: float) -> int:
    """Wait until the server holds no more than so many connections; how many it holds then."""
    deadline = time.monotonic() + seconds
    while held(server) > count and time.monotonic() < deadline:
        time.sleep(0.1)
    return held(server)


def get(server: Server, path: str) -> httpx.Response:
    """An answer on a connection of its own."""
    return httpx.get(server.url + path, timeout=LIVE_SECONDS_MAX, trust_env=False)


@pytest.mark.parametrize("source", [ELSEWHERE, HOST], ids=["another-peer", "the-same-peer"])
def test_readers_that_stall_keep_nobody_out(make_server: MakeServer, sqlite_database: str, source: str) -> None:
    """F1. Sockets that asked for a file with Connection: close and read nothing made everybody else get 503, for good.

    A fault of commit a92648e: closing connections counted, and could not be dropped.
    """
    limits = {"PRUDENT_CONNECTIONS_MAX": "40", "PRUDENT_UNREAD_SECONDS_MAX": "60"}
    server = make_server(sqlite_database, environment=limits)
    with ExitStack() as stack:
        for _ in range(60):
            stack.enter_context(stalled_reader(server.port, source))
        time.sleep(3)  # a client that has read nothing for a second has stalled
        assert held(server) >= 30, "they have not stalled"
        for _ in range(10):
            for path in ("/health/live", "/campaigns"):
                ok(get(server, path))
        assert held(server) <= 40 + 32 + 2


@pytest.mark.parametrize("kilobytes_per_second", [0, 2], ids=["nothing", "a-trickle"])
def test_an_answer_that_is_not_read_has_a_deadline(
    make_server: MakeServer, sqlite_database: str, kilobytes_per_second: int
) -> None:
    """F1. With or without a connection to be closed, each would be held, with its answer, until the client leaves."""
    server = make_server(sqlite_database, environment={"PRUDENT_UNREAD_SECONDS_MAX": "2"})
    paths = (b"/docs/static/swagger-ui-bundle.js", b"/openapi.json", b"/openapi.json", b"/openapi.json")
    with ExitStack() as stack:
        readers = [stack.enter_context(stalled_reader(server.port)) for _ in range(5)]
        for path in paths:  # that stay open after their answer
            readers.append(stack.enter_context(connect(server.port, window=4_096)))
            readers[-1].send(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path * 200)
        deadline = time.monotonic() + 20
        while held(server) < len(readers) and time.monotonic() < deadline:
            time.sleep(0.05)
        while held(server) and time.monotonic() < deadline:
            time.sleep(0.5)
            for reader in readers:
                if kilobytes_per_second:
                    with_nothing_there(reader, 512 * kilobytes_per_second)
        assert held(server) == 0
    assert "Traceback" not in server.log()


def with_nothing_there(reader: socket.socket, size: int) -> None:
    """Read a little, if there is something."""
    try:
        reader.recv(size)
    except (BlockingIOError, ConnectionError):
        return


def test_a_slow_reader_that_goes_on_reading_gets_all(make_server: MakeServer, sqlite_database: str) -> None:
    """A deadline for the whole of an answer would cut off everybody with a slow line."""
    server = make_server(sqlite_database, environment={"PRUDENT_UNREAD_SECONDS_MAX": "1"})
    path = "/docs/static/swagger-ui-bundle.js"
    expected = httpx.get(server.url + path, headers={"Accept-Encoding": "identity"}, trust_env=False).content
    with connect(server.port, window=32_768) as reader:
        reader.setblocking(True)
        reader.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        found = b""
        while piece := reader.recv(65_536):
            found += piece
            time.sleep(len(piece) / (400 * 1_024))  # four seconds in all
    assert found.partition(b"\r\n\r\n")[2] == expected


def test_answers_that_are_not_read_are_bounded_together(make_server: MakeServer, sqlite_database: str) -> None:
    """A reader's key could have a thousand large answers made, and leave them all in the memory."""
    limits = {"PRUDENT_UNREAD_BYTES_MAX": str(MIB), "PRUDENT_UNREAD_SECONDS_MAX": "60"}
    server = make_server(sqlite_database, environment=limits)
    with ExitStack() as stack:
        for _ in range(40):
            stack.enter_context(stalled_reader(server.port))
        ok(get(server, "/health/live"))
        assert wait_until_at_most(server, 17, 10) <= 17  # each leaves more than 64 KiB
        closed = re.search(r'connections_closed_total\{reason="unread"\} ([0-9.]+)', get(server, "/metrics").text)
        assert closed is not None
        assert float(closed[1]) >= 23


def ask(connection: socket.socket) -> None:
    """Have a request answered on a connection, and keep it."""
    connection.settimeout(10)
    connection.sendall(SMALL)
    answer = b""
    while not answer.endswith(b"}"):
        piece = connection.recv(65_536)
        assert piece, "the connection was closed"
        answer += piece
    assert answer.startswith(b"HTTP/1.1 200 ")


def test_one_peer_does_not_push_out_the_others(make_server: MakeServer, sqlite_database: str) -> None:
    """F1. Somebody who opens connections all the time had the oldest ones closed: those of the usual clients.

    A fault of commit a92648e.
    """
    server = make_server(sqlite_database, environment={"PRUDENT_CONNECTIONS_MAX": "40"})
    with socket.create_connection((HOST, server.port), timeout=10) as usual, ExitStack() as stack:
        for _ in range(2):
            ask(usual)
            for number in range(200):
                other = stack.enter_context(connect(server.port))
                if number % 2:  # then it is as idle as the usual one, which is older
                    ask(other)


def test_health_is_served_when_every_connection_is_in_use(make_server: MakeServer, sqlite_database: str) -> None:
    """F1. An orchestrator that gets 503 restarts a server that only has much to do. A fault of commit a92648e.

    One peer may have three of the four connections.
    """
    server = make_server(sqlite_database, environment={"PRUDENT_CONNECTIONS_MAX": "4"})
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        body = json.dumps({"campaign_id": create(client, multi_armed())}).encode()
    head = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    with ExitStack() as stack, sqlite3.connect(sqlite_database.removeprefix("sqlite:///")) as database:
        database.execute("BEGIN IMMEDIATE")  # so that selects wait, for up to five seconds
        waiting = [stack.enter_context(socket.create_connection((HOST, server.port))) for _ in range(3)]
        for one in waiting:
            one.sendall(head % len(body) + body)
        time.sleep(0.5)
        for _ in range(3):
            ok(get(server, "/health/live"))
            problem(get(server, "/campaigns"), 503)
        database.rollback()
        for one in waiting:
            assert one.recv(65_536).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_half_closes_holds_nothing(make_server: MakeServer, sqlite_database: str) -> None:
    """A connection of which one half is left, idle or with an answer that nobody reads, would stay for good."""
    server = make_server(sqlite_database, environment={"PRUDENT_UNREAD_SECONDS_MAX": "1"})
    with ExitStack() as stack:
        for beginning in (b"", b"GET / HT", b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            one = stack.enter_context(connect(server.port))
            one.send(beginning)
            one.shutdown(socket.SHUT_WR)
        for _ in range(5):
            stack.enter_context(stalled_reader(server.port)).shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + 10
        while held(server) < 5 and time.monotonic() < deadline:  # the system has them before the server does
            time.sleep(0.01)
        assert wait_until_at_most(server, 0, 10) == 0


# Requests sent ahead


def test_requests_sent_at_once_are_bounded(make_server: MakeServer, sqlite_database: str) -> None:
    """F2. Four megabytes of requests on one connection took 255 MiB, ten such connections the service.

    A fault of commit a92648e: what had arrived was parsed at once, a request became a dozen objects.
    """
    server = make_server(sqlite_database)
    ok(get(server, "/health/live"))
    with Watch(server) as watch, attack(server, readers=0, pipelines=10, heads=0):
        time.sleep(3)
    assert watch.failures == 0
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert watch.slowest_seconds < LIVE_SECONDS_MAX


@pytest.mark.parametrize("size", [1, 7, 64, 100_000])
def test_requests_sent_ahead_are_answered_in_order(make_server: MakeServer, sqlite_database: str, size: int) -> None:
    """A request that is cut at the wrong place would be answered 400, or another one's body be taken for a head."""
    server = make_server(sqlite_database)
    body = b'{"campaign_id": "none", "context": [1.0]}'
    post = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    requests = [
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200"),
        (post + b"Content-Length: %d\r\n\r\n" % len(body) + body, b"404"),
        (post + b"Transfer-Encoding: chunked\r\n\r\n5\r\n%s\r\n24\r\n%s\r\n0\r\n\r\n" % (body[:5], body[5:]), b"404"),
        (post + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: y\r\n\r\n", b"422"),
        (post + b"Content-Length: 8\r\n\r\n{\r\n\r\n\r\n}", b"422"),
        (b"\r\nGET /nowhere HTTP/1.1\r\nHost: localhost\r\nX: y\r\n\r\n", b"404"),
        (b"GET /campaigns?limit=0 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", b"422"),
    ]
    sent = b"".join(text for text, _ in requests) * 3 + b"GET /health/live HTTP/1.0\r\n\r\n"
    with socket.create_connection((HOST, server.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(sent), size):
            connection.sendall(sent[start : start + size])
        answer = received(connection)
    statuses = re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", answer)
    assert statuses == [status for _, status in requests] * 3 + [b"200"]


# All at once


@contextmanager
def attack(server: Server, *, readers: int, pipelines: int, heads: int) -> Iterator[None]:
    """Have so many attackers at work, of a process of their own."""
    command = [sys.executable, "-m", "tests.trust.attackers", *map(str, (server.port, readers, pipelines, heads))]
    process = subprocess.Popen(
        command, cwd=ROOT, env=clean_environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.communicate("end\n", timeout=60)


def slept(seconds: float) -> tuple[float, float]:
    """When it began and when it ended."""
    started = time.monotonic()
    time.sleep(seconds)
    return started, started + seconds


def rate(others: Selecting, window: tuple[float, float]) -> float:
    """Answers a second."""
    return len(others.between(*window)) / (window[1] - window[0])


@pytest.mark.alone
def test_everything_at_once(make_server: MakeServer, sqlite_database: str, promise: Promise) -> None:
    """R21. Readers that stall, requests sent ahead and slow heads together: others go on, memory stays, and it ends."""
    share = length("ATTACKERS", 100) / 1_000
    seconds = length("ATTACK_SECONDS", 2)
    readers, pipelines, heads = (round(share * count) for count in (1_000, 100, 200))
    server = make_server(sqlite_database)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        campaign_id = create(client, multi_armed())
    with Selecting(server, campaign_id, clients=4) as others:
        time.sleep(1)
        with Watch(server):  # it asks, too
            before = slept(seconds)
        with Watch(server) as watch:
            with attack(server, readers=readers, pipelines=pipelines, heads=heads):
                arriving, afterwards = slept(seconds / 12), slept(seconds * 11 / 12)
            ended = time.monotonic()
            left = wait_until_at_most(server, 10, 60)
            recovery = time.monotonic() - ended
        with Watch(server):
            after = slept(seconds)
    alone = (rate(others, before) + rate(others, after)) / 2
    whole = rate(others, (arriving[0], afterwards[1])) / alone
    first, then = rate(others, arriving) / alone, rate(others, afterwards) / alone
    promise(
        "R21",
        f"{readers} stalled readers, {pipelines} x 4 MB of requests, {heads} slow heads: selects of others at "
        f"{whole:.2f} of their rate, {first:.2f} in the {arriving[1] - arriving[0]:.1f} s in which these arrive and "
        f"{then:.2f} afterwards, {others.failures} failures, {watch.figure('meanwhile')}, over after {recovery:.1f} s",
    )
    assert others.failures == watch.failures == 0
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert left <= 10
    if share == 1:
        assert whole > 0.8  # with their arrival
        assert watch.slowest_seconds < 1
        assert recovery < 5
