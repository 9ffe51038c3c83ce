"""The running digest of the log: what changes after it was appended is found, wherever the log goes.

At 142b6d5 every change here went unnoticed, but those of features and of a row that is gone.
"""

import time
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import httpx
import orjson
import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError

from prudent.ledger.commands import ChangeCampaign, Describe, Observe, Reward, Select, WarmStart
from prudent.ledger.maintenance import Scrubber
from prudent.ledger.verification import verify
from prudent.store import log
from prudent.transfer.exporting import begin_export
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.promises import Promise
from tests.transfer.campaigns import bring

CHANGES = {
    "a bit of a reward": "UPDATE observations SET reward = reward * (1 + 2.220446049250313e-16) WHERE sequence = 7",
    "an arm": "UPDATE observations SET arm_id = CASE arm_id WHEN 'a' THEN 'b' ELSE 'a' END WHERE sequence = 7",
    "a source": "UPDATE observations SET source = 'default' WHERE sequence = 7",
    "a propensity": "UPDATE observations SET propensity = 0.25 WHERE sequence = 7",
    "a time": "UPDATE observations SET observed_at = observed_at + 1 WHERE sequence = 7",
    "a decision id": "UPDATE observations SET decision_id = 'other' WHERE sequence = 7",
    "a digest": "UPDATE observations SET digest = (SELECT digest FROM observations WHERE sequence = 6) "
    "WHERE sequence = 7",
    "two rows exchanged": "UPDATE observations SET sequence = 1000 - sequence WHERE sequence IN (7, 8);"
    "UPDATE observations SET sequence = sequence - 985 WHERE sequence > 900",
}


def fill(worker: Worker, name: str = "c", pairs: int = 12) -> None:
    worker.create(name)
    for n in range(pairs):
        worker.run(Select(name, f"{name}{n}"))
        worker.run(Reward(f"{name}{n}", 0.1 + n / 7))


def faults_of(worker: Worker) -> dict[str, list[str]]:
    return {one.campaign_id: one.faults for one in verify(worker.read, deep=True)}


def change(worker: Worker, script: str) -> None:
    with worker.write.begin() as connection:
        for statement in script.split(";"):
            connection.execute(text(statement))


@pytest.mark.parametrize("name", CHANGES)
def test_a_row_that_changes_is_found(worker: Worker, name: str, promise: Promise) -> None:
    """A disk that returns another reward than it was given would teach it at the next start, and nobody would know."""
    fill(worker)
    assert faults_of(worker) == {"c": []}
    change(worker, CHANGES[name])
    (fault,) = [one for one in faults_of(worker)["c"] if "was changed" in one]
    promise("digest", f"{worker.write.dialect.name}, {name}: {fault}")


def test_a_row_written_anew_with_a_digest_of_its_own_is_found(worker: Worker) -> None:
    """A row of another history fits its own digest: only the next row, which continues from it, tells them apart."""
    fill(worker)
    with worker.write.begin() as connection:
        rows = log.read_rows(connection, 1, 0, 12, 12)
        row = rows[6]._replace(reward=0.5)
        values = {"digest": log.digest_of(rows[5].digest, row), "reward": row.reward, "sequence": row.sequence}
        connection.execute(
            text("UPDATE observations SET reward = :reward, digest = :digest WHERE sequence = :sequence"), values
        )
    assert faults_of(worker)["c"] == ["row 8 of the log or the row before it was changed after it was appended"]


def test_two_workers_continue_one_digest(make_worker: Callable[..., Worker]) -> None:
    """Each would continue from what it remembers, and every log of several workers would look damaged."""
    first, second = make_worker(), make_worker()
    fill(first)
    for n in range(12, 24):
        one, other = (first, second) if n % 2 else (second, first)
        one.run(Select("c", f"c{n}"))
        other.run(Reward(f"c{n}", 0.5), Select("c", f"pending{n}"))
    first.administer(ChangeCampaign("c", status="paused"))
    second.run(Reward("pending12", 0.25))
    first.run(Reward("pending13", 0.75))
    second.administer(ChangeCampaign("c", status="active"))
    first.run(Observe("c", [WarmStart("a", 0.5, propensity=0.5, observed_at=1), WarmStart("b", -0.0)]))
    assert faults_of(first) == {"c": []}


def test_rows_of_an_older_version_are_no_damage(worker: Worker) -> None:
    """During a rolling update the old workers append rows without a digest, before and after those that have one."""
    fill(worker)
    change(worker, "UPDATE observations SET digest = NULL WHERE sequence <= 4 OR sequence = 12")
    change(worker, "UPDATE observations SET digest = NULL WHERE sequence = 5")  # its digest covered the fourth row
    worker.run(Select("c", "new"))
    worker.run(Reward("new", 0.5))
    (found,) = verify(worker.read, deep=True)
    assert found.faults == ["row 6 of the log or the row before it was changed after it was appended"]
    change(worker, "UPDATE observations SET digest = NULL WHERE sequence BETWEEN 6 AND 11")
    (found,) = verify(worker.read, deep=True)
    assert (found.faults, found.digest) == ([], "unbroken, but 12 rows of an older version have none")


