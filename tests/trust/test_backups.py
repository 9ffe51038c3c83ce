"""The drill of docs/operations.md: back up under load, restore elsewhere, verify, serve."""

import asyncio
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import MakeServer
from tests.promises import Promise
from tests.servers import ROOT, Postgres, Server
from tests.trust.invariants import check, prudent_verify
from tests.trust.load import Load, Record, create_campaigns, working

PAGE = (ROOT / "docs/operations.md").read_text(encoding="utf-8")


def printed(start: str) -> list[str]:
    """The words of the command on the page that starts like this."""
    (line,) = re.findall(rf"^({re.escape(start)} .*)$", PAGE, re.MULTILINE)
    return shlex.split(line)


def back_up_under_load(server: Server, back_up: Callable[[], None]) -> Record:
    """Clients work before, during and after the backup; what was acknowledged when it began."""
    record, before = Record(), Record()

    async def run() -> None:
        async with working(Load(server.url, record)):
            while record.acknowledged < 100:
                await asyncio.sleep(0.02)
            before.decisions, before.rewards = dict(record.decisions), dict(record.rewards)
            await asyncio.to_thread(back_up)

    create_campaigns(server.url)
    asyncio.run(run())
    assert record.acknowledged > before.acknowledged
    assert not record.wrong_statuses
    return before


def restore_and_serve(make_server: MakeServer, restored: str, before: Record, name: str, promise: Promise) -> None:
    prudent_verify(restored)
    found = check(restored, before)
    server, after = make_server(restored), Record(numbers=iter(range(10**6, 2 * 10**6)))  # type: ignore[arg-type]
    asyncio.run(Load(server.url, after).run(0.3))
    promise("backups", f"{name}: {before.acknowledged:,} acknowledged before the backup: {found}; restored and served")
    assert found.none, found.faults
    assert after.acknowledged
    assert set(after.statuses) == {200}
    prudent_verify(restored, server.url)


def test_sqlite_backup_while_serving(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path, promise: Promise
) -> None:
    """A copy of the file alone is torn; the command on the page must not be."""
    server = make_server(sqlite_database)
    copy = tmp_path / "backup.db"
    source = sqlite_database.removeprefix("sqlite:///")
    words = [
        {"data/prudent.db": source, "backup.db": str(copy), "python3": sys.executable}.get(w, w)
        for w in printed('python3 -c "import sqlite3,')
    ]
    before = back_up_under_load(server, lambda: subprocess.run(words, check=True, timeout=60) and None)
    server.kill()
    restore_and_serve(make_server, f"sqlite:///{copy}", before, "sqlite", promise)


def test_postgres_backup_while_serving(
    make_server: MakeServer, lone_postgres: Postgres, lone_database: str, promise: Promise
) -> None:
    """A dump that was never restored is no backup."""
    server = make_server(lone_database)
    folder = lone_postgres.directory / "backup"
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)
    restored = lone_postgres.create_database()

    def run(program: str, url: str) -> None:
        values = {"$PRUDENT_DATABASE_URL": url, "prudent.dump": f"{folder}/prudent.dump"}
        words = printed(program)[1:]
        for old, new in values.items():
            words = [word.replace(old, new) for word in words]
        lone_postgres.program(program, *words)

    before = back_up_under_load(server, lambda: run("pg_dump", lone_database))
    server.kill()
    run("pg_restore", restored)
    restore_and_serve(make_server, restored, before, "postgresql", promise)
    lone_postgres.drop_database(restored)


@pytest.mark.parametrize("heading", ["Restoring", "A drill"])
def test_the_page_says_how_to_restore(heading: str) -> None:
    """Nobody reads the tests when the disk is gone."""
    assert f"**{heading}.**" in PAGE
