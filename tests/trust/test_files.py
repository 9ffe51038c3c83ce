"""SQLite's file under a running server: removed, replaced, cut off, linked. Nothing is acknowledged into nowhere.

At 142b6d5 a server went on for as long as it ran: 200 for every request, ready 200, and at its end all of it was gone.
"""

import asyncio
import itertools
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from prudent.clock import steady_clock
from prudent.errors import DatabaseUnavailableError
from prudent.ledger.commands import Reward, Select
from prudent.ledger.verification import verify
from prudent.settings import Limits
from tests.commands import migrate
from tests.conftest import MakeServer, migrate_empty
from tests.ledger.conftest import Worker
from tests.promises import Promise
from tests.trust.load import Load, Record, create_campaigns
from tests.trust.test_disks import ready
from tests.trust.test_starting import refusal
from tests.waiting import wait_for

Tamper = Callable[[Path], object]


def replace(path: Path) -> None:
    copy = path.with_suffix(".copy")
    shutil.copy(path, copy)
    copy.replace(path)


def beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def cut(path: Path, share: float) -> None:
    os.truncate(path, int(path.stat().st_size * share))


def empty_and_open(path: Path) -> None:
    """What somebody's sqlite3 opens next has no pages, so it removes the log."""
    cut(path, 0)
    with closing(sqlite3.connect(path)) as other:
        other.execute("SELECT 1 FROM sqlite_schema").fetchall()


def point_elsewhere(path: Path) -> None:
    """Of a database that is named by a symbolic link."""
    other = path.with_suffix(".other")
    shutil.copy(path, other)
    path.unlink()
    path.symlink_to(other)


FOR_GOOD: dict[str, tuple[Tamper, str]] = {
    "removed": (lambda path: path.unlink(), "was removed"),
    "replaced": (replace, "was replaced by another"),
    "moved away, with a new one in its place": (
        lambda path: (path.rename(path.with_suffix(".old")), sqlite3.connect(path).close(), path.touch()),
        "was replaced by another",
    ),
    "a symbolic link that points elsewhere": (point_elsewhere, "was replaced by another"),
    "emptied": (lambda path: cut(path, 0), "was truncated"),
    "emptied and opened": (empty_and_open, "the database file was truncated"),
    "cut in half": (lambda path: cut(path, 0.5), "was truncated"),
    "its log removed": (lambda path: beside(path, "-wal").unlink(), "'s -wal was removed"),
    "its log replaced": (lambda path: replace(beside(path, "-wal")), "'s -wal was replaced"),
    "its log emptied": (lambda path: cut(beside(path, "-wal"), 0), "log was truncated"),
    "its log cut in half": (lambda path: cut(beside(path, "-wal"), 0.5), "log was truncated"),
    "its index removed": (lambda path: beside(path, "-shm").unlink(), "'s -shm was removed"),
}
FOR_A_WHILE: dict[str, tuple[Tamper, Tamper, str]] = {
    "a second name": (
        lambda path: os.link(path, path.with_suffix(".link")),
        lambda path: path.with_suffix(".link").unlink(),
        "2 names",
    ),
    "moved away": (
        lambda path: path.rename(path.with_suffix(".away")),
        lambda path: path.with_suffix(".away").rename(path),
        "was removed",
    ),
    "its folder moved away": (
        lambda path: path.parent.rename(path.parent.with_name("away")),
        lambda path: path.parent.with_name("away").rename(path.parent),
        "was removed",
    ),
}


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Worker]:
    """A worker whose file and log have both grown; the file is named by a symbolic link."""
    path = tmp_path / "data" / "prudent.db"
    path.parent.mkdir()
    migrate_empty(f"sqlite:///{path}")
    path.rename(path.with_suffix(".first"))
    path.symlink_to(path.with_suffix(".first"))
    found = Worker(f"sqlite:///{path}", Limits(), steady_clock())
    found.ledger.start()
    found.create("c", algorithm={"name": "linucb", "warmup": 0})
    for part in range(2):
        for number in range(20):
            found.one(Select("c", f"{part}.{number}"))
            found.one(Reward(f"{part}.{number}", 0.5))
        if part == 0:
            with closing(sqlite3.connect(path)) as other:
                other.execute("PRAGMA wal_checkpoint(TRUNCATE)")  # what a backup may do, and no fault
    yield found
    found.stop()


def file_of(worker: Worker, *, link: bool = False) -> Path:
    """The database's own name or, without `link`, that of the file that it leads to."""
    path = Path(worker.write.url.database or "")
    return path if link else path.resolve()


def refuses(worker: Worker) -> list[str]:
    """What is answered from now on, and the reason that readiness gives."""
    outcomes = worker.run(Reward("0.0", 0.5)) + worker.run(Select("c", "late")) + worker.run(Select("c"))
    outcomes += worker.run(Reward("0.1", 0.5), Reward("late", 0.5))
    assert {type(one).__name__ for one in outcomes} == {"DatabaseUnavailableError"}
    with pytest.raises(DatabaseUnavailableError):
        worker.create("another")
    return [worker.ledger.fault or ""]


