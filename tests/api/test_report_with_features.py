"""The report of a campaign with features: which arm is best in which contexts, never that one arm is best."""

import re
from typing import Any

import httpx
import numpy as np
import pytest

from prudent.campaigns import CampaignConfiguration, RowReader, resolve
from prudent.reporting.policies import UNAVAILABLE, Seen, describe_policy, question
from prudent.store.reports import SeenRow
from prudent.store.statements import features_to_bytes
from prudent.store.tables import ArmRow
from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, select, shared

ROUTES = ("motorway", "main-road", "side-roads")
TAXI: Json = {
    "risk": {"measure": "expectile", "downside_weight": 4},
    "model": {"type": "disjoint", "dimension": 1, "features": [{"name": "rush hour"}]},
    "algorithm": {"exploration_rule": "randomized"},
    "arms": [{"arm_id": name} for name in ROUTES],
}
BY_NAME = TAXI | {
    "model": {
        "type": "disjoint",
        "features": [
            {"name": "rush hour", "kind": "boolean"},
            {"name": "weather", "kind": "category", "capacity": 2},
            {"name": "passengers", "missing": "center"},
        ],
    }
}
WEATHER = ("dry", "wet", "snow")
TRIPS, BATCH, TRIED = 240, 12, 8


def report(api: httpx.Client, campaign_id: str) -> Json:
    return ok(api.get(f"/campaigns/{campaign_id}/report"))


def minutes_to_spare(route: str, rush_hour: int, world: np.random.Generator) -> float:
    """The taxi of docs/exploration.md."""
    if route == "motorway":
        return -35.0 if rush_hour and world.random() < 1 / 3 else float(world.normal(25, 2))
    return float(world.normal(15 if route == "main-road" else 10, 2))


def by_name(hour: int, place: int) -> Json:
    """A context in named features, of which only the hour matters."""
    return {"rush hour": bool(hour), "weather": WEATHER[place % 3]} | ({"passengers": place % 4} if place % 5 else {})


