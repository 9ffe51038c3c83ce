"""Clients that mean harm or are broken: large bodies, slow ones, many connections. Others go on being served.

The figures of R20: ``python -m pytest tests/end_to_end/test_hostile_clients.py``.
"""

import gzip
import http.client
import json
import select as select_module
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from typing import Self

import httpx
import psutil
import pytest

from tests.api.contract import create, multi_armed, ok, problem, select, shared
from tests.conftest import MakeServer
from tests.promises import Promise
from tests.servers import HOST, Server

MIB = 2**20
GROWTH_BYTES_MAX = 20 * MIB
BATCH_BYTES = 7 * MIB // 2
"""A large batch, within the limit of 4 MiB."""
ANSWER_SECONDS_MAX = 1.0
TRICKLERS = 200
HEAD = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
QUICK = {"PRUDENT_HEAD_SECONDS_MAX": "1", "PRUDENT_BODY_SECONDS_MAX": "1"}


def filled(opening: bytes, unit: bytes, closing: bytes, size: int = BATCH_BYTES) -> bytes:
    """A body of about this size."""
    return opening + unit * ((size - len(opening) - len(closing)) // len(unit)) + closing


def unknown_fields(count: int) -> bytes:
    """Different fields that no schema has."""
    return b",".join(b'"k%07d":0' % number for number in range(count))


LARGE = {
    "unknown-fields-of-one-item": (lambda: b'{"items":[{%s}]}' % unknown_fields(MIB // 4), {413}),
    "unknown-fields-of-a-thousand": (
        lambda: b'{"items":[%s]}' % b",".join([b"{%s}" % unknown_fields(250)] * 999),
        {413},
    ),
    "unknown-fields-of-three-items": (
        lambda: b'{"items":[%s]}' % b",".join([b"{%s}" % unknown_fields(75_000)] * 3),
        {413},
    ),
    "few-unknown-fields-of-a-thousand": (
        lambda: b'{"items":[%s]}' % b",".join([b'{%s,"context":[%s0]}' % (unknown_fields(15), b"0," * 1_600)] * 999),
        {200},
    ),
    "small-objects": (lambda: filled(b'{"items":[', b'{"a":1},', b"{}]}"), {413}),
    "empty-lists": (lambda: filled(b'{"items":[', b"[],", b"{}]}"), {413}),
    "numbers-of-one-item": (lambda: filled(b'{"items":[{"campaign_id":"c","context":[', b"0,", b"0]}]}"), {413}),
    "no-envelope": (lambda: b"{%s}" % unknown_fields(MIB // 4), {413}),
    "brackets": (lambda: b'{"items":[' + b"[" * BATCH_BYTES, {413}),
    "one-string": (lambda: filled(b'{"items":["', b"x", b'"]}'), {413}),
}


class Watch:
    """Asks for /health/live all the time, and for the service's memory; remembers the worst."""

    def __init__(self, server: Server) -> None:
        assert server.process is not None
        self._process = psutil.Process(server.process.pid)
        self._client = httpx.Client(base_url=server.url, timeout=10, trust_env=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.slowest_seconds, self.growth_bytes, self.asked, self.failures = 0.0, 0, 0, 0

    def __enter__(self) -> Self:
        self._client.get("/health/live")
        self._before = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()
        assert self.asked > 0

    def _run(self) -> None:
        while True:
            started = time.perf_counter()
            try:
                self.failures += self._client.get("/health/live").status_code != httpx.codes.OK
            except httpx.HTTPError:
                self.failures += 1
            self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - started)
            self.growth_bytes = max(self.growth_bytes, self._process.memory_info().rss - self._before)
            self.asked += 1
            if self._stop.wait(0.005):
                return

    def figure(self, what: str) -> str:
        """What was seen meanwhile."""
        answers = f"/health/live {self.asked} times, at most {self.slowest_seconds:.3f} s, {self.failures} failures"
        return f"{what}: {answers}; memory +{self.growth_bytes / MIB:.1f} MiB"


def upload(server: Server, path: str, megabytes: int, *, declared: bool) -> int:
    """Send so many megabytes; the status."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=20)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader(*(("Content-Length", str(megabytes * MIB)) if declared else ("Transfer-Encoding", "chunked")))
    connection.endheaders()
    piece = b'"' + b"x" * (MIB - 1)
    with suppress(ConnectionError):  # refused and closed before all of it was sent
        for _ in range(megabytes):
            connection.send(piece if declared else b"%x\r\n%s\r\n" % (len(piece), piece))
    try:
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return 0  # the answer was lost in the reset
    finally:
        connection.close()


@pytest.fixture(scope="module")
def hardened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service of its own: what others do in between would show in the memory."""
    folder = tmp_path_factory.mktemp("hostile")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture
def api(hardened: Server) -> Iterator[httpx.Client]:
    """Its client."""
    with httpx.Client(base_url=hardened.url, timeout=30, trust_env=False) as opened:
        yield opened


def test_bodies_of_a_hundred_megabytes(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """R20. One large body would take the memory, and make every other client wait."""
    campaign_id = create(api, multi_armed())
    select(api, campaign_id)
    bomb = gzip.compress(bytes(MIB)) * 100
    deep = b"[" * 20_000 + b"]" * 20_000
    headers = {"Content-Type": "application/json"}
    with Watch(hardened) as watch:
        statuses = {upload(hardened, "/select", 100, declared=declared) for declared in (True, False)}
        packed = api.post("/select", content=bomb, headers=headers | {"Content-Encoding": "gzip"})
        nested = api.post("/select", content=deep, headers=headers)
    promise("R20", watch.figure("100 MB, gzip bomb, 20,000 deep"))
    assert statuses <= {413, 0}
    problem(packed, 415)
    problem(nested, 422, "body")
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


FILES = {
    "an endless line": lambda: [b"x" * MIB] * 100,
    "endless lines": lambda: [b"{}\n" * (MIB // 3)] * 100,
    "a header of unknown fields": lambda: [
        b'{"kind":"header","format":"prudent-campaign","version":1,' + unknown_fields(200_000) + b"}\n"
    ],
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_campaign(hardened: Server, api: httpx.Client, name: str, promise: Promise) -> None:
    """R20. An import reads on and on; it would fill the memory, or make every other client wait."""
    pieces = FILES[name]()
    ok(api.get("/health/live"))
    with Watch(hardened) as watch:
        reply = api.post("/import", content=iter(pieces), headers={"Content-Type": "application/x-ndjson"})
    promise("R20", watch.figure(f"a file, {name}"))
    problem(reply, 422, "line 1")
    assert watch.growth_bytes < GROWTH_BYTES_MAX
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


@pytest.mark.parametrize("name", LARGE)
def test_large_batches_that_fit_no_schema(hardened: Server, api: httpx.Client, name: str, promise: Promise) -> None:
    """R20. A batch within its limit in bytes would cost two seconds and half a gigabyte of error messages."""
    make, statuses = LARGE[name]
    body = make()
    ok(api.get("/health/live"))
    with Watch(hardened) as watch:
        for path in ("/select/batch", "/reward/batch", "/campaigns/none/observations"):
            reply = api.post(path, content=body, headers={"Content-Type": "application/json"})
            assert reply.status_code in statuses | ({422} if path.startswith("/campaigns") else set()), reply.text[:300]
            assert len(reply.content) < 4 * MIB
    promise("R20", watch.figure(f"{name}, {len(body) / MIB:.0f} MiB"))
    assert watch.growth_bytes < GROWTH_BYTES_MAX + 4 * MIB  # the body itself
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


def test_a_full_batch_does_not_stop_the_others(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """R20. While one client sends what it may, others would wait for seconds."""
    campaign_id = create(api, shared())
    arms = [{"arm_id": f"a{number}", "features": [0.5, 0.25]} for number in range(80)]
    body = json.dumps({"items": [{"campaign_id": campaign_id, "arms": arms}] * 1_000})
    assert 3 * MIB < len(body) < 4 * MIB
    with Watch(hardened) as watch:
        reply = api.post("/select/batch", content=body, headers={"Content-Type": "application/json"})
    promise("R20", watch.figure(f"a legitimate batch, {len(body) / MIB:.0f} MiB"))
    assert {item["status"] for item in ok(reply)["items"]} == {200}
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)


def test_unknown_fields_of_one_request(api: httpx.Client) -> None:
    """R20. A request of a megabyte would make a hundred thousand error messages."""
    body = b"{%s}" % unknown_fields(80_000)
    assert 65_536 < len(body) < MIB
    found = problem(api.post("/select", content=body, headers={"Content-Type": "application/json"}), 422, "body")
    assert "5000 fields" in found["errors"][0]["message"]


def test_hostile_clients_all_at_once(hardened: Server, api: httpx.Client, promise: Promise) -> None:
    """Shows 3. Two hundred slow connections and large bodies would keep everybody else out."""
    campaign_id = create(api, multi_armed())
    stop = threading.Event()

    def trickle() -> None:
        with ExitStack() as stack:
            opened: list[socket.socket] = []
            while not stop.wait(0.2):
                while len(opened) < TRICKLERS:
                    opened.append(stack.enter_context(socket.create_connection((HOST, hardened.port), timeout=5)))
                    opened[-1].sendall(b"GET /campaigns HTTP/1.1\r\nX-Slow: ")
                for one in opened:
                    with suppress(OSError):
                        one.sendall(b"x")

    def flood() -> None:
        while not stop.is_set():
            upload(hardened, "/select/batch", 100, declared=False)
            upload(hardened, "/select", 100, declared=True)

    threads = [threading.Thread(target=work) for work in (trickle, flood)]
    for thread in threads:
        thread.start()
    try:
        with Watch(hardened) as watch:
            served = 0
            until = time.monotonic() + 5
            while time.monotonic() < until:
                select(api, campaign_id)
                served += 1
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    promise("R20", watch.figure(f"{TRICKLERS} tricklers and 100 MB bodies, {served} selects in 5 s"))
    assert (watch.slowest_seconds < ANSWER_SECONDS_MAX, watch.failures) == (True, 0)
    assert served > 0
    assert "Traceback" not in hardened.log()


def received(connection: socket.socket, seconds: float = 15) -> bytes:
    """What comes until the server closes."""
    connection.settimeout(seconds)
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            found += piece
    return found


def trickle_until_closed(server: Server, beginning: bytes, piece: bytes) -> bytes:
    """Send a piece every tenth of a second until the server has enough; its answer."""
    with socket.create_connection((HOST, server.port), timeout=15) as connection:
        connection.sendall(beginning)
        deadline = time.monotonic() + 15
        connection.settimeout(0.1)
        found = b""
        while time.monotonic() < deadline:
            try:
                got = connection.recv(65_536)
                found += got
                if not got:
                    return found
            except TimeoutError:
                with suppress(BrokenPipeError):
                    connection.sendall(piece)
            except ConnectionError:
                return found
        raise AssertionError(f"still open after {found!r}")


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
