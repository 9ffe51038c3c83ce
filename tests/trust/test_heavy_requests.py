"""Requests that take long to compute: their own campaign waits for them, and no other."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from prudent.errors import InvalidCommandError, NotFoundError, UnavailableError
from prudent.ledger import batch, queue
from prudent.ledger.commands import Describe, Observe, Preview, Reward, Select, WarmStart
from prudent.ledger.description import describe
from prudent.ledger.missing import NO_CAMPAIGN
from prudent.ledger.outcomes import ModelReport
from prudent.ledger.state import CampaignState
from prudent.store.log import FoldRow
from tests.api.contract import create, multi_armed, ok
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay
from tests.promises import Promise, length
from tests.trust.selecting import Selecting

pytestmark = pytest.mark.slow

ARMS, DIMENSION = 800, 220
"""A shared campaign that is as large as a request to create it may be: a select takes 40 million multiplications."""
READERS = 8
LIVE_SECONDS_MAX = 15.0
"""Whether it lives at all: how fast is measured at full length, on a machine that does nothing else."""


@pytest.fixture(autouse=True)
def _one_thread_a_product() -> Iterator[None]:
    """As in the service: two threads that wait for each other take a hundred times as long on a busy machine."""
    with threadpool_limits(1):
        yield


def large_shared(campaign_id: str) -> dict[str, Any]:
    """A campaign of 800 arms with 220 features each."""
    draw = random.Random(1)  # noqa: S311  # no secret
    arms = [
        {"arm_id": f"a{number}", "features": [draw.randrange(-9, 10) / 10 for _ in range(DIMENSION)]}
        for number in range(ARMS)
    ]
    return {
        "campaign_id": campaign_id,
        "risk": {"measure": "mean"},
        "model": {"type": "shared", "dimension": DIMENSION},
        "arms": arms,
    }


def large_disjoint(campaign_id: str) -> dict[str, Any]:
    """A campaign of 1,000 arms with 60 parameters each."""
    return {
        "campaign_id": campaign_id,
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "dimension": 60},
        "arms": [{"arm_id": f"a{number}"} for number in range(1_000)],
    }


def quantile(values: list[float], share: float) -> float:
    """The value that this share of them does not exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@pytest.mark.alone
def test_large_campaigns_do_not_hold_the_others(make_server: MakeServer, database_url: str, promise: Promise) -> None:
    """F3. A batch of 512 selects held all campaigns for a minute, and failed on PostgreSQL; so did readers of a model.

    A fault of commit a92648e.
    """
    is_full = length("HEAVY", 0) > 0
    count = 512 if is_full else 64
    server = make_server(database_url)
    over = threading.Event()
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as http:
        light = create(http, multi_armed())
        http.post("/campaigns", json=large_shared("large")).raise_for_status()
        http.post("/campaigns", json=large_disjoint("wide")).raise_for_status()

    def read() -> int:
        with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as client:
            read = 0
            while not over.is_set():
                client.get("/campaigns/wide/model").raise_for_status()
                read += 1
            return read

    def change() -> None:
        """Otherwise every reader would get the same report."""
        item = {"arm_id": "a0", "reward": 1.0, "context": [0.1] * 60}
        with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as client:
            while not over.wait(0.2):
                client.post("/campaigns/wide/observations", json={"items": [item]}).raise_for_status()

    others = Selecting(server, light, clients=1)
    with others, ThreadPoolExecutor(READERS + 1) as threads:
        reading = [threads.submit(read) for _ in range(READERS)]
        changing = threads.submit(change)
        time.sleep(1)
        started = time.perf_counter()
        reply = httpx.post(
            f"{server.url}/select/batch",
            json={"items": [{"campaign_id": "large"}] * count},
            timeout=120,
            trust_env=False,
        )
        took = time.perf_counter() - started
        time.sleep(length("HEAVY", 1))
        over.set()
        changing.result()
        models = sum(one.result() for one in reading)
    statuses = [item["status"] for item in ok(reply)["items"]]
    latencies = [one.took for one in others.answers]
    p99 = quantile(latencies, 0.99)
    promise(
        "R21",
        f"{database_url.partition(':')[0]}: {count} selects of 800 x 220 in {took:.1f} s, {models} models of 1,000 x "
        f"60: {len(latencies)} selects of another campaign, p99 {p99:.3f} s, slowest {max(latencies):.3f} s",
    )
    assert (statuses, others.failures) == ([200] * count, 0)
    assert models > READERS
    assert max(latencies) < LIVE_SECONDS_MAX
    if is_full:
        assert p99 < 0.5


