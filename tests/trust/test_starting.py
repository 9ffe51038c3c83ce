"""Start-up refuses what would not be safe, and a damaged snapshot costs time, not knowledge."""

import contextlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import numpy as np
import psycopg
import pytest
from sqlalchemy import text

from prudent.core.snapshot import pack, unpack
from prudent.ledger.commands import Describe, Observe, WarmStart
from prudent.ledger.verification import verify
from prudent.settings import Limits
from tests.commands import prudent
from tests.conftest import MakeServer, migrate_empty
from tests.ledger.conftest import Worker
from tests.servers import Postgres, Server
from tests.trust.load import create_campaigns

PAGE_BYTES = 4096


def refusal(database_url: str) -> str:
    """What `prudent serve` says when it refuses. Raises AssertionError if it serves, or shows a traceback."""
    done = prudent("serve", "--port", "0", "--database-url", database_url)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_an_unknown_schema_is_refused(database_url: str) -> None:
    """An older version would write rows that the newer schema gives another meaning."""
    migrate_empty(database_url)
    change = "UPDATE alembic_version SET version_num = '9999'"
    if database_url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as file, file:
            file.execute(change)
    else:
        with psycopg.connect(database_url) as connection:
            connection.execute(change)
    assert "9999" in refusal(database_url)