def drive(api: httpx.Client, campaign_id: str, seed: int = 2, campaign: Json = TAXI) -> None:
    """Drive so many trips: at first each route in turn, as a driver who tries them, then what the service chooses."""
    ok(api.post("/campaigns", json=campaign | {"campaign_id": campaign_id}), 201)
    world = np.random.default_rng(seed)
    for batch in range(TRIPS // BATCH):
        hours = world.integers(2, size=BATCH).tolist()
        named = [by_name(hour, BATCH * batch + place) for place, hour in enumerate(hours)]
        contexts = [[hour] for hour in hours] if campaign is TAXI else named
        items: list[Json] = [{"campaign_id": campaign_id, "context": context} for context in contexts]
        if batch < TRIED:
            items = [one | {"chosen_arm_id": ROUTES[place % 3]} for place, one in enumerate(items)]
        for place, one in enumerate(items):
            one["decision_id"] = f"{campaign_id}-{batch}-{place}"
        made = ok(api.post("/select/batch", json={"items": items}))["items"]
        rewards = [
            {"decision_id": one["decision_id"], "reward": minutes_to_spare(one["arm_id"], hour, world)}
            for one, hour in zip(made, hours, strict=True)
        ]
        ok(api.post("/reward/batch", json={"items": rewards}))


def test_the_taxi(api: httpx.Client) -> None:
    """The report crowned the motorway, which is the worst route in the rush hour: half of all trips."""
    campaign_id = new_id("taxi")
    drive(api, campaign_id)
    body = report(api, campaign_id)
    learning, policy = body["learning"], body["policy"]
    for name in ("leading_arm_id", "runner_up_arm_id", "separated", "unseen_one_in"):
        assert learning[name] is None
    assert learning["undecided_arm_ids"] == []
    price = body["price_of_caution"]
    assert price.pop("sentence").startswith("With features, which arm is best depends on the context")
    assert set(price.values()) == {None}
    assert learning["note"] == policy["sentence"]
    best = {arm["arm_id"]: arm for arm in policy["arms"] if arm["share"]}
    assert best.keys() == {"motorway", "main-road"}
    assert (best["motorway"]["typical"], best["main-road"]["typical"]) == ([0.0], [1.0])
    assert best["main-road"]["ranges"] == [[1.0, 1.0]]
    assert (policy["contexts"], policy["feature_names"]) == (TRIPS, ["rush hour"])
    assert sum(arm["share"] for arm in best.values()) == pytest.approx(1)
    for words in ("motorway in", "% (rush hour 0)", "main-road in", "% (rush hour 1)"):
        assert words in policy["sentence"]
    for word in (" leads", "evidence", "separated"):
        assert word not in learning["note"]
    for arm in best.values():
        assert arm["estimates"][0]["arm_id"] == arm["arm_id"]
        ends = arm["estimates"][0]["interval"]
        assert ends is None or ends[0] < arm["estimates"][0]["estimate"] < ends[1]
    # by context beats any arm always
    assert policy["average_estimate"] > max(arm["average_estimate"] for arm in policy["arms"]) + 2


def test_the_taxi_by_name(api: httpx.Client) -> None:
    """A campaign with a boolean, a category or a missing value was reported as if it had no features: one arm led."""
    campaign_id = new_id("taxi")
    drive(api, campaign_id, campaign=BY_NAME)
    body = report(api, campaign_id)
    assert body["learning"]["leading_arm_id"] is None
    policy = body["policy"]
    for words in (r"motorway in \d+% \(rush hour no[,)]", r"main-road in \d+% \(rush hour yes[,)]"):
        assert re.search(words, policy["sentence"]), policy["sentence"]
    best = {arm["arm_id"]: arm for arm in policy["arms"] if arm["share"] > 0.1}
    assert best["main-road"]["typical"]["rush hour"] is True
    assert best["motorway"]["typical"]["weather"] in {"dry", "wet", "(other)"}
    assert best["main-road"]["ranges"][:2] == [None, None]
    assert 0 <= best["main-road"]["ranges"][2][0] <= best["main-road"]["ranges"][2][1] <= 3
    first = policy["by_feature"][0]
    assert (first["feature"], [group["value"] for group in first["groups"]]) == ("rush hour", ["no", "yes"])
    assert first["told"] > 0.5
    rush = first["groups"][1]
    assert rush["shares"]["main-road"] > 0.8
    assert sum(rush["shares"].values()) == pytest.approx(1)
    assert sum(group["contexts"] for group in first["groups"]) == policy["contexts"] == TRIPS


def test_features_of_requests_beside_those_of_arms(api: httpx.Client) -> None:
    """With features of the request a shared model chooses by request, which the report would keep to itself."""
    model = {
        "type": "shared",
        "features": [{"name": "price"}],
        "context_features": [{"name": "student", "kind": "boolean"}],
        "interactions": [["arm.price", "context.student"]],
    }
    arms = [{"arm_id": "cheap", "features": {"price": 1}}, {"arm_id": "dear", "features": {"price": 3}}]
    campaign_id = create(api, shared(model=model, arms=arms, algorithm={"warmup": 0, "exploration": 0}))
    items = [
        {"arm_id": arm_id, "features": {"price": price}, "context": {"student": student}, "reward": reward}
        for arm_id, price, student, reward in (
            ("cheap", 1, True, 1),
            ("dear", 3, True, -1),
            ("cheap", 1, False, 0),
            ("dear", 3, False, 2),
        )
    ] * 30
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    for student in (True, False, True, True):
        select(api, campaign_id, context={"student": student})
    body = report(api, campaign_id)
    assert body["learning"]["leading_arm_id"] is None
    (by_student,) = body["policy"]["by_feature"]
    assert by_student["feature"] == "student"
    assert by_student["told"] == pytest.approx(1)
    assert [(one["value"], one["contexts"], one["shares"]) for one in by_student["groups"]] == [
        ("no", 1, {"dear": 1}),
        ("yes", 3, {"cheap": 1}),
    ]
    assert [arm["arm_id"] for arm in body["policy"]["arms"]] == ["cheap", "dear"]
    assert body["policy"]["arms"][0]["typical"] == {"price": 1}
    assert body["policy"]["arms"][0]["estimates"]


def test_fifty_arms(api: httpx.Client) -> None:
    """Fifty arms would make a sentence that nobody reads, or fifty estimates for each of fifty contexts."""
    arms = [f"variant-{number:02}" for number in range(50)]
    request = disjoint(arms=[{"arm_id": name} for name in arms], model={"type": "disjoint", "dimension": 2})
    campaign_id, random = create(api, request), np.random.default_rng(5)
    contexts = random.normal(size=(1_000, 2)).round(3).tolist()
    items = [
        {"arm_id": arms[number % 50], "context": context, "reward": float(context[0] * np.cos(number % 50))}
        for number, context in enumerate(contexts)
    ]
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    policy = report(api, campaign_id)["policy"]
    assert len(policy["arms"]) == 50
    assert policy["contexts"] == 1_000
    assert sum(bool(arm["estimates"]) for arm in policy["arms"]) <= 8
    assert len(policy["sentence"]) < 800
    shares = [arm["share"] for arm in policy["arms"]]
    assert shares == sorted(shares, reverse=True)


def test_arms_with_features_of_their_own(api: httpx.Client) -> None:
    """In a shared model a decision knows the features of the chosen arm only: what was the best at the time counts."""
    campaign_id = create(api, shared(algorithm={"warmup": 0, "exploration": 0}))
    items = [{"arm_id": "ab"[number % 2], "reward": float(number % 2)} for number in range(40)]
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    for _ in range(3):
        select(api, campaign_id)
    select(api, campaign_id, arms=[{"arm_id": "a"}, {"arm_id": "news", "features": [0, 0.1]}], explain=True)
    body = report(api, campaign_id)
    policy = body["policy"]
    assert [(arm["arm_id"], arm["share"]) for arm in policy["arms"]] == [("b", 0.75), ("news", 0.25), ("a", 0.0)]
    assert policy["average_estimate"] is None
    assert [arm["typical"] for arm in policy["arms"]] == [[0, 1], [0, 0.1], [1, 0]]
    assert "b in 75% and news in 25%" in policy["sentence"]
    assert body["learning"]["leading_arm_id"] is None


def test_nothing_to_say_yet(api: httpx.Client) -> None:
    """A report on a campaign without decisions, rewards or arms would fail, or name a best arm."""
    for request in (disjoint(), shared(), disjoint(arms=[])):
        campaign_id = create(api, request)
        policy = report(api, campaign_id)["policy"]
        assert (policy["contexts"], policy["arms"]) == (0, [])
        assert "No rewards or no features have been seen yet" in policy["sentence"]
    campaign_id = create(api, disjoint())
    select(api, campaign_id, context=[1, 2])
    assert report(api, campaign_id)["policy"]["arms"] == []
    assert report(api, create(api, multi_armed()))["policy"] is None


def test_paused_arms_are_not_compared(api: httpx.Client) -> None:
    """An arm that cannot be chosen would be reported as the best."""
    campaign_id = create(api, TAXI | {"campaign_id": new_id("taxi")})
    items: list[dict[str, Any]] = [
        {"arm_id": arm["arm_id"], "context": [rush], "reward": {"motorway": 25, "main-road": 15}.get(arm["arm_id"], 10)}
        for arm in TAXI["arms"]
        for rush in (0, 1)
    ] * 5
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    assert report(api, campaign_id)["policy"]["arms"][0]["arm_id"] == "motorway"
    ok(api.patch(f"/campaigns/{campaign_id}/arms/motorway", json={"status": "paused"}))
    policy = report(api, campaign_id)["policy"]
    assert [arm["arm_id"] for arm in policy["arms"]] == ["main-road", "side-roads"]
    assert "main-road in all of them" in policy["sentence"]


def test_without_an_answer_the_report_says_so() -> None:
    """While the ledger cannot answer, the report would fail as a whole, or fall back to crowning an arm."""
    configuration = resolve(CampaignConfiguration.model_validate(TAXI | {"campaign_id": "taxi"}))
    rows = [SeenRow("motorway", features_to_bytes(np.array([1.0])), "motorway")]
    reader = RowReader(configuration.model)
    seen = Seen(configuration, reader, reader.vocabulary(), [ArmRow(1, 0, "motorway", "active", None, 0)], rows, 1)
    asked = question(seen)
    assert asked is not None
    found = describe_policy(seen, asked, None)
    assert (found.sentence, found.arms) == (UNAVAILABLE, [])
