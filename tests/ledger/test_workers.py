"""Several workers on one database: none lends its memory to another, and nothing is done twice."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prudent.errors import (
    NotFoundError,
)
from prudent.ledger import basis
from prudent.ledger.commands import ChangeArm, DeleteCampaign, Describe, Reward, Select
from prudent.ledger.outcomes import Decision, RewardReceipt
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay, faults


def test_a_recreated_campaign_starts_anew_on_every_worker(make_worker: Callable[..., Worker]) -> None:
    """Another worker's memory of the deleted campaign must not reach the new one's log."""
    first, second = make_worker(), make_worker()
    first.create("c")
    for worker in (first, second):
        worker.run(Select("c", f"d{id(worker)}"), Reward(f"d{id(worker)}", 9.0))
    first.administer(DeleteCampaign("c"))
    with pytest.raises(NotFoundError):
        second.one(Select("c"))
    with pytest.raises(NotFoundError):
        second.one(Reward(f"d{id(second)}", 9.0))
    first.create("c", risk={"measure": "expectile", "level": 0.1}, algorithm={"name": "linucb-cr"})
    # the same ids again, before the old rows are purged
    for worker in (second, first):
        decision, receipt = worker.run(Select("c", f"d{id(worker)}"), Reward(f"d{id(worker)}", 1.0))
        assert isinstance(decision, Decision), decision
        assert isinstance(receipt, RewardReceipt), receipt
    assert receipt.sequence == 2
    assert not faults(first)


def test_a_large_campaign_is_loaded_once(make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """On PostgreSQL what the loader brought counted as of another database, and was loaded again for ever."""
    monkeypatch.setattr(basis, "LARGE_BYTES", 0)
    first, second = make_worker(), make_worker()
    first.create("c")
    for number, worker in enumerate((first, second, first)):
        assert isinstance(worker.one(Select("c", f"d{number}")), Decision)
        assert worker.one(Reward(f"d{number}", 1.0)).sequence == number + 1


def test_many_campaigns_recreated_at_once_are_all_found(make_worker: Callable[..., Worker]) -> None:
    """One batch may meet more stale names than it may be run again."""
    first, second = make_worker(), make_worker()
    names = [f"c{number}" for number in range(10)]
    for generation in range(2):
        for name in names:
            first.create(name)
        for worker in (first, second):
            outcomes = worker.run(*(Select(name, f"{name}.{id(worker)}") for name in names))
            assert [type(one) for one in outcomes] == [Decision] * 10
        for name in names if generation == 0 else ():
            first.administer(DeleteCampaign(name))


def test_a_retired_arm_on_one_worker_is_retired_on_the_other(make_worker: Callable[..., Worker]) -> None:
    """A change must hold at the next request, on every worker (W41)."""
    first, second = make_worker(), make_worker()
    first.create("c", algorithm={"name": "linucb", "warmup": 0})
    assert isinstance(second.one(Select("c")), Decision)
    first.administer(ChangeArm("c", "a", "retired"))
    assert {second.one(Select("c", f"d{i}")).row.arm_id for i in range(8)} == {"b"}


def test_two_workers_warm_up_together(make_worker: Callable[..., Worker]) -> None:
    """Plays must be counted over all workers, or the warm-up would repeat on each."""
    first, second = make_worker(), make_worker()
    first.create("c", algorithm={"name": "linucb", "warmup": 3})
    reasons = []
    for number in range(8):
        decision = (first, second)[number % 2].one(Select("c", f"d{number}"))
        reasons.append(decision.row.reason)
    assert reasons == ["warmup"] * 6 + ["index"] * 2


def test_the_same_id_on_two_workers_at_once_is_one_decision(make_worker: Callable[..., Worker]) -> None:
    """Losing the race must not fail the loser, nor another command of its batch."""
    workers = [make_worker(), make_worker()]
    workers[0].create("c", algorithm={"name": "linucb", "warmup": 0})
    workers[1].one(Select("c"))
    outcomes: list[list[Any]] = [[], []]

    def race(place: int) -> None:
        for number in range(40):
            commands = [Select("c", f"same{number}"), Select("c", f"own{place}-{number}")]
            outcomes[place] += workers[place].run(*commands)

    threads = [threading.Thread(target=race, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(one) for side in outcomes for one in side} == {Decision}
    assert outcomes[0][::2] == outcomes[1][::2]
    assert not faults(workers[0])


def test_concurrent_rewards_of_two_workers_are_all_learned(make_worker: Callable[..., Worker]) -> None:
    """No lost update: sequences 1 to n, each once, and both workers agree with the replay."""
    workers = [make_worker(), make_worker()]
    workers[0].create("c", algorithm={"name": "linucb-ogd-cr"}, risk={"measure": "expectile", "level": 0.2})
    draw = np.random.default_rng(3)
    rewards = draw.standard_normal(200).tolist()

    def teach(place: int) -> None:
        for number in range(place, 200, 2):
            workers[place].run(Select("c", f"d{number}"), Reward(f"d{number}", rewards[number]))

    threads = [threading.Thread(target=teach, args=(place,)) for place in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for worker in workers:
        assert worker.one(Describe("c")).observations == 200
        assert_live_equals_replay(worker)