@pytest.fixture
def without_fsync(lone_postgres: Postgres) -> Iterator[None]:
    with psycopg.connect(lone_postgres.url(), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("SELECT pg_reload_conf()")
        try:
            yield
        finally:
            connection.execute("ALTER SYSTEM RESET fsync")
            connection.execute("SELECT pg_reload_conf()")


def test_a_database_that_does_not_sync_is_refused(lone_database: str, without_fsync: None) -> None:
    """A power cut would take back what was acknowledged."""
    migrate_empty(lone_database)
    assert "fsync=off" in refusal(lone_database)


def test_a_database_that_answers_before_it_syncs_is_refused(lone_database: str) -> None:
    """The same, by a setting that the role or the database may carry."""
    migrate_empty(lone_database)
    with psycopg.connect(lone_database, autocommit=True) as connection:
        name = lone_database.rpartition("/")[2]
        connection.execute(f"ALTER DATABASE {name} SET synchronous_commit = off".encode())
    assert "synchronous_commit=off" in refusal(lone_database)


def overwrite(path: Path, start: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(start)
        file.write(content)


def first_page_of(table: str, path: Path) -> int:
    """Where a table begins in the file, in bytes."""
    with contextlib.closing(sqlite3.connect(path)) as file:
        (page,) = file.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", [table]).fetchone()
    return (page - 1) * PAGE_BYTES


@pytest.fixture(scope="module")
def demo_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database that was served and closed."""
    directory = tmp_path_factory.mktemp("demo")
    server = Server(f"sqlite:///{directory}/prudent.db", directory / "server.log", arguments=["--demo"])
    server.start()
    assert server.stop() == 0
    return directory / "prudent.db"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"this is no database" * 1_000),
        lambda path: overwrite(path, 0, b"\0" * PAGE_BYTES),
        lambda path: path.write_bytes(path.read_bytes()[: -5 * PAGE_BYTES]),
        lambda path: overwrite(path, first_page_of("observations", path), b"\xff" * PAGE_BYTES),
    ],
    ids=["another file", "no first page", "truncated", "a page of the log"],
)
def test_a_damaged_file_is_refused(demo_file: Path, sqlite_database: str, damage: Callable[[Path], object]) -> None:
    """B37. It would serve what is left, and damage it further."""
    path = Path(sqlite_database.removeprefix("sqlite:///"))
    shutil.copy(demo_file, path)
    damage(path)
    said = refusal(sqlite_database)
    assert any(word in said for word in ("damaged", "not a database", "malformed")), said


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


def flip_checksum(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


@pytest.mark.parametrize(
    "damage",
    [flip, flip_checksum, lambda data: data[: len(data) // 2], lambda _: b"", lambda data: data + b"\0"],
    ids=["a bit of the state", "a bit of the checksum", "truncated", "empty", "longer"],
)
def test_a_corrupt_snapshot_is_folded_again_and_said(
    make_worker: Callable[..., Worker],
    capfd: pytest.CaptureFixture[str],
    damage: Callable[[bytes], bytes],
) -> None:
    """What was learned would change with a flipped bit, or nobody would know that a disk is failing."""
    limits = Limits(snapshot_observations=100)
    first = make_worker(limits)
    first.create("c")
    first.one(Observe("c", [WarmStart("a", float(i % 9)) for i in range(150)]))
    expected = first.one(Describe("c")).state_digest
    first.stop()
    with first.write.begin() as connection:
        state = connection.execute(text("SELECT state FROM snapshots")).scalar_one()
        connection.execute(text("UPDATE snapshots SET state = :state"), {"state": damage(state)})
    second = make_worker(limits)
    assert second.one(Describe("c")).state_digest == expected
    assert "snapshot is corrupt" in "".join(capfd.readouterr())
    second.stop()
    with second.read.connect() as connection:
        assert connection.execute(text("SELECT state FROM snapshots")).scalar_one() == state  # repaired as well


def test_a_snapshot_of_another_version_is_folded_again(
    make_worker: Callable[..., Worker], capfd: pytest.CaptureFixture[str]
) -> None:
    """After an upgrade that changes what an estimator keeps, the old arrays would be taken for new ones."""
    limits = Limits(snapshot_observations=100)
    first = make_worker(limits)
    first.create("c")
    first.one(Observe("c", [WarmStart("a", float(i % 9)) for i in range(150)]))
    expected = first.one(Describe("c")).state_digest
    first.stop()
    with first.write.begin() as connection:
        arrays = unpack(connection.execute(text("SELECT state FROM snapshots")).scalar_one())
        older = pack({name: 2 * array for name, array in arrays.items()})
        change = text("UPDATE snapshots SET state = :state, format_version = format_version - 1")
        connection.execute(change, {"state": older})
    (found,) = verify(first.read)
    assert (found.snapshot, found.faults) == ("not of this version: ignored", [])
    second = make_worker(limits)
    assert second.one(Describe("c")).state_digest == expected
    assert "corrupt" not in "".join(capfd.readouterr())
    second.stop()
    (found,) = verify(second.read)
    assert found.snapshot == "equal at 150", "written anew, in this version's format"


def test_readiness_refuses_a_schema_that_changed_under_it(make_server: MakeServer, database_url: str) -> None:
    """An older backup was restored under it: this worker must get no more requests."""
    server = make_server(database_url)
    create_campaigns(server.url)
    change = "UPDATE alembic_version SET version_num = '0001'"
    if database_url.startswith("sqlite"):
        with contextlib.closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as file, file:
            file.execute(change)
    else:
        with psycopg.connect(database_url) as connection:
            connection.execute(change)
    reply = httpx.get(f"{server.url}/health/ready", trust_env=False)
    assert (reply.status_code, "Traceback" in server.log()) == (503, False), reply.text


@pytest.mark.parametrize(("change", "verdict"), [(1e-13, "agrees to 1e-09 at 150"), (1e-6, "differs")])
def test_a_snapshot_of_another_processor_is_no_fault(
    make_worker: Callable[..., Worker], change: float, verdict: str
) -> None:
    """A backup that was restored on another kind of machine would look corrupt, or a corrupt one look sound."""
    first = make_worker(Limits(snapshot_observations=100))
    first.create("c")
    first.one(Observe("c", [WarmStart("a", i * 0.37 % 1) for i in range(150)]))
    first.stop()
    with first.write.begin() as connection:
        arrays = unpack(connection.execute(text("SELECT state FROM snapshots")).scalar_one())
        changed = {name: one * (1 + change) if one.dtype == np.float64 else one for name, one in arrays.items()}
        connection.execute(text("UPDATE snapshots SET state = :state"), {"state": pack(changed)})
    (found,) = verify(first.read)
    assert (found.snapshot, bool(found.faults)) == (verdict, verdict == "differs")
