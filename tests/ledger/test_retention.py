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


def after_two_subjects(make_worker: Callable[..., Worker]) -> Worker:
    """A worker of a campaign with a reward of ada and one of ben, whose decisions have been deleted."""
    worker = make_worker()
    worker.create("brief", retention_days=30, assignment={"sticky_seconds": 86_400})
    for subject in ("ada", "ben"):
        worker.one(Select("brief", subject=subject))
        worker.one(Reward(None, 1.0, campaign_id="brief", subject=subject))
    worker.stop()
    age(worker, 31)
    worker = make_worker()
    wait_for(lambda: kept(worker) == [])
    return worker


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


def test_a_decision_is_too_old_before_it_is_deleted(
    make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether a late reward is learned would depend on when a worker comes to delete its decision."""
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 60.0)
    worker = make_worker()
    worker.create("brief", retention_days=30)
    worker.run(*(Select("brief", decision_id=one) for one in ("old", "new")))
    worker.stop()
    age(worker, 31, "old")
    worker = make_worker()
    for command in (Reward("old", 1.0), Activate("old")):
        with pytest.raises(NotFoundError, match="no such decision"):
            worker.one(command)
    with pytest.raises(ConflictError, match="kept no longer"):
        worker.one(Select("brief", decision_id="old"))
    assert worker.one(Reward("new", 1.0)).sequence == 1
    assert kept(worker) == ["new", "old"]


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
    worker = after_two_subjects(make_worker)
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


def test_an_id_is_not_used_again(make_worker: Callable[..., Worker]) -> None:
    """The new decision would have the old reward, of another arm, and its own could never be recorded."""
    worker = make_worker()
    worker.create("brief", retention_days=30)
    worker.run(*(Select("brief", decision_id=one) for one in ("rewarded", "silent", "young")))
    worker.one(Reward("rewarded", 1.0))
    worker.stop()
    age(worker, 31, "rewarded", "silent")
    worker = make_worker()
    wait_for(lambda: kept(worker) == ["young"])
    with pytest.raises(ConflictError, match="kept no longer") as refused:
        worker.one(Select("brief", decision_id="rewarded"))
    assert refused.value.field == "decision_id"
    worker.run(Select("brief", decision_id="young"), Select("brief", decision_id="silent"))
    assert not worker.one(Reward("silent", 2.0)).duplicate  # nothing is left of the first one of this id
    assert [(one.observations, one.faults) for one in verify(worker.read)] == [(2, [])]


def test_a_deadline_is_kept_longer_than_a_decision(make_worker: Callable[..., Worker]) -> None:
    """A decision that was shown late would learn its default, whatever came of it before its deadline."""
    worker = make_worker()
    worker.create("brief", retention_days=30, reward={"timeout_seconds": 29 * 86_400.0, "default": -5.0})
    worker.run(*(Select("brief", decision_id=one, is_deferred=True) for one in ("shown", "never-shown")))
    worker.stop()
    age(worker, 25)
    worker = make_worker()
    worker.one(Activate("shown"))
    worker.stop()
    age(worker, 6)
    worker = make_worker()
    wait_for(lambda: kept(worker) == ["shown"])
    assert not worker.one(Reward("shown", 7.0)).duplicate
    wait_for(lambda: kept(worker) == [])
    assert worker.one(Reward("shown", 7.0, campaign_id="brief")).duplicate


def test_an_erasure_does_not_warm_up_again(make_worker: Callable[..., Worker]) -> None:
    """One request to be forgotten would have everybody else get an arm that nobody wants."""
    worker = make_worker()
    settings = {"assignment": {"sticky_seconds": 86_400}, "algorithm": {"name": "linucb", "warmup": 3}}
    worker.create("brief", retention_days=30, **settings)
    for number in range(10):
        worker.one(Select("brief", subject=f"u{number}", eligible=frozenset("ab"[number % 2])))
        worker.one(Reward(None, 1.0, campaign_id="brief", subject=f"u{number}"))
    worker.stop()
    age(worker, 31)
    worker = make_worker()
    wait_for(lambda: kept(worker) == [])
    worker.one(Select("brief", subject="new", eligible=frozenset("a")))
    ids = find_decisions_of(worker.read.connect, "brief", "new")
    assert worker.administer(EraseDecisions("brief", ids)).decisions == 1
    assert worker.one(Select("brief")).row.reason != "warmup"


def test_what_is_erased_after_it_was_deleted_hides_no_loss(make_worker: Callable[..., Worker]) -> None:
    """`verify` would be content with as many lost decisions as subjects that were erased."""
    worker = after_two_subjects(make_worker)
    worker.run(Select("brief", decision_id="lost"))
    worker.one(Reward("lost", 1.0))
    worker.administer(EraseDecisions("brief", find_decisions_of(worker.read.connect, "brief", "ada")))
    assert [one.faults for one in verify(worker.read)] == [[]]
    with worker.write.begin() as connection:
        connection.execute(text("DELETE FROM decisions WHERE decision_id = 'lost'"))
    assert [one.faults for one in verify(worker.read)] == [["1 rewards name a decision that is not there"]]
