"""What is read in one transaction is of one instant, whatever another worker changes between its statements."""

import time
from collections.abc import Callable

import pytest
from sqlalchemy import Connection

from prudent.core.snapshot import FORMAT_VERSION
from prudent.dashboard.overview import read_overview
from prudent.ledger.commands import Correct, EraseDecisions, Reward, Select
from prudent.ledger.loading import load_behind
from prudent.ledger.verification import verify
from prudent.reporting.decision_log import FROM_THE_NEWEST, read_decisions
from prudent.store import log
from prudent.store.tables import SnapshotRow
from tests.ledger.conftest import Worker
from tests.ledger.statements import before_each
from tests.ledger.test_amendments import play

STICKY = {"sticky_seconds": 86_400}


def shown_in_log(connection: Connection, name: str) -> list[float | None]:
    page = read_decisions(connection, name, FROM_THE_NEWEST, 10, lambda: time.time_ns() // 1000)
    assert page is not None
    return [None if one.reward is None else one.reward.reward for one in page.decisions]


def shown_on_page(connection: Connection, name: str) -> list[float | None]:
    overview = read_overview(connection, name)
    assert overview is not None
    counted = [value for values in overview.rewards.values() for value in values.tolist()]
    assert overview.counts.rewards == len(counted) == overview.decisions == len(overview.plays)
    assert counted == [None if one.reward is None else one.reward.reward for one in overview.recent]
    return counted


@pytest.mark.parametrize("read", [shown_in_log, shown_on_page])
def test_a_typing_error_does_not_come_back(
    make_worker: Callable[..., Worker], read: Callable[[Connection, str], list[float | None]]
) -> None:
    """A page would show the 1,000 that was corrected to 1, since the correction is erased while it is read."""
    reader, writer = make_worker(), make_worker()
    reader.stop()
    writer.create("c", assignment=STICKY)
    made = ""

    def prepare() -> None:
        nonlocal made
        made = writer.one(Select("c", subject="ada")).row.decision_id
        writer.one(Reward(made, 1000.0))
        writer.administer(Correct(made, 1.0, "typing error"))

    def erase() -> None:
        writer.administer(EraseDecisions("c", [made]))

    seen = []
    for _ in before_each(reader.read, erase):
        prepare()
        with reader.read.connect() as connection:
            seen.append(read(connection, "c"))
        erase()
    gone = seen.count([])
    assert 0 < gone < 4
    assert seen == [[]] * gone + [[1.0]] * (len(seen) - gone)


def test_a_snapshot_that_is_written_while_a_log_is_verified_is_no_fault(make_worker: Callable[..., Worker]) -> None:
    """Operators would be called because a campaign has learned on: its snapshot seems to be beyond its log."""
    reader, writer = make_worker(), make_worker()
    reader.stop()
    writer.create("c")
    made = 0

    def learn_on() -> None:
        nonlocal made
        play(writer, "c", [1.0], first=made)
        made += 1
        state = load_behind(writer.read, 1, None)
        assert state is not None
        dumped = state.policy.dump()
        assert dumped is not None
        with writer.write.begin() as connection:
            row = SnapshotRow(1, state.sequence, FORMAT_VERSION, state.fold_digest(state.last), dumped)
            log.write_snapshot(connection, row)

    learn_on()
    for place in before_each(reader.read, learn_on):
        assert [one.faults for one in verify(reader.read, deep=True)] == [[]], place
