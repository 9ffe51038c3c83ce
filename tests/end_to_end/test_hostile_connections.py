"""Clients that are slow, say nothing, leave in the middle, or are very many: others go on being served."""

import json
import select as select_module
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress

import httpx
import psutil
import pytest

from tests.api.contract import create, multi_armed, ok, problem
from tests.conftest import MakeServer
from tests.end_to_end.hostile import HEAD, MIB, received, trickle_until_closed
from tests.servers import HOST, Server

QUICK = {"PRUDENT_HEAD_SECONDS_MAX": "1", "PRUDENT_BODY_SECONDS_MAX": "1"}


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that waits for a second only."""
    folder = tmp_path_factory.mktemp("quick")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log", environment=QUICK)
    server.start()
    yield server
    server.stop()


@pytest.mark.parametrize(
    ("beginning", "piece"),
    [
        (b"", b""),
        (b"G", b""),
        (b"", b"\r\n"),
        (b"GET /campaigns HTTP/1.1\r\n", b"X: y\r\n"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\nGET / HTTP/1.1\r\nX: ", b"y"),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b" "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"X: y\r\n"),
        (b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b" "),
        (HEAD.replace(b"/select", b"/nowhere") + b"Content-Length: 1000\r\n\r\n", b" "),
    ],
    ids=["silence", "method", "blank-lines", "headers", "second-request", "body", "chunks", "trailers", "get", "404"],
)
def test_slow_clients_are_closed(quick: Server, beginning: bytes, piece: bytes) -> None:
    """W09. A client that sends a byte now and then would keep its connection for good, and a thousand all of them."""
    answer = trickle_until_closed(quick, beginning, piece)
    answered_already = b"/health" in beginning or b"/nowhere" in beginning
    assert (b"HTTP/1.1 408 " in answer) == (not answered_already or b"X: " in beginning)
    with httpx.Client(base_url=quick.url, trust_env=False) as client:
        ok(client.get("/health/ready"))
    assert "Traceback" not in quick.log()


def test_a_head_that_comes_in_pieces_is_served(quick: Server) -> None:
    """A limit on slow heads must not close what is only slow between requests, or comes in two packets."""
    with socket.create_connection((HOST, quick.port), timeout=15) as connection:
        for number in range(4):
            for piece in (b"GET /health/li", b"ve HTTP/1.1\r\nHost: loc", b"alhost\r\n\r\n"):
                connection.sendall(piece)
                time.sleep(0.1)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 200 "), number
            time.sleep(1.2)  # longer than a head may take


@pytest.mark.parametrize(
    "request_",
    [
        b"GET /campaigns HTTP/1.1\r\nX-Long: " + b"x" * 200_000,
        b"GET /" + b"x" * 200_000,
        b"GET /campaigns HTTP/1.1\r\n" + b"X: y\r\n" * 40_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 40_000,
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n1;" + b"x" * 200_000,
    ],
    ids=["header", "path", "headers", "trailers", "chunk-extension"],
)
def test_endless_heads_are_refused(hardened: Server, request_: bytes) -> None:
    """R20. Headers would grow in memory without end: only bodies had a limit."""
    with socket.create_connection((HOST, hardened.port), timeout=15) as connection:
        with suppress(ConnectionError):
            connection.sendall(request_)
        answer = received(connection)
    assert answer.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 ")) or not answer
    assert b" 200 " not in answer.split(b"\r\n")[0]


def test_a_body_in_small_chunks_is_served(hardened: Server, api: httpx.Client) -> None:
    """Chunk sizes count like a head; an honest client with small chunks must not be taken for a hostile one."""
    campaign_id = create(api, multi_armed())
    body = json.dumps({"campaign_id": campaign_id}).encode() + b" " * 300_000

    def chunks() -> Iterator[bytes]:
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    ok(api.post("/select", content=chunks(), headers={"Content-Type": "application/json"}))


def test_full_house(make_server: MakeServer, sqlite_database: str) -> None:
    """Somebody who opens connections and says nothing would keep all others out."""
    server = make_server(sqlite_database, environment={"PRUDENT_CONNECTIONS_MAX": "30"})
    with ExitStack() as stack:
        for _ in range(100):
            stack.enter_context(socket.create_connection((HOST, server.port), timeout=5)).sendall(b"GET / ")
        for _ in range(5):
            with httpx.Client(base_url=server.url, timeout=5, trust_env=False) as client:
                ok(client.get("/health/live"))
        assert server.process is not None
        assert len(psutil.Process(server.process.pid).net_connections()) <= 40


def test_bodies_together_are_bounded(make_server: MakeServer, sqlite_database: str) -> None:
    """A hundred clients with four megabytes each would take the memory that one cannot."""
    server = make_server(sqlite_database, environment={"PRUDENT_BODIES_BYTES_MAX": str(3 * MIB)})
    head = HEAD.replace(b"/select", b"/select/batch") + b"Content-Length: 2097152\r\n\r\n"
    headers = {"Content-Type": "application/json"}
    with ExitStack() as stack, httpx.Client(base_url=server.url, timeout=15, trust_env=False) as client:
        statuses: list[int] = []
        while 503 not in statuses:
            assert len(statuses) < 200
            held = stack.enter_context(socket.create_connection((HOST, server.port), timeout=15))
            held.sendall(head + b" " * (2 * MIB - 10))
            # either of the two may be the one that comes too late
            while 503 not in statuses and not select_module.select([held], [], [], 0)[0]:
                reply = client.post("/select/batch", content=b" " * (2 * MIB), headers=headers)
                statuses.append(reply.status_code)
        assert set(statuses) <= {422, 503}
        problem(reply, 503)
        assert reply.headers["retry-after"] == "1"
        problem(client.post("/select", json={"campaign_id": "none"}), 404)  # small ones still fit
        held.sendall(b" " * 10)
        assert held.recv(65_536).startswith(b"HTTP/1.1 422 ")
        reply = client.post("/select/batch", content=b" " * (2 * MIB), headers=headers)
        problem(reply, 422)  # what was held is given back


def test_clients_that_leave_in_mid_body(make_server: MakeServer, database_url: str) -> None:
    """R7. Each would leave a traceback in the log, or its part of the memory."""
    server = make_server(database_url, environment={"PRUDENT_BODIES_BYTES_MAX": str(2 * MIB)})
    for path in (b"/select", b"/select/batch", b"/campaigns", b"/campaigns/none/observations"):
        for framing in (b"Content-Length: 1000000\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\nf4240\r\n"):
            for _ in range(3):
                with socket.create_connection((HOST, server.port), timeout=5) as connection:
                    connection.sendall(HEAD.replace(b"/select", path) + framing + b" " * 500_000)
    with httpx.Client(base_url=server.url, timeout=10, trust_env=False) as client:
        campaign_id = create(client, multi_armed())
        body = json.dumps({"items": [{"campaign_id": campaign_id}]}).encode() + b" " * (MIB + MIB // 2)
        deadline = time.monotonic() + 10
        while (
            client.post("/select/batch", content=body, headers={"Content-Type": "application/json"}).status_code == 503
        ):
            assert time.monotonic() < deadline
        ok(client.post("/select/batch", content=body, headers={"Content-Type": "application/json"}))
    assert "Traceback" not in server.log()
    assert "Exception" not in server.log()
