"""Going over to one pass: every worker, every replay and every later start come to the same state."""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from prudent.campaigns import AlgorithmChange
from prudent.ledger import lending, state
from prudent.ledger.commands import ChangeCampaign, Describe, RestartCampaign, Reward, Select
from prudent.settings import Limits
from prudent.store import log
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.ledger.test_amendments import correct, learned, play
from tests.ledger.test_ledger import raise_once

RISK = {"measure": "expectile", "level": 0.2}
REWARDS = np.random.default_rng(11).normal([2.0, 1.0] * 40).tolist()


def create(worker: Worker, name: str, exact_until: int | None = 30, **changes: Any) -> None:
    worker.create(name, risk=RISK, algorithm={"name": "linucb-cr", "exact_until": exact_until, **changes})


def change(worker: Worker, name: str, exact_until: int | None) -> None:
    worker.administer(ChangeCampaign(name, algorithm=AlgorithmChange(exact_until=exact_until)))


def is_one_pass(worker: Worker, name: str = "c") -> bool:
    found: bool = worker.one(Describe(name)).one_pass
    return found


@pytest.mark.parametrize("half_life", [None, 12])
def test_workers_a_replay_and_a_start_agree(make_worker: Callable[..., Worker], half_life: int | None) -> None:
    """A worker that went over elsewhere than another would choose other arms than it."""
    limits = Limits(snapshot_observations=5)
    one, other = make_worker(limits), make_worker(limits)
    create(one, "c", forgetting=None if half_life is None else {"half_life": half_life})
    play(one, "c", REWARDS[:29])
    assert not is_one_pass(other)
    assert one.one(Describe("c")).state_digest is None
    play(other, "c", REWARDS[29:33], first=29)
    for worker in (one, other):
        assert is_one_pass(worker)
        assert_live_equals_replay(worker)
    play(one, "c", REWARDS[33:60], first=33)
    digest = one.one(Describe("c")).state_digest
    assert digest is not None
    one.ledger.stop()
    with other.read.connect() as connection:
        snapshot = log.find_snapshot(connection, 1)
    assert snapshot is not None
    assert snapshot.sequence == 60
    assert make_worker(limits).one(Describe("c")).state_digest == digest == other.one(Describe("c")).state_digest
    assert_live_equals_replay(other)


@pytest.mark.parametrize("times", [1, 2])
def test_the_batch_in_which_it_goes_over_may_be_run_again(worker: Worker, times: int) -> None:
    """A rolled-back transaction would leave a state that has lost its history too early."""
    create(worker, "c")
    play(worker, "c", REWARDS[:28])
    commands: list[Any] = [Select("c", f"c-{n}", chosen_arm_id="ab"[n % 2]) for n in range(28, 34)]
    raised = raise_once(worker, "INSERT INTO observations", times=times)
    worker.run(*commands, *(Reward(f"c-{n}", REWARDS[n]) for n in range(28, 34)))
    assert len(raised) == times
    create(worker, "d")
    play(worker, "d", REWARDS[:34])
    assert learned(worker, "c").tolist() == learned(worker, "d").tolist()
    assert_live_equals_replay(worker)


@pytest.mark.parametrize(("before", "after"), [(None, 30), (30, None), (30, 50), (50, 30), (30, 70), (70, None)])
def test_a_change_counts_from_the_first_observation(
    make_worker: Callable[..., Worker], before: int | None, after: int | None
) -> None:
    """A campaign must be the one that it would have been: no state may depend on when a dial was turned."""
    one, other = make_worker(Limits(snapshot_observations=5)), make_worker()
    create(one, "c", before)
    create(one, "d", after)
    for name in "cd":
        play(one, name, REWARDS[:60])
    learned(other, "c")
    change(one, "c", after)
    play(other, "c", REWARDS[60:], first=60)
    play(other, "d", REWARDS[60:], first=60)
    for worker in (one, other):
        np.testing.assert_allclose(learned(worker, "c"), learned(worker, "d"), rtol=1e-9)
        assert is_one_pass(worker) == is_one_pass(worker, "d")
        assert_live_equals_replay(worker)
    with one.read.connect() as connection:
        (row,) = log.read_amendments(connection, 1, 81)
    assert (row.sequence, row.kind, row.detail) == (61, "configuration", f'{{"exact_until":{after or 0}}}')
    one.ledger.stop()
    np.testing.assert_allclose(learned(make_worker(), "c"), learned(other, "d"), rtol=1e-9)


def test_corrections_and_restarts_count_what_is_left(make_worker: Callable[..., Worker]) -> None:
    """A reward that was taken back was never learned, so it must not bring the end of exact fits nearer either."""
    one, other = make_worker(), make_worker()
    create(one, "c")
    play(one, "c", REWARDS[:30])
    assert is_one_pass(other)
    assert correct(one, "c-3", None).reward is None
    assert not is_one_pass(one)
    play(other, "c", REWARDS[30:31], first=30)
    assert is_one_pass(one)
    one.administer(RestartCampaign("c", 20))
    assert not is_one_pass(other)
    play(one, "c", REWARDS[31:60], first=31)
    create(one, "d")
    play(one, "d", REWARDS[19:60], first=19)
    for worker in (one, other):
        assert is_one_pass(worker)
        np.testing.assert_allclose(learned(worker, "c"), learned(worker, "d"), rtol=1e-9)
        assert_live_equals_replay(worker)


def test_a_large_solve_does_not_hold_the_ledger(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other campaigns' requests would wait for the solve of this one."""
    threads: list[str] = []

    def load(*arguments: Any) -> Any:
        threads.append(threading.current_thread().name)
        return found(*arguments)

    found = lending.load_behind
    monkeypatch.setattr(lending, "load_behind", load)
    monkeypatch.setattr(state, "FOLD_PRODUCTS_MAX", 30)
    create(worker, "c")
    create(worker, "d")
    play(worker, "c", REWARDS[:29])
    assert not threads
    play(worker, "d", REWARDS[:40])
    assert is_one_pass(worker, "d")
    play(worker, "c", REWARDS[29:40], first=29)
    assert is_one_pass(worker, "c")
    assert len(threads) == 2
    assert all(name.startswith("ledger-loader") for name in threads)
    assert learned(worker, "c").tolist() == learned(worker, "d").tolist()
    assert_live_equals_replay(worker)


def test_paused_campaigns_go_over_when_they_go_on(worker: Worker) -> None:
    """A change during a pause would be learned at once, beside rewards that wait."""
    create(worker, "c")
    play(worker, "c", REWARDS[:20])
    worker.administer(ChangeCampaign("c", status="paused"))
    change(worker, "c", 10)
    assert not is_one_pass(worker)
    worker.administer(ChangeCampaign("c", status="active"))
    assert is_one_pass(worker)
    assert_live_equals_replay(worker)


def test_a_correction_of_what_was_learned_before_is_learned(worker: Worker) -> None:
    """The history is gone from memory, and the log still has it."""
    create(worker, "c")
    create(worker, "d")
    right = [*REWARDS[:50]]
    play(worker, "c", [*right[:5], 40.0, *right[6:]])
    play(worker, "d", right)
    correct(worker, "c-5", right[5])
    np.testing.assert_allclose(learned(worker, "c"), learned(worker, "d"), rtol=1e-9)
