"""Logs with corrections, restarts and erasures: decisions are judged by what was known when they were made."""

from typing import Any

import httpx
import numpy as np
import pytest

from prudent.evaluation.evaluation import EvaluationError, evaluate
from prudent.evaluation.log import read_export
from tests.api.contract import Json, ok
from tests.conftest import MakeServer

SETTINGS: Json = {
    "risk": {"measure": "expectile", "level": 0.2},
    "model": {"type": "multi-armed"},
    "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
    "algorithm": {"name": "linucb-onepass-cr", "uniform_share": 0.3, "warmup": 1},
}


def play(http: httpx.Client, numbers: range, **changes: Any) -> None:
    """Decisions one after the other, each with its reward."""
    rng = np.random.default_rng(numbers.start)
    for number in numbers:
        made = ok(http.post("/select", json={"campaign_id": "c", "decision_id": f"e{number}"} | changes))
        paid = rng.normal(1.0 if made["arm_id"] == "a" else 0.8)
        ok(http.post("/reward", json={"decision_id": made["decision_id"], "reward": float(paid)}))


@pytest.fixture
def http(make_server: MakeServer, database_url: str) -> Any:
    with httpx.Client(base_url=make_server(database_url).url, timeout=30, trust_env=False) as client:
        yield client


def judged(http: httpx.Client) -> tuple[int, float]:
    """How many decisions are judged, and the mean of their rewards."""
    log = read_export([http.get("/campaigns/c/export").content], 2**20)
    found = evaluate(log, [], [])
    assert found.policies[0].mean is not None
    return found.judged, found.policies[0].mean.value


def test_a_correction_leaves_the_others_to_be_judged(http: httpx.Client) -> None:
    """One typing error that was put right, and none of the campaign's decisions could be replayed any more."""
    ok(http.post("/campaigns", json={"campaign_id": "c", **SETTINGS}), 201)
    play(http, range(60))
    ok(http.post("/decisions/e3/correction", json={"reward": 5.0, "reason": "typing error"}))
    ok(http.post("/decisions/e4/correction", json={"reward": None, "reason": "a test"}))
    play(http, range(60, 100))
    before = judged(http)
    assert before[0] >= 96  # but for the warm-up, and the reward that was taken back
    ok(http.post("/decisions/e5/correction", json={"reward": 5.0 + 100.0, "reason": "another"}))
    after = judged(http)
    assert after[0] == before[0]
    assert after[1] > before[1] + 0.9  # with the reward that it has now


def test_a_restart_and_a_half_life_are_replayed(http: httpx.Client) -> None:
    """Whoever follows the advice of the alarm could not evaluate anything afterwards."""
    ridge = SETTINGS | {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb", "uniform_share": 0.3, "warmup": 1}}
    ok(http.post("/campaigns", json={"campaign_id": "c", **ridge}), 201)
    play(http, range(60))
    ok(http.post("/campaigns/c/restart", json={"from": 41}))
    play(http, range(60, 100))
    assert judged(http)[0] >= 98


def test_what_was_erased_cannot_be_judged_by(http: httpx.Client) -> None:
    """It must be said why: nobody has changed a setting or restricted the candidates."""
    changes = {"assignment": {"sticky_seconds": 86_400}}
    ok(http.post("/campaigns", json={"campaign_id": "c", **SETTINGS, **changes}), 201)
    ok(http.post("/select", json={"campaign_id": "c", "subject": "ada"}))
    ok(http.post("/reward", json={"campaign_id": "c", "subject": "ada", "reward": 3.0}))
    play(http, range(60))
    assert judged(http)[0] >= 58
    ok(http.delete("/campaigns/c/subjects/ada"))
    with pytest.raises(EvaluationError, match="were erased or deleted since"):
        judged(http)
    play(http, range(60, 160))
    assert 95 <= judged(http)[0] <= 105  # those that were made afterwards
