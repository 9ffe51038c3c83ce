"""The steps of an import: invisible until the last one, in nobody's way, and gone if there is no last one."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import text

from prudent.errors import ConflictError, NotFoundError
from prudent.ledger.commands import Reward, Select
from prudent.ledger.importing import AbandonImport, BeginImport, FinishImport, ImportDecisions, ImportObservations
from prudent.ledger.maintenance import IMPORT_IDLE_SECONDS_MAX
from prudent.ledger.verification import verify
from prudent.store.tables import ArmRow, DecisionRow, LogRow
from tests.ledger.conftest import Worker, campaign
from tests.waiting import wait_for

REWARD = {"timeout_seconds": 60.0, "default": -1.0}


def begin(worker: Worker, campaign_id: str = "moved") -> int:
    configuration = campaign(campaign_id, reward=REWARD)
    arms = [ArmRow(0, position, arm, "active", None, 0) for position, arm in enumerate("ab")]
    record = worker.administer(BeginImport(campaign_id, configuration, configuration, "active", 1, None, arms))
    key: int = record.row.key
    return key


def observations(key: int, numbers: range) -> ImportObservations:
    rows = [
        LogRow(key, n, "observation", f"d{n}", None, "ab"[n % 2], b"", n / 3, "reward", 1.0, n * 1_000) for n in numbers
    ]
    return ImportObservations(key, 4, rows)


def decisions(key: int, numbers: range, due_at: int | None = None) -> ImportDecisions:
    rows = [
        DecisionRow(
            f"d{n}", key, "ab"[n % 2], b"", 0.5, 0.5, 1.0, "index", "a", None, 1.0, 0, None, None, n * 1_000, due_at
        )
        for n in numbers
    ]
    return ImportDecisions(key, 4, rows)


def finish(key: int, rows: int, campaign_id: str = "moved") -> FinishImport:
    return FinishImport(key, campaign_id, 5_000_000, rows, rows, {0: 1})


def count(worker: Worker, table: str) -> int:
    with worker.read.connect() as connection:
        return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())  # noqa: S608  # our own names


def test_nobody_sees_an_import_before_its_last_step(worker: Worker) -> None:
    """A reward could be learned by half a campaign."""
    key = begin(worker)
    worker.administer(observations(key, range(1, 4)))
    worker.administer(decisions(key, range(1, 4)))
    for command in (Select("moved"), Reward("d1", 1 / 3)):
        with pytest.raises(NotFoundError):
            worker.one(command)
    assert list(verify(worker.read)) == []
    record = worker.administer(finish(key, 3))
    assert (record.row.head, record.row.created_at, record.arms[0].plays) == (3, 5_000_000, 1)
    assert worker.one(Reward("d1", 1 / 3)).duplicate
    assert worker.one(Select("moved")).row.seen == 3
    assert [(one.campaign_id, one.faults) for one in verify(worker.read)] == [("moved", [])]


def test_a_deadline_that_passes_during_an_import_is_kept(worker: Worker) -> None:
    """The default reward would never be learned: the sweep would take the decision for one of a deleted campaign."""
    key = begin(worker)
    worker.administer(decisions(key, range(1, 2), due_at=1))
    time.sleep(2.5)  # more than two rounds of maintenance
    assert worker.administer(FinishImport(key, "moved", 5_000_000, 0, 1, {})).row.head == 0
    wait_for(lambda: count(worker, "observations WHERE source = 'default'") == 1)


def test_a_staged_id_is_free_for_everybody_else(worker: Worker) -> None:
    """Rewards of the others' decisions would wait for the end of the import, or be learned by what it brings."""
    worker.create("other")
    key = begin(worker)
    worker.administer(observations(key, range(1, 4)))
    decision, receipt = worker.run(Select("other", "d2"), Reward("d2", 0.25))
    assert (decision.campaign_id, receipt.campaign_id, receipt.duplicate) == ("other", "other", False)
    worker.administer(decisions(key, range(1, 4)))
    assert worker.one(Reward("d2", 0.25)).campaign_id == "other"
    assert worker.administer(finish(key, 3)).row.head == 3
    with pytest.raises(ConflictError, match="several campaigns"):
        worker.one(Reward("d2", 0.25))
    assert worker.one(Reward("d2", 2 / 3, campaign_id="moved")).duplicate
    assert not [fault for one in verify(worker.read) for fault in one.faults]


