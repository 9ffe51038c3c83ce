"""What deletes old rows, and whoever reads or changes the same campaign meanwhile."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from prudent.clock import steady_clock
from prudent.errors import NotFoundError
from prudent.ledger import ledger
from prudent.ledger.commands import ChangeCampaign, Reward, Select
from prudent.ledger.maintenance import Scrubber
from prudent.ledger.verification import verify
from prudent.reporting.decision_log import FROM_THE_NEWEST, read_decisions
from tests.aging import DAY
from tests.ledger.compacted import KEPT, age, beginning, tidy
from tests.ledger.conftest import Worker
from tests.ledger.statements import before_each
from tests.ledger.test_amendments import play


def test_a_decision_goes_before_its_reward(make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that is told to keep less would show decisions that had a reward as if none had come."""
    monkeypatch.setattr("prudent.ledger.maintenance.PRUNE_ROWS", 2)
    worker = make_worker()
    worker.create("short", **KEPT)
    play(worker, "short", [1.0] * 6)
    worker.stop()
    age(worker, "short", 5)
    for left in (4, 2, 1):
        tidy(worker)
        with worker.read.connect() as connection:
            page = read_decisions(connection, "short", FROM_THE_NEWEST, 10, steady_clock())
        assert page is not None
        assert [one.state for one in page.decisions] == ["rewarded"] * left
    assert beginning(worker, "short") == 5


def test_who_decides_to_keep_more_keeps_it(make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions and rows that an operator has just saved would go in a round that had begun before."""
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 1_000.0)
    worker, other = make_worker(), make_worker()
    worker.stop()
    name, kept = "", []

    def stored() -> list[int]:
        with other.read.connect() as connection:
            counts = ("SELECT count(*) FROM decisions", "SELECT count(*) FROM observations")
            return [connection.execute(text(count)).scalar_one() for count in counts]

    def keep() -> None:
        other.administer(ChangeCampaign(name, retention_days=0, log_retention_days=0))
        kept.append(stored())

    for place in before_each(worker.read, keep):
        name = f"short-{place}"
        other.create(name, **KEPT)
        play(other, name, [1.0] * 3)
        age(other, name, 2)
        tidy(worker)
        if len(kept) == place:
            assert stored() == kept[-1], place
    assert kept[0] != kept[-1]


def test_rows_that_go_while_the_scrubber_is_among_them_are_no_damage(
    make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's page would warn of a damaged log until the next start, because the service has tidied up."""
    monkeypatch.setattr("prudent.ledger.maintenance.SCRUB_ROWS", 5)
    worker = make_worker()
    worker.create("short", **KEPT)
    play(worker, "short", [1.0] * 30)
    worker.stop()
    age(worker, "short", 20)
    damaged: dict[int, str] = {}
    scrubber = Scrubber(damaged)
    for step in range(9):
        if step == 2:
            tidy(worker)
            assert beginning(worker, "short") == 20
        with worker.read.connect() as connection:
            scrubber.step(connection)
    assert damaged == {}


def test_a_decision_that_has_gone_does_not_come_back(
    make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that remembers one would learn its reward once retention_days is raised, and verify miss it."""
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 1_000.0)
    worker, other = make_worker(), make_worker()
    worker.create("c", **KEPT)
    worker.one(Select("c", "late"))
    (remembered,) = worker.ledger._recent
    worker.ledger._recent.keep([remembered._replace(created_at=remembered.created_at - 6 * DAY)])
    with other.write.begin() as connection:
        connection.execute(text("UPDATE decisions SET created_at = created_at - :age"), {"age": 6 * DAY})
    other.ledger.stop()
    tidy(other)
    other = make_worker()
    other.administer(ChangeCampaign("c", retention_days=0, log_retention_days=0))
    (refused,) = worker.run(Reward("late", 1.0))
    assert isinstance(refused, NotFoundError)
    assert [one.faults for one in verify(worker.read)] == [[]]
