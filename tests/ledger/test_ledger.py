"""The batch: exactly once, restored after failures, and never one command's fault for another."""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from sqlalchemy import Connection, event, text

from prudent.errors import (
    ConflictError,
    DatabaseUnavailableError,
    NotFoundError,
    OverloadedError,
    UnknownOutcomeError,
)
from prudent.ledger.basis import BEHIND_MAX
from prudent.ledger.commands import (
    AddArm,
    ChangeCampaign,
    DeleteCampaign,
    Describe,
    Expire,
    Observe,
    Reward,
    Select,
    WarmStart,
)
from prudent.ledger.outcomes import Decision
from prudent.settings import Limits
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay, faults


def rows(worker: Worker, statement: str) -> list[Any]:
    with worker.read.connect() as connection:
        return list(connection.execute(text(statement)).all())


def test_a_reward_may_name_a_decision_of_the_same_batch(worker: Worker) -> None:
    """A batch client would otherwise have to wait for the first reply."""
    worker.create("c")
    decision, receipt = worker.run(Select("c", "d1"), Reward("d1", 0.5))
    assert isinstance(decision, Decision)
    assert (receipt.sequence, receipt.duplicate, receipt.arm_id) == (1, False, decision.row.arm_id)
    assert not faults(worker)


def test_repeats_in_one_batch_and_across_batches_are_one_observation(worker: Worker) -> None:
    """Retries must not teach the same reward twice."""
    worker.create("c")
    outcomes = worker.run(Select("c", "d"), Select("c", "d"), Reward("d", 1.0), Reward("d", 1.0), Reward("d", 2.0))
    assert outcomes[0] == outcomes[1]
    assert [outcomes[2].duplicate, outcomes[3].duplicate] == [False, True]
    assert isinstance(outcomes[4], ConflictError)
    again = worker.one(Reward("d", 1.0))
    assert again == outcomes[3]
    assert rows(worker, "SELECT count(*) FROM observations") == [(1,)]


def test_a_wrong_command_fails_alone(worker: Worker) -> None:
    """One client's mistake must not cost another its decision."""
    worker.create("c")
    outcomes = worker.run(Select("c", "d1"), Select("nowhere"), Reward("unknown", 1.0), Select("c", "d2"))
    assert [type(one) for one in outcomes] == [Decision, NotFoundError, NotFoundError, Decision]


