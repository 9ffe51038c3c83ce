"""Bodies that are too large, or never end."""

import asyncio
import http.client
import json
import random
import re
import socket
import time
from collections.abc import Iterator
from typing import Any

import httpx
import psutil
import pytest
from starlette.requests import Request

from prudent.api.requests import RewardRequest
from prudent.api.server.bodies import Bodies
from prudent.settings import Limits
from tests.api.contract import create, model, multi_armed, ok, problem, select
from tests.servers import HOST, Server

MIB = 2**20
LIMITS = {
    "/campaigns": MIB,
    "/select": MIB,
    "/reward": MIB,
    "/campaigns/none/arms": MIB,
    "/select/batch": 4 * MIB,
    "/reward/batch": 4 * MIB,
    "/campaigns/none/observations": 4 * MIB,
}
GROWTH_BYTES_MAX = 20 * MIB
ANSWER_SECONDS_MAX = 1.0


def chunks(size: int, piece: bytes = b" " * 65_536) -> Iterator[bytes]:
    """So many bytes, sent without saying how many."""
    for _ in range(size // len(piece)):
        yield piece
    yield piece[: size % len(piece)]


@pytest.mark.parametrize("path", LIMITS)
def test_limit(client: httpx.Client, path: str) -> None:
    """W07. The documented limit would be another one, or a client be told nothing about it."""
    limit = LIMITS[path]
    headers = {"Content-Type": "application/json"}
    for body in (b" " * (limit + 1), chunks(limit + 1)):
        detail = problem(client.post(path, content=body, headers=headers), 413)["detail"]
        assert str(limit) in detail
    for body in (b" " * limit, chunks(limit)):
        problem(client.post(path, content=body, headers=headers), 422, "body")


def test_large_batch_is_accepted(client: httpx.Client) -> None:
    """A batch of the largest documented size would be refused."""
    campaign_id = create(client, multi_armed())
    item = json.dumps({"campaign_id": campaign_id, "eligible": ["a", "b"]})
    body = '{"items": [' + ", ".join([item] * 1_000) + "]" + " " * (3 * MIB) + "}"
    reply = client.post("/select/batch", content=body, headers={"Content-Type": "application/json"})
    assert {one["status"] for one in ok(reply)["items"]} == {200}


@pytest.mark.parametrize("declared", [True, False], ids=["length", "chunked"])
@pytest.mark.parametrize("path", ["/select", "/select/batch"])
def test_hundred_megabytes(client: httpx.Client, server: Server, path: str, declared: bool) -> None:
    """W07. One large body would take the memory, and make every other client wait."""
    assert server.process is not None
    process = psutil.Process(server.process.pid)
    client.get("/health/live")
    before = process.memory_info().rss
    connection = http.client.HTTPConnection(HOST, server.port, timeout=20)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    if declared:
        connection.putheader("Content-Length", str(100 * MIB))
    else:
        connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    piece = b'"' + b"x" * (MIB - 1)
    sent = 0
    try:
        for _ in range(100):
            connection.send(piece if declared else b"%x\r\n%s\r\n" % (len(piece), piece))
            sent += 1
            started = time.perf_counter()
            ok(client.get("/health/live"))
            assert time.perf_counter() - started < ANSWER_SECONDS_MAX
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused and closed before all of it was sent
    connection.close()
    assert sent < 100  # nobody reads what is refused
    assert process.memory_info().rss - before < GROWTH_BYTES_MAX + (4 * MIB if path.endswith("batch") else 0)
    ok(client.get("/health/ready"))


def answer(server: Server, request: bytes) -> bytes:
    """What the server says to these bytes, until it closes or falls silent."""
    with socket.create_connection((HOST, server.port), timeout=2) as connection:
        connection.sendall(request)
        received = b""
        try:
            while piece := connection.recv(65_536):
                received += piece
        except (TimeoutError, ConnectionResetError):
            pass
        return received


def test_refused_before_it_is_sent(server: Server) -> None:
    """W07. A client that announces a large body would be asked to send it first."""
    head = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    received = answer(server, head + b"Content-Length: 104857600\r\n\r\n")
    assert received.startswith(b"HTTP/1.1 413 ")
    assert b"application/problem+json" in received
    assert b"connection: close" in received.lower()


@pytest.mark.parametrize(
    "request_",
    [
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1e9\r\n\r\n",
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
        b"POST /select HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /campaigns HTTP/9.9\r\n\r\n",
        b"\x00\xff\x00\xff\r\n\r\n",
    ],
    ids=range(6),
)
def test_bytes_that_are_no_http(client: httpx.Client, server: Server, request_: bytes) -> None:
    """Line noise from a port scan would be a server error, or end the process."""
    received = answer(server, request_)
    assert b" 500 " not in received.split(b"\r\n")[0]
    assert b"Traceback" not in received
    ok(client.get("/health/ready"))


def test_client_that_leaves_in_mid_body(client: httpx.Client, server: Server) -> None:
    """A phone that loses its connection would leave half a request learned, or a traceback in the log."""
    campaign_id = create(client, multi_armed())
    decision = select(client, campaign_id)["decision_id"].encode()
    body = b'{"decision_id": "' + decision + b'", "reward": 1}'
    for cut in (0, 10, len(body) - 1):
        with socket.create_connection((HOST, server.port), timeout=2) as connection:
            head = b"POST /reward HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body[:cut])
    ok(client.get("/health/ready"))
    assert model(client, campaign_id)["head"] == 0
    assert "Traceback" not in server.log()


@pytest.mark.parametrize("pieces", [1, 3])
@pytest.mark.parametrize("kind", ["future", "late", "at once"])
def test_any_awaitable_of_a_server_is_awaited(kind: str, pieces: int) -> None:
    """On a server whose `receive()` is no plain coroutine the first piece of the body was lost."""
    text = b'{"decision_id": "one", "reward": 1}'
    size = -(-len(text) // pieces)
    parts = [text[start : start + size] for start in range(0, len(text), size)]

    async def read() -> RewardRequest:
        messages = [
            {"type": "http.request", "body": part, "more_body": number < len(parts)}
            for number, part in enumerate(parts, start=1)
        ]

        def future() -> asyncio.Future[Any]:
            told = asyncio.get_running_loop().create_future()
            told.set_result(messages.pop(0))
            return told

        async def coroutine() -> Any:
            if kind == "late":
                await asyncio.sleep(0.001)
            return messages.pop(0)

        scope = {"type": "http", "headers": [(b"content-type", b"application/json")]}
        request = Request(scope, future if kind == "future" else coroutine)  # type: ignore[arg-type]  # as it may be
        return await Bodies(Limits()).of(RewardRequest)(request)

    assert asyncio.run(read()).decision_id == "one"


@pytest.mark.parametrize("path", ["/select", "/select/batch"])
def test_what_is_said_to_fit_does(client: httpx.Client, path: str) -> None:
    """X28. Each limit of arms and features would be kept, and the body refused all the same, without a word why."""
    body = {"campaign_id": "wide", "risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 512}}
    ok(client.post("/campaigns", json=body), 201)
    draw = random.Random(28)  # noqa: S311  # a simulation

    def sent(arms: int) -> httpx.Response:
        listed = [{"arm_id": f"x{k}", "features": [draw.random() for _ in range(512)]} for k in range(arms)]
        item = {"campaign_id": "wide", "arms": listed}
        content = json.dumps({"items": [item]} if path.endswith("batch") else item, separators=(",", ":"))
        return client.post(path, content=content, headers={"Content-Type": "application/json"})

    detail = problem(sent(120), 413)["detail"]
    found = re.search(r"1048576 bytes, about 49932 numbers of all their digits: (\d+) arms with 512 features", detail)
    assert found is not None, detail
    reply = ok(sent(int(found[1])))
    assert path == "/select" or reply["items"][0]["status"] == 200
    assert client.delete("/campaigns/wide", params={"confirm": "wide"}).status_code == httpx.codes.NO_CONTENT
