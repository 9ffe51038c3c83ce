"""Retention: decisions go when they are old enough, and take nothing with them that was learned."""

from collections.abc import Callable

import pytest
from sqlalchemy import text

from prudent.errors import ConflictError, NotFoundError
from prudent.ledger import ledger, maintenance
from prudent.ledger.commands import Activate, ChangeCampaign, Correct, EraseDecisions, Reward, Select
from prudent.ledger.erasing import find_decisions_of
from prudent.ledger.verification import verify
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.waiting import wait_for

DAY = 86_400 * 1_000_000
WITH_DEADLINE = {"timeout_seconds": 86_400.0, "default": -1.0}


@pytest.fixture(autouse=True)
def _rounds_without_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 0.05)


def age(worker: Worker, days: int, *ids: str) -> None:
    """Have some decisions, all if none is named, been made so many days earlier."""
    statement = "UPDATE decisions SET created_at = created_at - :age"
    with worker.write.begin() as connection:
        if ids:
            named = [{"age": days * DAY, "id": decision_id} for decision_id in ids]
            connection.execute(text(f"{statement} WHERE decision_id = :id"), named)
        else:
            connection.execute(text(statement), {"age": days * DAY})


def kept(worker: Worker) -> list[str]:
    with worker.read.connect() as connection:
        return list(connection.execute(text("SELECT decision_id FROM decisions ORDER BY decision_id")).scalars())


def test_old_decisions_go_and_what_was_learned_stays(make_worker: Callable[..., Worker]) -> None:
    """A disk would fill for ever, or the campaign would forget with it."""
    worker = make_worker()
    worker.create("brief", retention_days=30)
    worker.create("whole")
    for name in ("brief", "whole"):
        worker.run(*(Select(name, decision_id=f"{name}-{n}") for n in range(4)))
        worker.run(*(Reward(f"{name}-{n}", float(n)) for n in range(2)))
    age(worker, 31, "brief-1", "brief-2", "whole-1", "whole-2")
    age(worker, 29, "brief-0")
    wait_for(lambda: kept(worker) == ["brief-0", "brief-3", "whole-0", "whole-1", "whole-2", "whole-3"])
    worker.stop()
    worker = make_worker()  # the first one remembers when its decisions were made
    # what has been learned is in the log
    assert worker.one(Reward("brief-1", 1.0, campaign_id="brief")).duplicate
    with pytest.raises(NotFoundError, match="no such decision"):
        worker.one(Reward("brief-2", 1.0))
    assert not worker.one(Reward("whole-2", 1.0)).duplicate
    assert worker.one(Reward("brief-3", 1.0)).sequence == 3
    assert [(one.observations, one.faults) for one in verify(worker.read)] == [(3, []), (3, [])]
    assert_live_equals_replay(worker)


def test_what_came_of_a_decision_that_has_gone_can_be_repeated_and_corrected(
    make_worker: Callable[..., Worker],
) -> None:
    """A client that sends a reward again would be told that it never was; a wrong one would stay for good."""
    worker = make_worker()
    worker.create("brief", retention_days=30)
    ours = worker.one(Select("brief")).row.decision_id
    worker.run(Select("brief", decision_id="theirs"))
    worker.run(Reward(ours, 1.0), Reward("theirs", 2.0))
    worker.stop()
    age(worker, 31)
    worker = make_worker()
    wait_for(lambda: kept(worker) == [])
    for again in (
        Reward(ours, 1.0),
        Reward(ours, 1.0, campaign_id="brief"),
        Reward("theirs", 2.0, campaign_id="brief"),
    ):
        assert worker.one(again).duplicate
    with pytest.raises(ConflictError, match="different reward"):
        worker.one(Reward(ours, 9.0))
    assert worker.administer(Correct(ours, 3.0, "typing error")).previous == 1.0
    assert worker.administer(Correct("theirs", None, "a test", campaign_id="brief")).previous == 2.0
    for nameless in (Correct("theirs", 3.0, "whose?"), Correct("never", 3.0, "whose?", campaign_id="brief")):
        with pytest.raises(NotFoundError, match="no such decision"):
            worker.administer(nameless)
    with pytest.raises(NotFoundError, match="no such decision"):
        worker.one(Reward("theirs", 2.0))
    assert_live_equals_replay(worker)
    assert [(one.observations, one.faults) for one in verify(worker.read)] == [(4, [])]