def test_a_command_that_meets_a_defect_fails_alone(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug in one campaign's numbers must not answer 500 to the others in its batch."""
    worker.create("good")
    worker.create("bad")
    worker.run(Select("good"), Select("bad"))
    states = worker.ledger._states
    monkeypatch.setattr(states.get(states.key_of("bad")).policy, "score", lambda *_: 1 / 0)
    outcomes = worker.run(Select("good"), Select("bad"), Select("good"))
    assert [type(one) for one in outcomes] == [Decision, ZeroDivisionError, Decision]
    assert not faults(worker)


def raise_once(worker: Worker, needle: str, times: int = 1) -> list[str]:
    """Make the next statements that contain the needle fail with an integrity error."""
    raised: list[str] = []

    def fail(_cursor: object, statement: str) -> None:
        if needle in statement and len(raised) < times:
            raised.append(statement)
            raise worker.write.dialect.loaded_dbapi.IntegrityError("made by the test")

    worker.on_statement.append(fail)
    return raised


@pytest.mark.parametrize("algorithm", ["linucb", "linucb-cr", "linucb-ogd-cr"])
def test_a_failed_batch_is_undone_and_run_again(worker: Worker, algorithm: str) -> None:
    """What a rolled-back transaction learned must not stay in memory: it would be learned twice."""
    worker.create("c", algorithm={"name": algorithm})
    for number in range(12):
        worker.run(Select("c", f"d{number}"), Reward(f"d{number}", float(number)))
    before = worker.one(Describe("c"))
    raised = raise_once(worker, "INSERT INTO observations", times=2)
    decision, receipt = worker.run(Select("c", "last"), Reward("last", 3.0))
    assert len(raised) == 2
    assert isinstance(decision, Decision)
    assert receipt.sequence == 13
    after = worker.one(Describe("c"))
    assert (before.observations, after.observations) == (12, 13)
    assert not faults(worker)
    assert_live_equals_replay(worker)


def test_a_batch_that_runs_again_counts_its_refusals_once(worker: Worker) -> None:
    """A few conflicts between workers would raise the alarm that rewards are refused."""
    worker.create("c", reward={"minimum": 0.0})
    worker.create("other")
    worker.run(Select("c", "d"), Select("other", "e"))
    raised = raise_once(worker, "INSERT INTO observations", times=2)
    worker.run(Reward("d", -1.0), Reward("e", 1.0))
    assert len(raised) == 2
    assert worker.one(Describe("c")).refused_rewards == 1


def test_a_failed_commit_is_reported_as_unknown_and_leaves_no_trace(worker: Worker) -> None:
    """After an error in COMMIT the state in memory may not be believed, and nobody may be told 'done'."""
    worker.create("c")
    worker.run(Select("c", "d"), Reward("d", 1.0))
    broken = True

    def fail(_: Connection) -> None:
        nonlocal broken
        if broken:
            broken = False
            raise OSError("the disk is gone")

    event.listen(worker.write, "commit", fail)
    outcomes = worker.run(Select("c", "e"), Reward("e", 2.0))
    assert [type(one) for one in outcomes] == [UnknownOutcomeError] * 2
    decision, receipt = worker.run(Select("c", "e"), Reward("e", 2.0))
    assert isinstance(decision, Decision)
    assert receipt.sequence == 2
    assert_live_equals_replay(worker)


def test_a_full_queue_refuses_at_once(make_worker: Callable[..., Worker]) -> None:
    """Waiting clients must not fill the memory."""
    worker = make_worker(Limits(queue_items_max=3))
    worker.create("c")
    release = threading.Event()
    event.listen(worker.write, "begin", lambda _: release.wait(5))

    async def flood() -> list[Any]:
        first = asyncio.create_task(worker.ledger.submit(Select("c")))
        await asyncio.sleep(0.2)  # the thread now waits inside its transaction
        rest = [asyncio.create_task(worker.ledger.submit(Select("c"))) for _ in range(5)]
        await asyncio.sleep(0.1)
        release.set()
        return await asyncio.gather(first, *rest, return_exceptions=True)

    outcomes = asyncio.run(flood())
    assert [type(one) for one in outcomes] == [Decision] * 4 + [OverloadedError] * 2


def test_a_state_far_behind_is_loaded_while_others_go_on(make_worker: Callable[..., Worker]) -> None:
    """A long log must not hold up other campaigns while it is folded."""
    first = make_worker()
    first.create("long")
    first.create("short")
    for start in range(0, 3_000, 1_000):
        first.one(Observe("long", [WarmStart("a", float(i % 7)) for i in range(start, start + 1_000)]))
    second = make_worker()
    decision, other = second.run(Select("long", "d"), Select("short"))
    assert decision.row.seen == 3_000
    assert isinstance(other, Decision)
    assert second.one(Describe("long")).state_digest == first.one(Describe("long")).state_digest


def test_a_reward_waits_with_its_decision_until_the_campaign_is_loaded(make_worker: Callable[..., Worker]) -> None:
    """Sent together, the select was answered, and its reward told that there is no such decision."""
    first, second = make_worker(), make_worker()
    first.create("c", algorithm={"name": "linucb-cr"}, risk={"measure": "expectile", "level": 0.2})
    first.one(Observe("c", [WarmStart("a", 0.1)] * (BEHIND_MAX + 1)))
    chosen, rewarded, lost = second.run(Select("c", "d1"), Reward("d1", 1.0), Reward("d2", 1.0))
    assert rewarded.decision_id == chosen.row.decision_id == "d1"
    assert isinstance(lost, NotFoundError)


def test_snapshots_are_written_used_and_not_believed_when_corrupt(make_worker: Callable[..., Worker]) -> None:
    """A restart must be fast, and a flipped bit in a snapshot must not change what was learned."""
    limits = Limits(snapshot_observations=100)
    first = make_worker(limits)
    first.create("c")
    first.one(Observe("c", [WarmStart("a", float(i)) for i in range(250)]))
    digest = first.one(Describe("c")).state_digest
    first.stop()
    assert rows(first, "SELECT sequence FROM snapshots") == [(250,)]
    second = make_worker(limits)
    assert second.one(Describe("c")).state_digest == digest
    assert not faults(second)
    second.stop()
    with second.write.begin() as connection:
        state = bytearray(connection.execute(text("SELECT state FROM snapshots")).scalar_one())
        state[-1] ^= 1
        connection.execute(text("UPDATE snapshots SET state = :state"), {"state": bytes(state)})
    assert faults(second)
    third = make_worker(limits)
    assert third.one(Describe("c")).state_digest == digest


def test_a_deadline_teaches_the_default_once(worker: Worker) -> None:
    """No reward within the time is itself an outcome; a late one must not count twice."""
    worker.create("c", reward={"timeout_seconds": 0.3, "default": -1.0})
    worker.run(Select("c", "late"), Select("c", "swept"), Select("c", "punctual"), Reward("punctual", 1.0))
    time.sleep(0.4)
    swept = ("swept", "swept", "late", "punctual")
    outcomes = worker.run(Reward("late", 1.0), *(Expire("c", name) for name in swept))
    assert isinstance(outcomes[0], ConflictError)
    assert outcomes[1:] == [None] * 4
    # nor has the database had to refuse a second row
    assert worker.metrics.registry.get_sample_value("prudent_batch_reruns_total") == 0
    learned = rows(worker, "SELECT decision_id, reward, source FROM observations")
    assert sorted(learned) == [("late", -1.0, "default"), ("punctual", 1.0, "reward"), ("swept", -1.0, "default")]
    assert rows(worker, "SELECT count(*) FROM decisions WHERE due_at IS NOT NULL") == [(0,)]
    with pytest.raises(ConflictError, match="deadline"):
        worker.one(Reward("swept", -1.0))


def test_deadlines_are_found_without_a_request(worker: Worker) -> None:
    """A campaign that nobody asks must learn its defaults, too."""
    worker.create("c", reward={"timeout_seconds": 0.2, "default": 0.0})
    worker.one(Select("c", "d"))
    deadline = time.monotonic() + 10
    while not rows(worker, "SELECT 1 FROM observations") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert rows(worker, "SELECT decision_id, source FROM observations") == [("d", "default")]


def test_a_deleted_campaign_is_purged(worker: Worker) -> None:
    """Deleting must free the disk."""
    worker.create("c")
    worker.run(*[Select("c", f"d{i}") for i in range(20)], *[Reward(f"d{i}", 1.0) for i in range(20)])
    worker.administer(DeleteCampaign("c"))
    for _ in range(5):
        worker.ledger._maintenance._purge()
    for table in ("campaigns", "heads", "arms", "decisions", "observations"):
        assert rows(worker, f"SELECT count(*) FROM {table}") == [(0,)], table  # noqa: S608


def test_a_pause_stores_without_learning_and_activation_catches_up(make_worker: Callable[..., Worker]) -> None:
    """After a pause the state must equal one that was never paused."""
    worker = make_worker()
    for name in ("paused", "plain"):
        worker.create(name)
    worker.administer(ChangeCampaign("paused", status="paused"))
    rewards = [(f"{i}", float(i)) for i in range(10)]
    for name in ("paused", "plain"):
        worker.one(Observe(name, [WarmStart("a", value) for _, value in rewards]))
    stopped = worker.one(Describe("paused"))
    assert (stopped.observations, stopped.head) == (0, 10)
    worker.administer(ChangeCampaign("paused", status="active"))
    assert worker.one(Describe("paused")).state_digest == worker.one(Describe("plain")).state_digest


@pytest.mark.parametrize("algorithm", ["linucb", "linucb-cr", "linucb-ogd-cr"])
def test_an_arm_that_comes_later_is_the_same_in_every_replay(
    make_worker: Callable[..., Worker], algorithm: str
) -> None:
    """When an arm was added is not in the log: the state may not depend on it, nor may a snapshot from before."""
    limits = Limits(snapshot_observations=10)
    first = make_worker(limits)
    model = {"type": "disjoint", "dimension": 2}
    first.create("c", model=model, algorithm={"name": algorithm, "warmup": 1})
    teach(first, "ab", range(30))
    first.ledger._maintenance.run()
    first.administer(AddArm("c", "late"))
    teach(first, ["late", "a"], range(30, 37))
    assert_live_equals_replay(first)
    second = make_worker(limits)
    assert_live_equals_replay(second)
    teach(second, ["late", "b"], range(37, 60))
    assert_live_equals_replay(second)
    assert_live_equals_replay(first)


def teach(worker: Worker, arms: Sequence[str], numbers: range) -> None:
    draw = np.random.default_rng(numbers.start)
    for number in numbers:
        x, y = draw.standard_normal(2), float(draw.standard_normal())
        worker.one(Observe("c", [WarmStart(arms[number % len(arms)], y, context=x)]))
        worker.one(Select("c", context=x))


def test_eviction_forgets_nothing(make_worker: Callable[..., Worker]) -> None:
    """More campaigns than memory must cost time, never knowledge."""
    worker = make_worker(Limits(states_bytes_max=1))
    for name in ("x", "y"):
        worker.create(name)
        worker.one(Observe(name, [WarmStart("a", 1.0)] * 3))
    before = [worker.one(Describe(name)).state_digest for name in ("x", "y")]
    worker.ledger._states.evict()
    assert len(worker.ledger._states) == 1
    assert [worker.one(Describe(name)).state_digest for name in ("x", "y")] == before


def test_exhausted_memory_is_made_room_in(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """F9. The states that fill the memory would stay, and half of an update in one of them."""
    for name in ("x", "y"):
        worker.create(name)
        worker.one(Observe(name, [WarmStart("a", 1.0)] * 3))
    before = [worker.one(Describe(name)).state_digest for name in ("x", "y")]
    with monkeypatch.context() as patched:
        patched.setattr("prudent.core.policy.Policy.observe", _run_out_of_memory)
        (outcome,) = worker.run(Observe("x", [WarmStart("a", 2.0)]))
    assert isinstance(outcome, DatabaseUnavailableError)
    assert [state.campaign_id for state in worker.ledger._states] == []
    assert [worker.one(Describe(name)).state_digest for name in ("x", "y")] == before


def _run_out_of_memory(*_: object) -> None:
    raise MemoryError
