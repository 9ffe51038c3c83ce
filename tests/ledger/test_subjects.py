"""Decisions for subjects: windows, workers that come at the same time, and the key of the digests."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import func, select, update

from prudent.errors import ConflictError, NotFoundError
from prudent.ledger.commands import Reward, Select
from prudent.ledger.outcomes import Decision
from prudent.store.tables import campaigns, decisions
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.ledger.test_ledger import raise_once

DAY_US = 86_400 * 1_000_000
STICKY = {"sticky_seconds": 86_400}


def made(worker: Worker) -> int:
    with worker.read.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(decisions)).scalar_one())


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)  # PostgreSQL's clock cannot be set
def test_a_decision_stands_until_its_window_ends(make_worker: Callable[..., Worker]) -> None:
    """A window that ends early or late, or at another time for each worker, would show a user two arms at once."""
    now = [20_000 * DAY_US]
    first, second = make_worker(clock=lambda: now[0]), make_worker(clock=lambda: now[0])
    first.create("c", assignment=STICKY)
    begun = first.one(Select("c", subject="u"))
    now[0] += DAY_US - 1
    assert second.one(Select("c", subject="u")).row == begun.row
    now[0] += 1
    assert second.one(Reward(None, 1.0, campaign_id="c", subject="u")).decision_id == begun.row.decision_id
    following = first.one(Select("c", subject="u"))
    assert following.row.decision_id > begun.row.decision_id  # the index grows at one end
    assert (following.is_repeated, following.is_available) == (False, True)
    assert second.one(Reward(None, 2.0, campaign_id="c", subject="u")).decision_id == following.row.decision_id
    now[0] += 2 * DAY_US
    with pytest.raises(NotFoundError):
        first.one(Reward(None, 1.0, campaign_id="c", subject="u"))
    assert made(first) == 2
    assert_live_equals_replay(first)


def test_workers_that_come_at_the_same_time_decide_once(make_worker: Callable[..., Worker]) -> None:
    """Two requests of one page would be answered with two arms."""
    workers = [make_worker() for _ in range(3)]
    workers[0].create("c", assignment=STICKY)
    answers: list[Decision] = []

    def ask(worker: Worker) -> None:
        for number in range(20):
            answers.extend(worker.run(*[Select("c", subject=f"u{number}")] * 2))

    threads = [threading.Thread(target=ask, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(isinstance(one, Decision) for one in answers), answers
    assert len({one.row for one in answers}) == made(workers[0]) == 20
    assert sum(one.is_repeated is False for one in answers) == 20


def test_a_select_and_the_reward_of_its_subject_may_share_a_batch(worker: Worker) -> None:
    """A client that sends one after the other over two connections must not depend on how they are put together."""
    worker.create("c", assignment=STICKY)
    decision, receipt = worker.run(Select("c", subject="u"), Reward(None, 1.0, campaign_id="c", subject="u"))
    assert receipt.decision_id == decision.row.decision_id
    assert_live_equals_replay(worker)


def test_an_id_that_is_taken_elsewhere_is_left_alone(worker: Worker) -> None:
    """Whoever knows an id could have the decision of another campaign replaced, or its subject served with theirs."""
    worker.create("c", assignment=STICKY)
    worker.create("other")
    decision_id = worker.one(Select("c", subject="u")).row.decision_id
    with worker.write.begin() as connection:
        key = connection.execute(select(campaigns.c.key).where(campaigns.c.campaign_id == "other")).scalar_one()
        connection.execute(update(decisions).where(decisions.c.decision_id == decision_id).values(key=key))
    again = worker.one(Select("c", subject="u"))
    assert (again.row.decision_id, again.is_repeated) == (decision_id, False)
    assert isinstance(worker.run(Reward(decision_id, 1.0))[0], ConflictError)
    assert worker.one(Reward(None, 1.0, campaign_id="c", subject="u")).campaign_id == "c"
    assert worker.one(Reward(decision_id, 0.5, campaign_id="other")).campaign_id == "other"


def test_a_key_that_was_rolled_back_is_not_used(worker: Worker) -> None:
    """Decisions under a key that no database has could never be found again."""
    worker.create("c", assignment=STICKY)
    raised = raise_once(worker, "INSERT INTO decisions")
    begun = worker.one(Select("c", subject="u"))
    assert len(raised) == 1
    assert worker.one(Select("c", subject="u")).row == begun.row
    assert made(worker) == 1
