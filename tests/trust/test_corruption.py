"""R17: pages of SQLite's file that are not what was written: refused, found, or without meaning; never learned."""

import asyncio
import random
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.exc import DatabaseError

from prudent.ledger.verification import verify
from prudent.preflight import NotServableError, prepare
from prudent.settings import Settings
from prudent.store.engines import create_read_engine, parse_database_url
from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.servers import Server
from tests.trust.load import Load, Record, create_campaigns
from tests.trust.test_disks import ready
from tests.trust.test_starting import PAGE_BYTES, overwrite
from tests.waiting import wait_for

SEED = 17
DAMAGES_MANY = 100


@pytest.fixture(scope="module")
def used_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that was used and closed."""
    folder = tmp_path_factory.mktemp("used")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start()
    create_campaigns(server.url)
    asyncio.run(Load(server.url, Record()).run(1.0))
    assert server.stop() == 0
    return folder / "prudent.db"


def log_of(path: Path) -> list[tuple[object, ...]]:
    """The whole log. Raises sqlite3.DatabaseError."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute("SELECT * FROM observations ORDER BY key, sequence").fetchall()


def damage(path: Path, draw: random.Random) -> None:
    """Change something on one page: a bit, a sector, a few bytes."""
    content = bytearray(path.read_bytes())
    place = draw.randrange(len(content))
    kind = draw.randrange(4)
    if kind == 0:
        content[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        start = place // 512 * 512
        content[start : start + 512] = bytes(512)
    elif kind == 2:
        other = draw.randrange(len(content) // PAGE_BYTES) * PAGE_BYTES
        start = place // PAGE_BYTES * PAGE_BYTES
        content[start : start + PAGE_BYTES] = content[other : other + PAGE_BYTES]
    else:
        size = min(draw.randrange(1, 64), len(content) - place)
        content[place : place + size] = draw.randbytes(size)
    path.write_bytes(content)


def what_is_said(path: Path) -> str:
    """Whether a start refuses the file, or verify finds it; "nothing" otherwise."""
    url = f"sqlite:///{path}"
    try:
        lock = prepare(Settings(database_url=url))
    except Exception as error:  # noqa: BLE001  # told apart below
        return "refused" if isinstance(error, NotServableError) else f"start: {type(error).__name__}"
    if lock is not None:
        lock.close()
    engine = create_read_engine(parse_database_url(url))
    try:
        return "found" if any(one.faults for one in verify(engine, deep=True)) else "nothing"
    except DatabaseError:
        return "found"
    finally:
        engine.dispose()


def test_a_damaged_page_is_never_learned_from(used_file: Path, tmp_path: Path, promise: Promise) -> None:
    """R17. A cable, a controller or a cosmic ray would change what was learned, and nobody would know."""
    count, draw = length("DAMAGES", 16), random.Random(SEED)  # noqa: S311  # a simulation
    expected = log_of(used_file)
    said: Counter[str] = Counter()
    unnoticed = []
    for number in range(count):
        path = tmp_path / f"{number}.db"
        shutil.copy(used_file, path)
        damage(path, draw)
        found = what_is_said(path)
        said[found] += 1
        if found == "nothing" and log_of(path) != expected:
            unnoticed.append(number)
        path.unlink()
    listed = ", ".join(f"{name} {times}" for name, times in said.most_common())
    promise("R17", f"seed {SEED}: {count} damaged files, {len(expected)} rows in the log: {listed}; of the last kind, "
            f"{len(unnoticed)} with another log")  # fmt: skip
    assert unnoticed == []
    assert set(said) <= {"refused", "found", "nothing"}
    assert said["found"]
    assert said["refused"] or count < DAMAGES_MANY  # of a few, none need lie where a start looks


def test_pages_that_break_under_a_running_server(
    make_server: MakeServer, sqlite_database: str, promise: Promise
) -> None:
    """R17. A disk that begins to fail must not look like a defect of ours, nor like a server that is ready."""
    server, record = make_server(sqlite_database), Record()
    create_campaigns(server.url)
    asyncio.run(Load(server.url, record).run(0.5))
    path = Path(sqlite_database.removeprefix("sqlite:///"))
    with closing(sqlite3.connect(path)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # another connection's change makes the server forget its cached pages
        other.execute("UPDATE campaigns SET revision = revision + 1")
        other.commit()
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    pages = path.stat().st_size // PAGE_BYTES
    overwrite(path, PAGE_BYTES, b"\xa5" * PAGE_BYTES * (pages - 1))
    late = Record()
    asyncio.run(Load(server.url, late).run(0.5))
    wait_for(lambda: not ready(server), "ready, though nothing can be recorded")
    promise("R17", f"{pages - 1} pages overwritten under a server: statuses {dict(late.statuses)}, unready")
    assert set(late.statuses) == {503}
    assert "malformed" in server.log()
