"""The processes of one server die one by one, under load: those that speak HTTP, and the one that has the ledger."""

import asyncio
import multiprocessing
import os
import random
import signal
import time
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Event

import httpx
import psutil
import pytest

from prudent.processes.supervision import LedgerNotStartedError, LedgerProcess, ledger_process
from tests.conftest import MakeServer, migrate_empty
from tests.promises import Promise, length
from tests.servers import Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again, working
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

DEATHS = length("DEATHS", 4)
SEED = 11


def processes_of(server: Server) -> tuple[psutil.Process, list[psutil.Process]]:
    """The one that has the ledger, and those that speak HTTP."""
    assert server.process is not None
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        ledgers, fronts = [], []
        for one in psutil.Process(server.process.pid).children():
            try:
                command, sockets = one.cmdline(), one.net_connections("unix")
            except psutil.Error:  # it is about to end
                continue
            if any(str(socket.laddr).endswith("/ledger") for socket in sockets):
                ledgers.append(one)
            elif not any("resource_tracker" in part for part in command):
                fronts.append(one)
        if len(ledgers) == 1 and len(fronts) == server.workers:
            return ledgers[0], fronts
        time.sleep(0.05)
    raise AssertionError(server.log())


def is_ready(server: Server) -> bool:
    """Whether the process that happens to answer is ready."""
    try:
        return httpx.get(f"{server.url}/health/ready", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def test_processes_that_die_lose_nothing(make_server: MakeServer, database_url: str, promise: Promise) -> None:
    """A worker that the system kills for its memory would take answers, or the ledger's rows, with it."""
    server, record = make_server(database_url, workers=2), Record()
    create_campaigns(server.url)
    draw = random.Random(SEED)  # noqa: S311  # of tests
    recoveries: list[float] = []

    async def run() -> None:
        clock = asyncio.get_running_loop().time
        async with working(Load(server.url, record)):
            for death in range(DEATHS):
                await asyncio.sleep(draw.uniform(0.1, 0.5))
                ledger, fronts = await asyncio.to_thread(processes_of, server)
                victim = ledger if death % 2 else draw.choice(fronts)
                victim.send_signal(signal.SIGKILL)
                killed = clock()
                while record.last_success < killed + 0.05 and clock() < killed + 30:
                    await asyncio.sleep(0.02)
                if death % 2:
                    recoveries.append(record.last_success - killed)

    asyncio.run(run())
    send_again(server.url, record)
    found = check(database_url, record)
    name = database_url.partition(":")[0]
    promise(
        "processes",
        f"{name}: {DEATHS} killed, {record.acknowledged:,} acknowledged: {found}, "
        f"statuses {sorted(record.statuses)}, longest recovery {max(recoveries):.1f} s",
    )
    assert found.none, found.faults
    assert not record.wrong_statuses
    assert not record.without_retry_after
    prudent_verify(database_url, server.url)


def test_the_ledger_drains_after_those_that_speak_http(make_server: MakeServer, sqlite_database: str) -> None:
    """A signal reaches the whole group, from a terminal or an init system: the ledger must not end first."""
    server, record = make_server(sqlite_database, workers=2), Record()
    create_campaigns(server.url)
    assert server.process is not None
    ledger, fronts = processes_of(server)

    async def run() -> None:
        task = asyncio.create_task(Load(server.url, record).run(1.5))
        await asyncio.sleep(0.7)
        for one in (ledger.pid, *(front.pid for front in fronts), server.process.pid):  # type: ignore[union-attr]  # asserted above
            os.kill(one, signal.SIGTERM)
        await task

    asyncio.run(run())
    assert server.process.wait(30) == 0
    _, alive = psutil.wait_procs([ledger, *fronts], timeout=10)
    assert not alive
    assert not record.wrong_statuses
    assert record.statuses[503] == 0, server.log()
    server.start()
    send_again(server.url, record)
    assert check(sqlite_database, record).none
    assert "is started again" not in server.log()


def test_the_ledgers_socket_is_for_its_user_only(make_server: MakeServer, sqlite_database: str, tmp_path: Path) -> None:
    """Whoever could write to it could run anything: messages are pickles."""
    server = make_server(sqlite_database, workers=2, environment={"TMPDIR": str(tmp_path)})
    (path,) = tmp_path.glob("prudent-*/ledger")
    assert path.is_socket()
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert server.stop() == 0
    assert not list(tmp_path.glob("prudent-*"))


def test_a_folder_with_a_long_name_is_no_obstacle(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path
) -> None:
    """The path of a socket may have a hundred bytes or so, and some systems' temporary folders have as many."""
    long = tmp_path / ("x" * 100)
    long.mkdir()
    server = make_server(sqlite_database, workers=2, environment={"TMPDIR": str(long)})
    processes_of(server)


def test_a_ledger_that_does_not_start_is_told_at_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A server that waits for ever for its ledger looks like one that starts slowly."""
    monkeypatch.setenv("PRUDENT_DATABASE_URL", "nonsense")
    with pytest.raises(LedgerNotStartedError, match="its log says why"), ledger_process(tmp_path):
        pass


def test_a_ledger_that_cannot_be_started_is_tried_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without room for one more process, for a moment, would leave the server without a ledger for ever."""
    url = f"sqlite:///{tmp_path}/prudent.db"
    migrate_empty(url)
    monkeypatch.setenv("PRUDENT_DATABASE_URL", url)
    launch, refused = LedgerProcess._launch, Event()

    def refuse_once(one: LedgerProcess) -> tuple[BaseProcess, Connection]:
        if not refused.is_set():
            refused.set()
            raise BlockingIOError("no process is left")
        return launch(one)

    with ledger_process(tmp_path):
        monkeypatch.setattr(LedgerProcess, "_launch", refuse_once)
        (ledger,) = (one for one in multiprocessing.active_children() if one.name == "ledger")
        ledger.kill()
        assert refused.wait(30)
        wait_for(lambda: [one for one in multiprocessing.active_children() if one.name == "ledger"])


def test_a_ledger_that_hangs_makes_the_server_unready(make_server: MakeServer, sqlite_database: str) -> None:
    """A proxy would go on to send requests that nobody answers."""
    server = make_server(sqlite_database, workers=2, environment={"PRUDENT_ANSWER_SECONDS_MAX": "2"})
    create_campaigns(server.url)
    ledger, _ = processes_of(server)
    ledger.suspend()
    try:
        reply = httpx.post(f"{server.url}/select", json={"campaign_id": "ridge"}, timeout=20, trust_env=False)
        assert (reply.status_code, reply.headers["retry-after"]) == (503, "1")
        assert "outcome was not known in time" in reply.json()["detail"]
        wait_for(lambda: not is_ready(server), "ready without a ledger")
    finally:
        ledger.resume()
    wait_for(lambda: is_ready(server), "not ready again")
    reply = httpx.post(f"{server.url}/select", json={"campaign_id": "ridge"}, timeout=20, trust_env=False)
    assert reply.status_code == 200