def test_a_campaign_that_takes_long_is_overtaken(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3. What came after a large batch would wait for all of it, and a select be lost when its turn has passed."""
    monkeypatch.setattr(queue, "CAMPAIGN_SECONDS", 0.0)  # one command of a campaign in each batch
    worker.create("slow")
    worker.create("other")
    slow = [Select("slow", decision_id=f"s{number}") for number in range(40)]
    rewards = [Reward(f"s{number}", 1.0) for number in range(40)]
    results = worker.run(*slow, *rewards, *[Select("other", decision_id=f"o{number}") for number in range(5)])
    assert [one.row.decision_id for one in results[:40]] == [f"s{number}" for number in range(40)]
    assert sorted(one.sequence for one in results[40:80]) == list(range(1, 41))
    assert [one.row.decision_id for one in results[80:]] == [f"o{number}" for number in range(5)]
    assert (worker.metrics.registry.get_sample_value("prudent_batch_commands_count") or 0) >= 40
    assert_live_equals_replay(worker)


def test_the_time_of_a_batch_is_bounded(worker: Worker) -> None:
    """F3. A transaction that computes for longer than two seconds is ended by PostgreSQL, and would never commit."""
    worker.create("large", **{name: value for name, value in large_shared("large").items() if name != "campaign_id"})
    lists = [[(f"a{number}", np.full(DIMENSION, 0.5)) for number in range(200)] for _ in range(60)]
    assert all(one.row.arm_id for one in worker.run(*[Select("large", arms=arms) for arms in lists]))
    batches = worker.metrics.registry.get_sample_value("prudent_batch_seconds_count") or 0
    short = worker.metrics.registry.get_sample_value("prudent_batch_seconds_bucket", {"le": "2.0"}) or 0
    assert batches > 1
    assert batches - short <= 1  # a machine that stands still lengthens one


def test_a_warm_start_that_takes_long_is_learned_outside_its_transaction(
    make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """F3. All or none of a thousand observations: they cannot be split, and learning them held everybody."""
    worker = make_worker()
    worker.create("large", model={"type": "shared", "dimension": 200}, arms=[])
    draw = np.random.default_rng(1)
    given = [WarmStart("a", 1.0, features=draw.uniform(-1, 1, 200)) for _ in range(400)]
    folded: set[str] = set()
    fold = CampaignState.fold

    def watch(state: CampaignState, row: FoldRow) -> None:
        folded.add(threading.current_thread().name)
        fold(state, row)

    monkeypatch.setattr(CampaignState, "fold", watch)
    receipt = worker.one(Observe("large", given))
    assert (receipt.accepted, receipt.observations, receipt.head) == (400, 400, 400)
    assert worker.one(Describe("large")).observations == 400
    assert len(folded) == 1
    assert "ledger" not in folded
    decided = worker.one(Select("large", decision_id="d", arms=[("a", given[0].features), ("b", given[1].features)]))
    assert decided.row.seen == 400
    assert worker.one(Reward("d", 0.5)).observations == 401
    assert_live_equals_replay(worker)


def test_a_model_is_described_off_the_ledgers_thread(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """F3. A reader's key was enough to hold all campaigns: describing a large model takes a second."""
    may_end = threading.Event()

    def slow(state: CampaignState, damage: str | None = None) -> ModelReport:
        assert may_end.wait(60)
        return describe(state, damage)

    monkeypatch.setattr(batch, "describe", slow)
    worker.create("large")
    worker.create("other")
    worker.run(Select("large", decision_id="d"))
    with ThreadPoolExecutor(2) as threads:
        try:
            report = threads.submit(worker.one, Describe("large"))
            time.sleep(0.2)
            reward = threads.submit(worker.one, Reward("d", 1.0))  # of the campaign itself: it waits
            for _ in range(5):
                assert worker.one(Select("other")).campaign_id == "other"
            assert not report.done()
        finally:
            may_end.set()
        assert report.result().observations in {0, 1}
        assert reward.result().observations == 1
    assert worker.one(Describe("large")).observations == 1
    assert_live_equals_replay(worker)


def test_a_model_is_described_once_for_all_that_ask(worker: Worker) -> None:
    """F3. Eight readers of a model would have it computed eight times, and its campaign wait each time."""
    worker.create("c")
    reports = worker.run(*[Describe("c")] * 8)
    assert all(report is reports[0] for report in reports)
    worker.run(Select("c", decision_id="d"))
    worker.run(Reward("d", 1.0))
    report = worker.one(Describe("c"))
    assert report.observations == 1
    assert report is not reports[0]
    prospect = worker.one(Preview(Select("c")))
    assert prospect.observations == 1
    failed = worker.run(Preview(Select("c", chosen_arm_id="none")), Select("c"))
    assert "chosen_arm_id" in str(failed[0].field)
    assert failed[1].row.arm_id


@pytest.mark.parametrize("what", ["campaigns", "arms", "features"])
def test_what_may_have_been_meant_is_found_at_once(worker: Worker, what: str, promise: Promise) -> None:
    """F3. Comparing long names took up to 100 ms a command: one batch of 512 held all campaigns for a minute.

    A fault of commit e620c5b.
    """
    draw = random.Random(1)  # noqa: S311  # no secret
    names = ["m" + "".join(draw.choices("abcdefgh", k=127)) for _ in range(612)]
    known, unknown = names[:100], names[100:]
    model = {"type": "disjoint", "features": [{"name": name, "kind": "number"} for name in known]}
    own = {"model": model} if what == "features" else {}
    worker.create("c", arms=[{"arm_id": name} for name in (known if what == "arms" else ("a", "b"))], **own)
    for name in known if what == "campaigns" else ():
        worker.create(name)
    make: dict[str, Callable[[str], Select]] = {
        "campaigns": lambda name: Select(name),
        "arms": lambda name: Select("c", chosen_arm_id=name),
        "features": lambda name: Select("c", context=dict.fromkeys([*known, name], 1.0), is_named=True),
    }
    for _ in range(3):  # PostgreSQL ends a transaction in which a machine stands still
        started = time.perf_counter()
        refused = worker.run(*map(make[what], unknown))
        took = time.perf_counter() - started
        if not any(isinstance(one, UnavailableError) for one in refused):
            break
    promise("R21", f"512 selects that name {what} that do not exist, 128 characters each: {took:.2f} s")
    assert all(isinstance(one, NotFoundError | InvalidCommandError) for one in refused)
    assert "did you mean" in str(refused[0]) or f"the {what} are" in str(refused[0])
    assert what != "campaigns" or str(refused[-1]) == NO_CAMPAIGN  # the database was not asked for each
    assert took < LIVE_SECONDS_MAX
