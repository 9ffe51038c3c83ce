"""Categories learned by several workers at once: positions without gap or double, and nothing that was refused."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import text
from threadpoolctl import threadpool_limits

from prudent.errors import CommandError, UnavailableError
from prudent.ledger.commands import Describe, Observe, Preview, Reward, Select, WarmStart
from prudent.ledger.outcomes import Decision, RewardReceipt
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay, faults

VALUES, CLIENTS = 200, 64
MODEL = {
    "type": "disjoint",
    "features": [
        {"name": "plan", "kind": "category", "capacity": VALUES},
        {"name": "size", "kind": "category", "capacity": 3, "unknown": "error", "missing": "center"},
        {"name": "age"},
    ],
}


def ask(decision_id: str | None, plan: str, **values: Any) -> Select:
    """A select with a plan."""
    return Select("c", decision_id, context={"plan": plan, "age": 40.0} | values, is_named=True)


def answers(worker: Worker, *commands: Any) -> list[Any]:
    """As a client gets them, which sends again what could not be answered."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        try:
            outcomes = worker.run(*commands)
        except UnavailableError:
            continue
        if not any(isinstance(one, UnavailableError) for one in outcomes):
            return outcomes
    raise AssertionError("no answer within a minute")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Products in one thread, as in the service: 200 columns are otherwise spread over cores that are busy."""
    with threadpool_limits(1):
        yield


def stored(worker: Worker) -> list[tuple[str, int, str]]:
    """The table of the campaign's categories."""
    with worker.read.connect() as connection:
        rows = connection.execute(text("SELECT feature, position, value FROM categories ORDER BY feature, position"))
        return [(row[0], row[1], row[2]) for row in rows]


def test_two_workers_learn_the_same_positions(make_worker: Callable[..., Worker]) -> None:
    """A position would mean one text for one worker and another for the other, and weights would be mixed up."""
    workers = [make_worker(), make_worker()]
    workers[0].create("c", model=MODEL, algorithm={"name": "linucb", "warmup": 0})
    workers[1].one(ask("first", "value-0"))
    failures: list[object] = []

    def client(number: int) -> None:
        draw = random.Random(number)  # noqa: S311  # a simulation
        worker = workers[number % 2]
        for round_ in range(5):
            decision_id = f"d{number}-{round_}"
            rewards = [Reward(decision_id, 1.0)] if round_ == 0 else []
            outcomes = answers(worker, ask(decision_id, f"value-{draw.randrange(VALUES)}"), *rewards)
            outcomes += answers(worker, ask(decision_id + "n", f"value-{(number * 5 + round_) % VALUES}"))
            failures.extend(one for one in outcomes if not isinstance(one, Decision | RewardReceipt))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    rows = stored(workers[0])
    assert [position for _, position, _ in rows] == list(range(1, VALUES + 1))
    assert {value for _, _, value in rows} == {f"value-{number}" for number in range(VALUES)}
    for worker in workers:
        found = worker.one(Describe("c")).features[0]["categories"]
        assert found == [value for _, _, value in rows]
        assert_live_equals_replay(worker)


def test_only_what_is_recorded_adds_a_category(worker: Worker) -> None:
    """A position would be given to a text that no decision has."""
    worker.create("c", model=MODEL)
    worker.one(Preview(ask(None, "previewed")))
    wrong = [
        ask("a", "refused", age="x"),
        ask("b", "refused", size=3),
        Select("c", "c", context={"plan": "refused", "age": 1}, is_named=True, eligible=frozenset()),
    ]
    assert all(isinstance(one, CommandError) for one in worker.run(*wrong))
    observations = [WarmStart("a", 1.0, context={"plan": "late", "age": 3}), WarmStart("z", 1.0, context={"plan": "b"})]
    with pytest.raises(CommandError):
        worker.one(Observe("c", observations))
    assert stored(worker) == []
    worker.one(Observe("c", observations[:1]))
    assert stored(worker) == [("plan", 1, "late")]


def test_a_batch_learns_each_text_once(worker: Worker) -> None:
    """The second decision of a batch would meet a text that is not stored yet."""
    worker.create("c", model=MODEL)
    outcomes = worker.run(ask("a", "x"), ask("b", "y"), ask("c", "x"), ask("d", "y", size="s"))
    assert all(isinstance(one, Decision) for one in outcomes)
    assert stored(worker) == [("plan", 1, "x"), ("plan", 2, "y"), ("size", 1, "s")]


def test_a_text_that_another_worker_learned_is_found(make_worker: Callable[..., Worker]) -> None:
    """It would be learned a second time, at another position."""
    first, second = make_worker(), make_worker()
    first.create("c", model=MODEL)
    for worker in (first, second):
        worker.one(ask(f"warm{id(worker)}", "known"))
    first.one(ask("a", "new", size="s"))
    explained = second.one(
        Select("c", "b", context={"plan": "new", "age": 1, "size": "s"}, is_named=True, explain=True)
    )
    assert [one.get("value") for one in explained.arms[0].contributions][:3] == ["new", "s", 1.0]
    assert second.one(ask("a", "new", size="s")).row == first.one(ask("a", "new", size="s")).row
    assert len(stored(first)) == 3


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE categories SET position = 7 WHERE value = 'y'", "after 1 categories of plan comes position 7"),
        ("UPDATE categories SET feature = 'colour' WHERE value = 'y'", "which is no category of this campaign"),
        ("DELETE FROM categories WHERE value = 'y'", "plan has position 2, which no category has"),
        ("UPDATE categories SET feature = 'age' WHERE value = 'x'", "which is no category of this campaign"),
    ],
)
def test_verify_finds_a_vocabulary_that_was_changed(worker: Worker, statement: str, words: str) -> None:
    """Weights would be shown, and learned, for other texts."""
    worker.create("c", model=MODEL)
    worker.run(ask("a", "x"), Reward("a", 1.0), ask("b", "y"), Reward("b", 2.0))
    assert faults(worker) == []
    with worker.write.begin() as connection:
        connection.execute(text(statement))
    assert any(words in fault for fault in faults(worker)), faults(worker)
