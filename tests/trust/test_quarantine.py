"""F12: rows of one campaign that cannot be learned. Its calls say so, everybody else's are answered as ever.

At 142b6d5 each call of such a campaign was a 500 with a traceback, and nothing said which row it was.
"""

import html
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import Connection, Engine, text

from prudent.errors import QuarantinedError
from prudent.ledger.commands import Describe, Expire, Observe, Reward, Select, WarmStart
from prudent.settings import Limits
from prudent.store.engines import create_write_engine, parse_database_url
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.promises import Promise
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

BAD: dict[str, str] = {
    "an infinite reward": "UPDATE observations SET reward = {infinity} WHERE key = 1 AND sequence = 2",
    "a reward that is not a number": "UPDATE observations SET reward = {nan} WHERE key = 1 AND sequence = 2",
    "an unknown arm": "UPDATE observations SET arm_id = 'nobody' WHERE key = 1 AND sequence = 2",
    "features of another length": "UPDATE observations SET features = {eight} WHERE key = 1 AND sequence = 2",
    "an arm's features": "UPDATE arms SET features = {eight} WHERE key = 1 AND position = 0",
    "arms that are gone": "DELETE FROM arms WHERE key = 1 AND position = 0",
    "settings that are cut off": "UPDATE campaigns SET creation = substr(creation, 1, 40) WHERE key = 1",
    "settings of today": "UPDATE campaigns SET configuration = substr(configuration, 1, 40) WHERE key = 1",
}
LITERALS = {
    "sqlite": {"infinity": "9e999", "nan": "'nan'", "eight": "zeroblob(8)"},
    "postgresql": {"infinity": "'Infinity'", "nan": "'NaN'", "eight": "decode('0000000000000000', 'hex')"},
}


@contextmanager
def by_hand(database_url: str) -> Iterator[Connection]:
    """A transaction of somebody who knows how to get past the database's own bounds."""
    engine: Engine = create_write_engine(parse_database_url(database_url))
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        else:
            connection.execute(text("ALTER TABLE observations DROP CONSTRAINT IF EXISTS ck_observations_learnable"))
        yield connection
    engine.dispose()


def spoil(database_url: str, name: str) -> None:
    """Do to the first campaign what its name says."""
    with by_hand(database_url) as connection:
        connection.execute(text(BAD[name].format(**LITERALS[connection.dialect.name])))


def create(http: httpx.Client, name: str) -> None:
    arms = [{"arm_id": "a"}, {"arm_id": "b"}]
    body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": arms}
    http.post("/campaigns", json=body | {"algorithm": {"name": "linucb", "warmup": 0}}).raise_for_status()
    for number in range(3):
        http.post("/select", json={"campaign_id": name, "decision_id": f"{name}{number}"}).raise_for_status()
        http.post("/reward", json={"decision_id": f"{name}{number}", "reward": 0.5}).raise_for_status()
    http.post("/select", json={"campaign_id": name, "decision_id": f"{name}-pending"}).raise_for_status()


@pytest.mark.parametrize("name", BAD)
def test_one_campaign_is_out_of_service(
    make_server: MakeServer, database_url: str, name: str, promise: Promise
) -> None:
    """F12. One bad row would page somebody for a defect of ours, and hide which campaign it is and why."""
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        for campaign in ("bad", "good"):
            create(http, campaign)
    server.stop()
    spoil(database_url, name)
    server.start()
    calls: list[tuple[str, str, dict[str, Any] | None]] = [
        ("POST", "/select", {"campaign_id": "bad"}),
        ("POST", "/reward", {"decision_id": "bad-pending", "reward": 0.5}),
        ("POST", "/campaigns/bad/observations", {"items": [{"arm_id": "b", "reward": 0.5}]}),
        ("GET", "/campaigns/bad/model", None),
    ]
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        replies = [http.request(method, path, json=body) for method, path, body in calls]
        batch = [{"decision_id": f"{one}-pending", "reward": 0.5} for one in ("bad", "good")]
        mixed = [item["status"] for item in http.post("/reward/batch", json={"items": batch}).json()["items"]]
        others = [http.request(m, p.replace("bad", "good"), json=b and {**b, **GOOD.get(p, {})}) for m, p, b in calls]
        health = http.get("/health/ready")
        page = http.get("/dashboard/campaigns/bad")
        listed = {http.get(path).status_code for path in ("/campaigns", "/campaigns/good", "/")}
        counted = "prudent_quarantined_campaigns 1.0"
        wait_for(lambda: counted in http.get("/metrics").text, "nothing for an alert to see")
        gone = http.delete("/campaigns/bad", params={"confirm": "bad"}).status_code
    statuses = [reply.status_code for reply in replies]
    reason = replies[-1].json()["detail"]
    promise("quarantine", f"{database_url.partition(':')[0]}, {name}: {statuses}, others {mixed[1]}; {reason}")
    assert statuses == [503] * len(calls)
    assert all(reply.json()["detail"] == reason and reply.headers["retry-after"] == "30" for reply in replies)
    assert mixed == [503, 200]
    assert {reply.status_code for reply in others} == {200}
    assert (health.status_code, health.json()["detail"][-3:]) == (200, ": 1")
    assert server.log().count("a campaign is quarantined") == 1
    assert "a command failed" not in server.log()
    assert (page.status_code, listed) == (503, {200})
    assert reason.partition(": ")[2].partition(";")[0] in html.unescape(page.text)
    assert gone == 204