def test_of_two_imports_of_a_file_one_arrives(worker: Worker) -> None:
    """A retry beside a first try that still runs would end with two halves."""
    first, second = begin(worker), begin(worker)
    worker.administer(observations(first, range(1, 4)))
    worker.administer(observations(second, range(1, 4)))
    worker.administer(decisions(second, range(1, 4)))
    worker.administer(decisions(first, range(1, 4)))
    worker.administer(finish(second, 3))
    with pytest.raises(ConflictError, match="already"):
        worker.administer(finish(first, 3))
    with pytest.raises(ConflictError, match="already"):
        begin(worker)
    assert [(one.campaign_id, one.observations, one.faults) for one in verify(worker.read)] == [("moved", 3, [])]


def test_an_import_that_a_restore_has_cut_is_not_published(worker: Worker) -> None:
    """The campaign would appear with a hole in its log."""
    for table in ("observations", "decisions"):
        key = begin(worker)
        worker.administer(observations(key, range(1, 4)))
        worker.administer(decisions(key, range(1, 4)))
        with worker.write.begin() as connection:
            connection.execute(text(f"DELETE FROM {table} WHERE key = :key AND decision_id = 'd3'"), {"key": key})  # noqa: S608
        with pytest.raises(ConflictError, match="not there any more"):
            worker.administer(finish(key, 3))


def test_a_lost_import_is_given_up_and_its_rows_removed(make_worker: Callable[..., Worker]) -> None:
    """Each crash would leave rows for good; and who comes back too late would publish a purged campaign."""
    now = [time.time_ns() // 1_000]
    worker = make_worker(clock=lambda: now[0])
    key = begin(worker)
    worker.administer(observations(key, range(1, 4)))
    worker.administer(decisions(key, range(1, 4)))
    late = (IMPORT_IDLE_SECONDS_MAX + 60) * 1_000_000
    if worker.write.dialect.name == "sqlite":
        now[0] += late
    else:  # the database's own clock decides
        with worker.write.begin() as connection:
            connection.execute(text("UPDATE campaigns SET created_at = created_at - :late"), {"late": late})
    wait_for(lambda: count(worker, "campaigns") == 0)
    assert count(worker, "observations") == count(worker, "decisions") == count(worker, "heads") == 0
    with pytest.raises(ConflictError, match="abandoned"):
        worker.administer(finish(key, 3))


def test_an_import_in_steps_is_not_given_up(make_worker: Callable[..., Worker]) -> None:
    """A large file would never arrive."""
    worker = make_worker()
    key = begin(worker)
    worker.administer(observations(key, range(1, 4)))
    time.sleep(2.5)
    worker.administer(decisions(key, range(1, 4)))
    assert worker.administer(finish(key, 3)).row.head == 3
    worker.administer(AbandonImport(key))  # who lost the answer gives up what is complete
    assert worker.one(Select("moved")).row.seen == 3


@pytest.mark.parametrize("database_url", ["postgres"], indirect=True)
def test_the_planner_is_told_of_what_an_import_brings(worker: Worker) -> None:
    """For a minute each look-up would be planned for an empty table; and the import may not wait for it, or fail."""
    looked = text("SELECT min(last_analyze) FROM pg_stat_user_tables WHERE relname IN ('decisions', 'observations')")

    def is_analysed() -> bool:
        with worker.read.connect() as connection:
            return connection.execute(looked).scalar_one() is not None

    for name, is_locked in (("held", True), ("free", False)):
        key = begin(worker, name)
        worker.administer(observations(key, range(1, 4)))
        worker.administer(decisions(key, range(1, 4)))
        with worker.write.connect() as connection, connection.begin():
            if is_locked:  # as by an ANALYZE or a VACUUM of somebody else
                connection.execute(text("LOCK TABLE decisions, observations IN SHARE UPDATE EXCLUSIVE MODE"))
            assert worker.administer(finish(key, 3, name)).row.head == 3
            assert worker.one(Select(name)).row.seen == 3
        if not is_locked:
            wait_for(is_analysed)
