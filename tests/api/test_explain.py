"""`explain: true`: every arm, best first, with an interval for its risk and what each feature adds."""

import httpx
import numpy as np
import orjson
import pytest
from scipy import stats
from sqlalchemy import text

from prudent.store.engines import create_write_engine, parse_database_url
from tests.api.contract import Json, create, disjoint, model, multi_armed, new_id, ok, reward, select, shared
from tests.servers import Server

NAMED = [{"name": "age", "center": 50, "scale": 10}, {"name": "intercept", "center": 0, "scale": 2}]


def observe(api: httpx.Client, campaign_id: str, items: list[Json]) -> None:
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))


def teach_disjoint(api: httpx.Client, campaign_id: str, count: int = 90) -> None:
    random = np.random.default_rng(11)
    items = []
    for number in range(count):
        context = random.normal(size=2)
        value = number % 3 + context[0] + random.normal()
        items.append({"arm_id": "abc"[number % 3], "context": context.tolist(), "reward": float(value)})
    observe(api, campaign_id, items)


def test_best_first_with_intervals(api: httpx.Client) -> None:
    """Nobody would see how sure the estimates are, or would take the bonus for it."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 0, "regularization": 1e-9}))
    random = np.random.default_rng(5)
    given = {name: random.normal(level, 1, 40).tolist() for name, level in zip("ab", (1, 2), strict=True)}
    given["c"] = [3.0] * 4
    observe(api, campaign_id, [{"arm_id": name, "reward": value} for name in given for value in given[name]])
    arms = select(api, campaign_id, explain=True)["arms"]
    assert [one["index"] for one in arms] == sorted((one["index"] for one in arms), reverse=True)
    for one in arms:
        assert one["contributions"] is None
        if one["arm_id"] == "c":
            assert one["interval"] is None
            assert "fewer than 10 observations" in one["interval_note"]
            continue
        assert one["interval_note"] is None
        expected = stats.ttest_1samp(given[one["arm_id"]], 0).confidence_interval(0.95)
        assert one["interval"] == pytest.approx(list(expected), rel=1e-6)
    thetas = {arm["arm_id"]: arm["theta_intervals"] for arm in model(api, campaign_id)["arms"]}
    assert thetas == {one["arm_id"]: [one["interval"]] for one in arms}


def test_contributions_of_named_features(api: httpx.Client) -> None:
    """Somebody who must justify a decision could not say what it rests on."""
    campaign_id = create(api, disjoint(model={"type": "disjoint", "dimension": 2, "features": NAMED}))
    teach_disjoint(api, campaign_id)
    theta = {arm["arm_id"]: arm["theta"] for arm in model(api, campaign_id)["arms"]}
    arms = select(api, campaign_id, context=[70, 3], explain=True)["arms"]
    assert len(arms) == 3
    for one in arms:
        assert [part["feature"] for part in one["contributions"]] == ["age", "intercept", "intercept"]
        values = [part["contribution"] for part in one["contributions"]]
        assert values == pytest.approx(np.multiply(theta[one["arm_id"]], [2, 1.5, 1]).tolist(), rel=1e-9)
        assert sum(values) == pytest.approx(one["estimate"], rel=1e-9)


def test_contributions_without_names(api: httpx.Client) -> None:
    """Without names nobody could tell which number of the request a contribution belongs to."""
    campaign_id = create(api, shared(model={"type": "shared", "dimension": 2, "intercept": True}))
    items = [{"arm_id": "ab"[number % 2], "reward": number % 5} for number in range(40)]
    observe(api, campaign_id, items)
    for one in select(api, campaign_id, explain=True)["arms"]:
        assert [part["feature"] for part in one["contributions"]] == ["features[0]", "features[1]", "intercept"]
        assert sum(part["contribution"] for part in one["contributions"]) == pytest.approx(one["estimate"])
    assert model(api, campaign_id)["feature_names"] == ["features[0]", "features[1]", "intercept"]
    assert model(api, create(api, disjoint()))["feature_names"] == ["context[0]", "context[1]", "intercept"]
    assert model(api, create(api, multi_armed()))["feature_names"] == []


def test_repeats_are_identical(api: httpx.Client) -> None:
    """An explanation that changes when it is asked for again explains nothing."""
    campaign_id = create(api, disjoint())
    teach_disjoint(api, campaign_id, 300)
    request = {"campaign_id": campaign_id, "decision_id": new_id("why"), "context": [1, 2], "explain": True}
    first = api.post("/select", json=request)
    assert all(one["interval"] is not None for one in ok(first)["arms"])
    teach_disjoint(api, campaign_id)
    assert api.post("/select", json=request).content == first.content


def test_explanations_of_an_older_version(api: httpx.Client, api_server: Server) -> None:
    """After an upgrade, decisions that were explained before could not be repeated."""
    campaign_id = create(api, multi_armed())
    request = {"campaign_id": campaign_id, "decision_id": new_id("old"), "explain": True}
    body = ok(api.post("/select", json=request))
    old = [{name: one[name] for name in ("arm_id", "estimate", "bonus", "index")} for one in body["arms"]]
    engine = create_write_engine(parse_database_url(api_server.database_url))
    with engine.begin() as connection:
        values = {"explanation": orjson.dumps(old).decode(), "id": request["decision_id"]}
        connection.execute(text("UPDATE decisions SET explanation = :explanation WHERE decision_id = :id"), values)
    engine.dispose()
    reward(api, request["decision_id"], 1.0)  # the process remembers a decision until its reward comes
    again = ok(api.post("/select", json=request))
    unknown = dict.fromkeys(("propensity", "interval", "interval_note", "contributions", "limits"))
    assert again["arms"] == [one | unknown for one in old]


def test_large_explanations_are_cut(api: httpx.Client) -> None:
    """A thousand explained selects with thousands of numbers each would fill the disk."""
    arms = [{"arm_id": f"a{number}", "features": [number, *([1] * 99)]} for number in range(30)]
    campaign_id = create(api, shared(model={"type": "shared", "dimension": 100, "intercept": False}, arms=arms))
    found = select(api, campaign_id, explain=True)["arms"]
    assert [one["contributions"] is not None for one in found] == [True] * 20 + [False] * 10
    assert all(len(one["contributions"]) == 100 for one in found[:20])


@pytest.mark.parametrize("name", ["linucb", "linucb-onepass-cr", "linucb-ogd-cr"])
def test_estimators_without_history(api: httpx.Client, name: str) -> None:
    """The choice of an algorithm would break the explanation, or show an interval that descent does not have."""
    campaign_id = create(api, disjoint(risk={"measure": "mean"}, algorithm={"name": name, "warmup": 0}))
    teach_disjoint(api, campaign_id)
    for one in select(api, campaign_id, context=[0.5, 0.5], explain=True)["arms"]:
        if name == "linucb-ogd-cr":
            assert one["interval"] is None
        else:
            low, high = one["interval"]
            assert low < one["estimate"] < high
            assert 0.2 < high - low < 3  # thirty rewards of spread 1, three parameters