def test_the_scrubber_finds_it_and_says_so(worker: Worker, capfd: pytest.CaptureFixture[str], promise: Promise) -> None:
    """Nobody runs verify every day: what a disk forgets must come up by itself, and not stop the campaign."""
    for name in ("other", "c", "third"):
        fill(worker, name)
    change(worker, "UPDATE observations SET reward = 0.5 WHERE sequence = 7 AND decision_id LIKE 'c%'")
    started = time.monotonic()
    while not (warnings := worker.one(Describe("c")).warnings):
        assert time.monotonic() < started + 30
        time.sleep(0.1)
    seconds = time.monotonic() - started
    promise("digest", f"{worker.write.dialect.name}, scrubber: 36 rows, found after {seconds:.1f} s")
    assert warnings[0].startswith("The log is damaged: row 7 of the log")
    assert "a log is damaged" in "".join(capfd.readouterr())
    assert worker.one(Describe("other")).warnings == []
    assert worker.one(Select("c", "still")).row.decision_id == "still"


def test_the_scrubber_comes_round(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would read the first page of a log for ever, or take the start of a page for the start of a log."""
    monkeypatch.setattr("prudent.ledger.maintenance.SCRUB_ROWS", 5)
    for name in ("c", "other"):
        fill(worker, name)
    damaged: dict[int, str] = {}
    scrubber = Scrubber(damaged)
    reads = []
    monkeypatch.setattr(log, "read_rows", lambda *given, read=log.read_rows: reads.append(given[1:3]) or read(*given))
    with worker.read.connect() as connection:
        for _ in range(8):
            scrubber.step(connection)
    assert reads[:6] == [(1, 0), (1, 5), (1, 10), (2, 0), (2, 5), (2, 10)]
    assert reads[6:] == [(1, 0)]
    assert damaged == {}


def test_an_import_refuses_a_log_that_was_changed(make_server: MakeServer, database_url: str, worker: Worker) -> None:
    """The trailer's digest is made at the export, of whatever the disk returns by then."""
    fill(worker)
    with worker.read.connect() as connection:
        export = begin_export(connection, "c", lambda: 0)
        assert export is not None
        sound = b"".join(iter(lambda: export.next_page(connection) or b"", b""))
    worker.stop()
    lines = sound.splitlines(keepends=True)
    place = next(n for n, line in enumerate(lines) if b'"sequence":7' in line)
    lines[place] = orjson.dumps(orjson.loads(lines[place]) | {"reward": 0.5}) + b"\n"
    body = b"".join(lines[:-1])
    trailer = orjson.loads(lines[-1]) | {"digest": blake2b(body, digest_size=32).hexdigest()}
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        http.delete("/campaigns/c", params={"confirm": "c"}).raise_for_status()
        headers = {"Content-Type": "application/x-ndjson"}
        refused = http.post("/import", content=body + orjson.dumps(trailer) + b"\n", headers=headers)
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, f"line {place + 1}")
        assert "digest" in refused.json()["detail"]
        bring(http, sound)
        exported = http.get("/campaigns/c/export").content.splitlines()
    assert exported[1 : place + 1] == sound.splitlines()[1 : place + 1]


ROW = {"reward": 0.5, "propensity": 1.0, "sequence": 100, "features": b""}
BAD: list[dict[str, Any]] = [
    {"reward": float("nan")},
    {"reward": float("inf")},
    {"reward": -float("inf")},
    {"reward": 1.1e9},
    {"propensity": float("nan")},
    {"propensity": 0.0},
    {"propensity": 1.5},
    {"sequence": 0},
    {"features": b"1234567"},
]


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_the_database_refuses_a_row_that_cannot_be_learned(worker: Worker, bad: dict[str, Any]) -> None:
    """One NaN, written by whatever hand, would make every call of its campaign fail. At 142b6d5 it was taken."""
    fill(worker, pairs=1)
    insert = text(
        "INSERT INTO observations (key, sequence, kind, arm_id, features, reward, source, propensity, observed_at) "
        "VALUES (1, :sequence, 'observation', 'a', :features, :reward, 'warm-start', :propensity, 0)"
    )
    null_for_nan = worker.write.dialect.name == "sqlite" and bad.get("propensity") != bad.get("propensity")
    with worker.write.begin() as connection:
        if null_for_nan:  # SQLite stores NaN as NULL, which means that there is none
            connection.execute(insert, ROW | bad)
        else:
            with pytest.raises(IntegrityError):
                connection.execute(insert, ROW | bad)
        connection.rollback()


def test_the_digest_of_a_log_is_what_it_was() -> None:
    """Another way of computing it would make every stored log look damaged after an update."""
    row = log.LogRow(1, 7, "observation", "d", None, "a", bytes(8), -0.0, "reward", None, 5)
    assert log.digest_of(None, row).hex() == log.digest_of(b"", row._replace(key=2, reward=0.0)).hex()
    assert log.digest_of(None, row).hex() == "fcfb2eaeaf6dbe5b5cb3135cc1a79ad8"