@pytest.mark.parametrize("name", FOR_GOOD)
def test_what_cannot_be_recorded_is_not_acknowledged(
    worker: Worker, name: str, capfd: pytest.CaptureFixture[str], promise: Promise
) -> None:
    """F7. Whoever cleans up a folder, or restores a backup under a server, would lose all answers from then on."""
    tamper, said = FOR_GOOD[name]
    tamper(file_of(worker, link="symbolic" in name))
    reasons = refuses(worker)
    wait_for(lambda: said in (worker.ledger.fault or ""), f"the reason is {worker.ledger.fault}")
    reasons += refuses(worker)
    promise("file", f"{name}: 80 acknowledged before, 0 of 12 after; {reasons[-1]}")
    assert said in "".join(capfd.readouterr())


@pytest.mark.parametrize("name", FOR_A_WHILE)
def test_what_is_put_right_is_served_again(
    worker: Worker, name: str, capfd: pytest.CaptureFixture[str], promise: Promise
) -> None:
    """F7. A backup by hard links, or a folder that is moved by mistake, must cost no more than the time it lasts."""
    tamper, put_right, said = FOR_A_WHILE[name]
    path = file_of(worker)
    tamper(path)
    (reason,) = refuses(worker)
    put_right(path)
    wait_for(lambda: worker.ledger.fault is None, "still refused, though all is as it was")
    again = worker.run(Select("c", "late"), Reward("late", 0.5), Reward("0.0", 0.5))
    promise("file", f"{name}: refused, {reason}; served again when put right, {len(again)} sent again")
    assert [type(one).__name__ for one in again] == ["Decision", "RewardReceipt", "RewardReceipt"]
    assert said in "".join(capfd.readouterr())
    assert [one.faults for one in verify(worker.read, deep=True)] == [[]]


def test_a_server_whose_file_is_removed_says_so(
    make_server: MakeServer, sqlite_database: str, promise: Promise
) -> None:
    """F7, through HTTP: 503, unready, alive, and a line in the log."""
    server, before = make_server(sqlite_database), Record()
    create_campaigns(server.url)
    asyncio.run(Load(server.url, before).run(0.5))
    Path(sqlite_database.removeprefix("sqlite:///")).unlink()
    wait_for(lambda: not ready(server), "ready, though nothing can be recorded")  # without a request
    late = Record(numbers=itertools.count(1_000_000))
    asyncio.run(Load(server.url, late).run(0.5))
    promise(
        "file",
        f"removed under a server: {before.acknowledged} acknowledged before, {late.acknowledged} after; "
        f"statuses {sorted(late.statuses)}, unready before the first request",
    )
    assert (late.acknowledged, set(late.statuses), late.without_retry_after) == (0, {503}, 0)
    assert httpx.get(f"{server.url}/health/live", trust_env=False).status_code == 200
    assert "the database file was removed" in server.log()


def test_two_servers_never_share_a_file(make_server: MakeServer, tmp_path: Path, promise: Promise) -> None:
    """F7. Two would each believe to be the only one, and one of them teach what the other has learned already."""
    path = tmp_path / "prudent.db"
    make_server(f"sqlite:///{path}")
    beside(path, ".lock").unlink()
    attempts = {"a removed lock file": path}
    for name, make in (("a symbolic link", Path.symlink_to), ("a hard link", Path.hardlink_to)):
        attempts[name] = tmp_path / name.replace(" ", "-")
        make(attempts[name], path)
    said = {name: refusal(f"sqlite:///{other}").replace("\n", " ") for name, other in attempts.items()}
    refusals = [name for name, text in said.items() if "another server is using" in " ".join(text.split())]
    promise("file", f"a second server by way of {', '.join(refusals)}: refused")
    assert refusals == list(attempts), said


def test_a_file_with_two_names_is_refused_at_the_start(tmp_path: Path) -> None:
    """Every write would be refused; and under the other name somebody may have left a log that is not this one's."""
    path = tmp_path / "prudent.db"
    migrate_empty(f"sqlite:///{path}")
    os.link(path, tmp_path / "other.db")
    assert "2 names (hard links)" in " ".join(refusal(f"sqlite:///{path}").split())


def test_a_commit_into_a_file_that_goes_meanwhile_is_not_acknowledged(worker: Worker) -> None:
    """The file goes between the first look and the commit; what is in memory must go, too."""
    worker.one(Select("c", "d1"))
    path = file_of(worker)
    away = path.with_suffix(".away")
    worker.on_statement.append(lambda _, text: away.exists() or ("INSERT" in text and path.rename(away)))
    (outcome,) = worker.run(Reward("d1", 0.5))
    assert type(outcome).__name__ == "DatabaseUnavailableError"
    worker.on_statement.clear()
    refuses(worker)
    away.rename(path)
    wait_for(lambda: worker.ledger.fault is None, "still refused, though all is as it was")
    assert worker.one(Reward("d1", 0.5)).duplicate  # it had been recorded after all


@pytest.mark.parametrize("command", ["serve", "migrate"])
def test_a_new_file_is_for_its_user_only(make_server: MakeServer, tmp_path: Path, command: str) -> None:
    """Another user of the machine would read every feature, and with a lock keep the service from starting."""
    path = tmp_path / "prudent.db"
    if command == "migrate":
        migrate(f"sqlite:///{path}")
    make_server(f"sqlite:///{path}", start=False).start()
    assert {name.stat().st_mode & 0o777 for name in (path, beside(path, "-wal"), beside(path, "-shm"))} == {0o600}