def test_a_decision_is_too_old_before_it_is_deleted(make_worker: Callable[..., Worker]) -> None:
    """Whether a late reward is learned would depend on when a worker comes to delete its decision."""
    worker = make_worker()
    worker.create("brief", retention_days=30, reward=WITH_DEADLINE)
    worker.create("later", retention_days=30)
    worker.run(*(Select(name, decision_id=one) for name, one in (("brief", "old"), ("brief", "new"), ("later", "x"))))
    worker.stop()
    age(worker, 31, "old", "x")
    worker = make_worker()
    for command in (Reward("old", 1.0), Activate("old")):
        with pytest.raises(NotFoundError, match="no such decision"):
            worker.one(command)
    assert worker.one(Reward("new", 1.0)).sequence == 1
    wait_for(lambda: kept(worker) == ["new", "old"])  # the old one stays until its default reward has been learned


def test_the_default_reward_is_learned_before_its_decision_goes(make_worker: Callable[..., Worker]) -> None:
    """A decision that nobody answered would be neither a success nor a failure."""
    worker = make_worker()
    worker.create("brief", retention_days=1, reward=WITH_DEADLINE)
    worker.run(Select("brief", decision_id="old"))
    worker.stop()
    with worker.write.begin() as connection:
        connection.execute(text("UPDATE decisions SET created_at = created_at - :age, due_at = 1"), {"age": 2 * DAY})
    worker = make_worker()
    wait_for(lambda: kept(worker) == [])
    assert [(one.observations, one.faults) for one in verify(worker.read)] == [(1, [])]


def test_many_campaigns_with_many_old_decisions(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first campaign, or the first thousand decisions, would be the only ones that are ever deleted."""
    monkeypatch.setattr(maintenance, "PRUNE_ROWS", 10)
    monkeypatch.setattr(maintenance, "PRUNE_CAMPAIGNS", 2)
    names = [f"c{n}" for n in range(5)]
    for name in names:
        worker.create(name)
        worker.run(*(Select(name, decision_id=f"{name}-{n}") for n in range(13)))
    age(worker, 8)
    for name in names[:1] + names[2:]:
        worker.administer(ChangeCampaign(name, retention_days=7))
    wait_for(lambda: len(kept(worker)) == 13)
    assert {decision_id.partition("-")[0] for decision_id in kept(worker)} == {"c1"}
    worker.administer(ChangeCampaign("c1", retention_days=7))
    wait_for(lambda: kept(worker) == [])
    worker.administer(ChangeCampaign("c0", retention_days=0))
    worker.run(Select("c0", decision_id="last"))
    age(worker, 8)
    worker.run(Select("c2", decision_id="sentinel"))
    age(worker, 8, "sentinel")
    wait_for(lambda: kept(worker) == ["last"])


def test_a_subject_is_erased_whose_decisions_have_gone(make_worker: Callable[..., Worker]) -> None:
    """What was learned of a person would stay for good, once the decisions no longer name them."""
    worker = make_worker()
    worker.create("brief", retention_days=30, assignment={"sticky_seconds": 86_400})
    for subject in ("ada", "ben"):
        worker.one(Select("brief", subject=subject))
        worker.one(Reward(None, 1.0, campaign_id="brief", subject=subject))
    worker.stop()
    age(worker, 31)
    worker = make_worker()
    wait_for(lambda: kept(worker) == [])
    ids = find_decisions_of(worker.read.connect, "brief", "ada")
    assert ids is not None
    receipt = worker.administer(EraseDecisions("brief", ids))
    assert (receipt.decisions, receipt.rows) == (0, 1)
    assert [(one.observations, one.faults) for one in verify(worker.read, deep=True)] == [(3, [])]
    assert find_decisions_of(worker.read.connect, "brief", "ada") == []
    again = worker.administer(EraseDecisions("brief", ids))
    assert (again.decisions, again.rows) == (0, 0)


def test_a_missing_decision_is_still_a_fault(make_worker: Callable[..., Worker]) -> None:
    """With retention, `verify` would no longer see that a restore or somebody's hand has lost decisions."""
    worker = make_worker()
    worker.create("brief", retention_days=30)
    worker.run(*(Select("brief", decision_id=f"d{n}") for n in range(3)))
    worker.run(*(Reward(f"d{n}", 1.0) for n in range(3)))
    age(worker, 31, "d0")
    wait_for(lambda: kept(worker) == ["d1", "d2"])
    with worker.write.begin() as connection:
        connection.execute(text("DELETE FROM decisions WHERE decision_id = 'd1'"))
    assert [one.faults for one in verify(worker.read)] == [["1 rewards name a decision that is not there"]]
