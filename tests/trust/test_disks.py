"""R11: the disk fills up under load, and is cleared again. The service is never restarted."""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.machine import mount_small, unmount
from tests.promises import Promise
from tests.servers import Postgres, Server
from tests.trust.capped import PAGES_FILE, UNLIMITED
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, send_again
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

FULL_SECONDS_MAX = 60.0


def ready(server: Server) -> bool:
    return httpx.get(f"{server.url}/health/ready", timeout=10, trust_env=False).status_code == 200


def survive(server: Server, fill: Callable[[], None], clear: Callable[[], None], name: str, promise: Promise) -> None:
    """Load, a full disk, load until something is refused, a cleared disk, load."""
    record = Record()
    create_campaigns(server.url)
    asyncio.run(Load(server.url, record).run(0.3))
    fill()
    started = time.monotonic()
    # a small batch may still fit after a larger one was refused: then the worker is ready again, and rightly
    is_ready = True
    while (is_ready or not record.statuses[503]) and time.monotonic() < started + FULL_SECONDS_MAX:
        asyncio.run(Load(server.url, record).run(0.5))
        is_ready = ready(server)
    assert not is_ready, "a worker that cannot write says that it is ready"
    assert httpx.get(f"{server.url}/health/live", trust_env=False).status_code == 200
    refused = record.statuses[503]
    clear()
    wait_for(lambda: ready(server), "a worker that can write again says that it is not ready")
    send_again(server.url, record)
    asyncio.run(Load(server.url, record).run(0.3))
    send_again(server.url, record)
    found = check(server.database_url, record)
    promise(
        "R11",
        f"{name}: {record.acknowledged:,} acknowledged: {found}, {refused} refused, "
        f"other statuses {sum(record.wrong_statuses.values())}, recovered without a restart",
    )
    assert refused > 0
    assert not record.wrong_statuses
    assert record.without_retry_after == 0
    assert found.none, found.faults
    prudent_verify(server.database_url, server.url)


def test_an_sqlite_file_that_may_not_grow(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path, promise: Promise
) -> None:
    """R11. A full disk would answer 500, or need a restart after it was cleared."""
    pages = tmp_path / "pages"
    pages.write_text(str(UNLIMITED), encoding="ascii")
    server = make_server(
        sqlite_database,
        environment={PAGES_FILE: str(pages)},
        command=(sys.executable, "-m", "tests.trust.capped"),
    )
    survive(
        server,
        lambda: pages.write_text("1", encoding="ascii") and None,
        lambda: pages.write_text(str(UNLIMITED), encoding="ascii") and None,
        "sqlite, max_page_count",
        promise,
    )


def fill_up(ballast: Path) -> None:
    """Take all the room that there is."""
    with ballast.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), b"x" * 4096)


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    volume = tmp_path / "volume"
    volume.mkdir()
    try:
        mount_small(volume, 8 * 2**20)
    except OSError as error:
        pytest.skip(str(error))
    yield volume
    unmount(volume)


def test_an_sqlite_file_on_a_full_volume(make_server: MakeServer, small_volume: Path, promise: Promise) -> None:
    """R11. Here the commit itself fails, and the log that SQLite writes ahead."""
    server = make_server(f"sqlite:///{small_volume}/prudent.db")
    ballast = small_volume / "ballast"
    survive(server, lambda: fill_up(ballast), ballast.unlink, "sqlite, full volume", promise)
    server.kill()


@pytest.fixture
def small_postgres() -> Iterator[Postgres]:
    """A PostgreSQL whose data is on a file system of 128 MiB."""
    try:
        server = Postgres(data_bytes_max=128 * 2**20)
    except OSError as error:
        pytest.skip(str(error))
    try:
        server.start()
        yield server
    finally:
        server.remove()


def test_a_postgres_on_a_full_volume(make_server: MakeServer, small_postgres: Postgres, promise: Promise) -> None:
    """R11. PostgreSQL stops itself when it cannot write its log: an operator clears the disk and starts it again."""
    database_url = small_postgres.create_database()
    server = make_server(database_url)
    ballast = small_postgres.data / "ballast"

    def clear() -> None:
        ballast.unlink()
        if small_postgres.process is not None and small_postgres.process.poll() is not None:
            small_postgres.process = None
            small_postgres.start()

    survive(server, lambda: fill_up(ballast), clear, "postgresql, full volume", promise)
    server.kill()
