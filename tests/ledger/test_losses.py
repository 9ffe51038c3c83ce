"""What a worker tells an operator after the database has become another one: what it has lost, and nothing else."""

from collections.abc import Callable

import pytest
from sqlalchemy import text
from structlog.testing import capture_logs

from prudent.ledger import ledger
from prudent.ledger.commands import DeleteCampaign, EraseDecisions, Reward, Select
from prudent.ledger.loading import held, report_losses
from prudent.store import campaigns
from tests.aging import DAY
from tests.ledger.conftest import Worker
from tests.ledger.test_amendments import play


def losses(worker: Worker, days: int = 0) -> tuple[int, int]:
    """Rewards and decisions that a worker says are lost, so many days later. Ends the worker's ledger."""
    worker.ledger.stop()
    before = held(worker.ledger._states, worker.ledger._recent, worker.ledger._clock() + days * DAY)
    with capture_logs() as written:
        report_losses(worker.read, before)
    (line,) = [one for one in written if "rewards_lost" in one]
    assert line["log_level"] == ("error" if line["rewards_lost"] or line["decisions_lost"] else "info")
    return line["rewards_lost"], line["decisions_lost"]


@pytest.fixture
def pair(make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> tuple[Worker, Worker]:
    """Two workers that do no chores."""
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 1_000.0)
    return make_worker(), make_worker()


def test_what_was_erased_is_not_lost(pair: tuple[Worker, Worker]) -> None:
    """After the next restart of the database, operators would look for a reward that a person had erased."""
    worker, other = pair
    worker.create("c", assignment={"sticky_seconds": 86_400})
    made = worker.one(Select("c", subject="ada"))
    worker.one(Reward(made.row.decision_id, 1.0))
    other.administer(EraseDecisions("c", [made.row.decision_id]))
    assert losses(worker) == (0, 0)


@pytest.mark.parametrize("rows", [1, 1_000])
def test_what_was_deleted_is_not_lost(pair: tuple[Worker, Worker], rows: int) -> None:
    """The same of a campaign that somebody has deleted, purged already or not."""
    worker, other = pair
    worker.create("c")
    worker.create("later")
    play(worker, "c", [1.0, 2.0])
    play(worker, "later", [1.0])
    worker.run(Select("c", "waiting"))
    other.administer(DeleteCampaign("c"))
    with other.write.begin() as connection:
        while not campaigns.purge_slice(connection, 1, rows) and rows > 1:
            pass
    assert losses(worker) == (0, 0)


def test_what_is_too_old_is_not_lost(pair: tuple[Worker, Worker]) -> None:
    """The same of decisions without a reward that their campaign keeps no longer."""
    worker, other = pair
    worker.create("c", retention_days=5)
    worker.run(Select("c", "waiting"))
    with other.write.begin() as connection:
        connection.execute(text("DELETE FROM decisions"))
    assert losses(worker, days=6) == (0, 0)


def test_what_is_lost_is_told(pair: tuple[Worker, Worker]) -> None:
    """An operator would learn from customers that the database had lost its end."""
    worker, other = pair
    for name in ("c", "later"):
        worker.create(name, retention_days=5)
        play(worker, name, [1.0, 2.0])
        worker.run(Select(name, f"{name} waiting"))
    with other.write.begin() as connection:
        for table in ("decisions", "observations", "arms", "heads"):
            connection.execute(text(f"DELETE FROM {table} WHERE key = 2"))  # noqa: S608  # names of ours
        connection.execute(text("DELETE FROM campaigns WHERE key = 2"))
        connection.execute(text("DELETE FROM observations WHERE sequence = 2"))
        connection.execute(text("UPDATE heads SET head = 1"))
        connection.execute(text("DELETE FROM decisions WHERE decision_id = 'c waiting'"))
    assert losses(worker, days=4) == (3, 2)
