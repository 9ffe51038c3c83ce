"""A call that a user waits for ends by its deadline, and with a default never fails, whatever the server does."""

import asyncio
import contextvars
import gc
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import isnan
from typing import Any

import httpx
import pytest

from prudent_client import (
    Arm,
    AsyncClient,
    Client,
    Decision,
    NotFoundError,
    Retries,
    UnavailableError,
    UnreachableError,
)
from tests.client.conftest import Player
from tests.client.deadlines import DEADLINE_SECONDS
from tests.client.test_policy import BUSY, answer, decision
from tests.conftest import Promise
from tests.promises import length
from tests.scripted import Script
from tests.servers import HOST, ROOT, clean_environment, free_port

DEFAULTS = length("DEFAULTS", 4)
LATE_SECONDS_MAX = 0.1
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 200\r\n\r\n"
REFUSAL = b"HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n"
Behaviour = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]


async def say_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(3_600)


async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        writer.write(REFUSAL)


async def drip(writer: asyncio.StreamWriter, text: bytes) -> None:
    for place in range(len(text)):
        if writer.is_closing():
            return
        writer.write(text[place : place + 1])
        await asyncio.sleep(0.02)


async def drip_the_head(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await drip(writer, HEAD)


async def drip_the_body(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD)
    await drip(writer, b" " * 200)


@contextmanager
def serving(behave: Behaviour) -> Iterator[str]:
    """A server that behaves so on every connection; its URL."""
    loop, listening = asyncio.new_event_loop(), socket.create_server((HOST, 0), backlog=512)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await behave(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client has given up, or the test is over
        finally:
            writer.close()

    async def serve() -> None:
        async with await asyncio.start_server(handle, sock=listening):
            await over.wait()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    over = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    try:
        yield f"http://{HOST}:{listening.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


@contextmanager
def refusing_connections() -> Iterator[str]:
    yield f"http://{HOST}:{free_port()}"


SERVERS = {
    "silent": lambda: serving(say_nothing),
    "no connection": refusing_connections,
    "503": lambda: serving(refuse),
    "slow head": lambda: serving(drip_the_head),
    "slow body": lambda: serving(drip_the_body),
}


def test_an_attempt_that_is_given_up_ends() -> None:
    """A reply that comes byte by byte would keep its thread for as long as the server likes, one for each call."""
    closed = threading.Event()

    async def drip_until_closed(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(HEAD[:17] + b"x-slow: ")
        with suppress(ConnectionError):
            while True:
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.02)
        closed.set()

    with serving(drip_until_closed) as url, Client(url, deadline_seconds=0.25) as client:
        assert client.select("c", default="usual").reason == "default"
        assert closed.wait(10)


@pytest.mark.alone
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_default_comes_by_the_deadline(kind: str, server: str, promise: Promise) -> None:
    """A page would wait for a service that has stopped, for as long as its time-outs add up to."""
    with SERVERS[server]() as url:
        command = [sys.executable, "-m", "tests.client.deadlines", kind, url, str(DEFAULTS)]
        told = subprocess.run(command, cwd=ROOT, env=clean_environment(), check=True, capture_output=True, text=True)
    found = json.loads(told.stdout)
    late = found["late_seconds"]
    promise("late", f"{kind}, {server}: {found['made']:,} defaults, at most {late:+.3f} s after the deadline")
    assert (found["made"], found["decisions"]) == (DEFAULTS, [["usual", "default"]])
    if DEFAULTS >= 1_000:  # shorter runs share the machine with other tests
        assert late <= LATE_SECONDS_MAX


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_name_that_is_not_resolved_holds_nobody(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Looking up a name has no time-out at all, and a name server that is gone is a common fault."""
    is_over = threading.Event()

    def look_up(*_: Any, **__: Any) -> Any:
        is_over.wait()
        raise socket.gaierror

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    url = "http://prudent.invalid"
    if kind == "sync":
        with Client(url, deadline_seconds=DEADLINE_SECONDS) as client:
            made = client.select("c", default="usual")
            is_over.set()
    else:

        async def run() -> Decision:
            async with AsyncClient(url, deadline_seconds=DEADLINE_SECONDS) as client:
                found = await client.select("c", default="usual")
                is_over.set()
                return found

        made = asyncio.run(run())
    assert made.reason == "default"


def test_without_a_default_it_is_an_error(play: Player) -> None:
    """Whoever gives no default wants to know."""
    with serving(say_nothing) as url:
        for call in (
            lambda client: client.select("c"),
            lambda client: client.reward("d", 1),
            lambda client: client.reward_subject("c", "u", 1),
            lambda client: client.activate("d"),
            lambda client: client.get_decision("d"),
            lambda client: client.send_event("e", "u"),
            lambda client: client.health(),
        ):
            with pytest.raises(UnreachableError, match=f"no answer from {url} within 0.05 s"):
                play(url, call, deadline_seconds=0.05)


def test_what_comes_in_time_is_used(scripted: Script, play: Player) -> None:
    """A moment's trouble is not worth a default."""
    scripted.answers = [None, answer(decision())]
    made = play(scripted.url, lambda client: client.select("c", default="usual"), deadline_seconds=60.0)
    assert (made.arm_id, made.reason, made.error) == ("a", "index", None)
    assert len(play.waited) == 1


def test_a_pause_that_would_end_too_late_is_not_made(scripted: Script, play: Player) -> None:
    """Waiting for what cannot help any more."""
    scripted.answers = [BUSY]
    with pytest.raises(UnavailableError):
        play(scripted.url, lambda client: client.select("c"), deadline_seconds=1.5)
    assert play.waited == []
    assert len(scripted.requests) == 1


def test_other_calls_are_patient(scripted: Script, play: Player) -> None:
    """A program that creates its campaign while the service starts would have to be started again."""
    scripted.answers = [BUSY, BUSY, answer(decision())]
    play(scripted.url, lambda client: client.request("POST", "/campaigns", {}), deadline_seconds=0.5)
    assert play.waited == [2.0, 2.0]


def test_a_default_says_what_it_is(scripted: Script, play: Player, caplog: pytest.LogCaptureFixture) -> None:
    """It would be taken for a decision, or nobody would notice that there are no others."""
    scripted.answers = [answer({"title": "Not found", "detail": "there is no campaign c"}, 404)]
    made = play(scripted.url, lambda client: client.select("c", decision_id="d", default="usual"))
    assert (made.decision_id, made.arm_id, made.value, made.greedy_arm_id) == ("d", "usual", "usual", "usual")
    assert (made.propensity, made.exploring, made.observations) == (None, False, 0)
    assert isnan(made.estimate)
    assert made.error == "the service answered 404: Not found. there is no campaign c"
    assert caplog.messages == [f"campaign c: its default in place of a decision: {made.error}"]
    arm = Arm(arm_id="usual", value={"colour": "blue"}, status="active")
    made = play(scripted.url, lambda client: client.select("c", subject="u", default=arm))
    assert (made.arm_id, made.value) == ("usual", {"colour": "blue"})
    with pytest.raises(NotFoundError):
        play(scripted.url, lambda client: client.select("c"))
    with pytest.raises(TypeError):  # a mistake of the program, not of the service
        play(scripted.url, lambda client: client.select("c", context={"x": object()}, default="usual"))


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan"), float("inf"), 1e30])
def test_a_deadline_that_makes_no_sense_is_refused(seconds: float, play: Player) -> None:
    """Every call would return its default, or end in an OverflowError that no default stands for."""
    with pytest.raises(ValueError, match="deadline_seconds must be above 0"):
        play("http://127.0.0.1:1", lambda client: client.health(), deadline_seconds=seconds)


def test_an_attempt_runs_in_its_callers_context() -> None:
    """Tracing would lose the span that a request belongs to."""
    span: contextvars.ContextVar[str] = contextvars.ContextVar("span")
    seen: list[str] = []

    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            seen.append(span.get())
            return httpx.Response(200, json={"status": "ok"}, request=request)

    span.set("a span")
    with Client("http://127.0.0.1:1", transport=Transport()) as client:
        assert client.health().status == "ok"
    assert seen == ["a span"]


def test_a_transports_own_errors_are_raised() -> None:
    """What is raised in a thread is seen by nobody."""

    class Transport(httpx.BaseTransport):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise ZeroDivisionError(request.url.path)

    with (
        Client("http://127.0.0.1:1", transport=Transport(), retries=Retries(attempts=1)) as client,
        pytest.raises(ZeroDivisionError, match="/health/ready"),
    ):
        client.health()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a loop that ends leaves its connections open
def test_each_event_loop_has_connections_of_its_own(scripted: Script) -> None:
    """Every second `asyncio.run` would fail, with an error that no default stands for."""
    scripted.answers = [answer({"status": "ok"})]
    client = AsyncClient(scripted.url)
    for _ in range(3):
        assert asyncio.run(client.health()).status == "ok"
    del client
    gc.collect()


FORKED = """
import asyncio, os, sys
from prudent_client import AsyncClient, Client

def health():
    answer = client.health()
    return (answer if isinstance(client, Client) else asyncio.run(answer)).status

client = eval(sys.argv[1])
connection = health()
child = os.fork()
if child == 0:
    os._exit(health() == connection)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class SaysWhichConnection(BaseHTTPRequestHandler):
    """Answers every request with the port that its connection comes from."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        body = json.dumps({"status": str(self.client_address[1])}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize(
    "client", ["Client({url!r})", "Client({url!r}, deadline_seconds=None)", "AsyncClient({url!r})"]
)
def test_a_forked_process_has_connections_of_its_own(client: str) -> None:
    """Web servers that fork once they have loaded the application would give one visitor another's decision."""
    server = ThreadingHTTPServer((HOST, 0), SaysWhichConnection)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://{HOST}:{server.server_port}"
        command = [sys.executable, "-W", "ignore", "-c", FORKED, client.format(url=url)]
        subprocess.run(command, env=clean_environment(), timeout=60, check=True)
    finally:
        server.shutdown()
        server.server_close()