GOOD = {"/select": {"campaign_id": "good"}, "/reward": {"decision_id": "good-pending"}}


def test_a_campaign_that_is_repaired_comes_back_by_itself(
    make_worker: Callable[..., Worker], migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever repairs a row would have to restart every worker, or would not know that it is needed."""
    clock = [1_000_000]
    worker = make_worker(Limits(), lambda: clock[0])
    worker.create("c")
    worker.create("other")
    worker.one(Observe("c", [WarmStart("a", 0.5), WarmStart("b", 0.75)]))
    expected = worker.one(Describe("c")).state_digest
    spoil(migrated_url, "an unknown arm")
    second = make_worker(Limits(), lambda: clock[0])
    with pytest.raises(QuarantinedError, match="row 2 of its log cannot be learned: it names an arm"):
        second.one(Select("c"))
    with by_hand(migrated_url) as connection:
        connection.execute(text("UPDATE observations SET arm_id = 'b' WHERE sequence = 2"))
    with pytest.raises(QuarantinedError):
        second.one(Select("c"))
    clock[0] += 31_000_000
    assert second.one(Describe("c")).state_digest == expected
    assert second.ledger.remark is None


@pytest.mark.parametrize("name", ["features of another length", "an arm's features"])
def test_one_number_is_not_taken_for_all_features(
    make_worker: Callable[..., Worker], migrated_url: str, name: str
) -> None:
    """Numbers stretch to the length that arithmetic asks for: the campaign would learn and recommend nonsense."""
    worker = make_worker()
    arms = [{"arm_id": one, "features": [0.5, 0.25]} for one in ("a", "b")]
    worker.create("c", model={"type": "shared", "dimension": 2, "intercept": True}, arms=arms)
    worker.create("other")
    worker.one(Observe("c", [WarmStart("a", 0.5), WarmStart("b", 0.75)]))
    worker.stop()
    spoil(migrated_url, name)
    second = make_worker()
    with pytest.raises(QuarantinedError, match="features"):
        second.one(Select("c"))
    second.one(Select("other"))


def test_a_long_log_that_is_loaded_apart_is_quarantined_too(
    make_worker: Callable[..., Worker], migrated_url: str
) -> None:
    """The loader has a thread of its own; its callers would be asked to try again for ever."""
    worker = make_worker(Limits(snapshot_observations=10_000))
    worker.create("c")
    for _ in range(3):
        worker.one(Observe("c", [WarmStart("a", 0.5)] * 500))
    worker.stop()
    spoil(migrated_url, "an unknown arm")
    second = make_worker()
    with pytest.raises(QuarantinedError, match="row 2 of its log"):
        second.one(Select("c"))


def test_its_deadlines_do_not_stand_before_those_of_others(
    make_worker: Callable[..., Worker], migrated_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deadlines are swept oldest first, so many: those that cannot be learned would be found again each time."""
    monkeypatch.setattr("prudent.ledger.maintenance.EXPIRE_ROWS", 1)
    rules = {"timeout_seconds": 0.001, "default": 0.0}
    worker = make_worker(Limits(), lambda: time.time_ns() // 1_000)
    for name in ("c", "other"):
        worker.create(name, reward=rules)
    worker.stop()
    spoil(migrated_url, "arms that are gone")
    second = make_worker(Limits(), lambda: time.time_ns() // 1_000)
    with second.write.begin() as connection:
        for number, key in enumerate((1, 1, 2)):
            connection.execute(
                text(
                    "INSERT INTO decisions (decision_id, key, arm_id, features, estimate, bonus, index_value, reason, "
                    "greedy_arm_id, seen, created_at, due_at) "
                    "VALUES (:id, :key, 'b', :features, 0, 0, 0, 'index', 'b', 0, 0, :due)"
                ),
                {"id": f"d{number}", "key": key, "features": b"", "due": number + 1},
            )
    second.run(Expire("c", "d0"))
    started = time.monotonic()
    while second.one(Describe("other")).observations == 0:
        assert time.monotonic() < started + 30
        time.sleep(0.1)


def test_a_damaged_decision_is_that_decisions_matter(worker: Worker) -> None:
    """Its reward would be tried again and again, with everybody else's in the same batch."""
    worker.create("c", model={"type": "shared", "dimension": 1})
    worker.create("other")
    worker.run(Select("c", "d1", arms=[("a", np.array([1.0]))]), Select("c", "d2", arms=[("a", np.array([1.0]))]))
    worker.run(Select("other", "d3"))
    with by_hand(str(worker.write.url.render_as_string(hide_password=False))) as connection:
        connection.execute(text("UPDATE decisions SET features = :none WHERE decision_id = 'd1'"), {"none": b""})
        connection.execute(text("UPDATE decisions SET propensity = 7 WHERE decision_id = 'd2'"))
    worker.ledger._recent.forget(["d1", "d2"])
    outcomes = worker.run(Reward("d1", 0.5), Reward("d2", 0.5), Reward("d3", 0.5))
    assert [type(one).__name__ for one in outcomes] == ["ConflictError", "ConflictError", "RewardReceipt"]
    assert "damaged" in outcomes[0].message
