"""The randomized exploration rule through the API, on both databases."""

from collections import Counter
from typing import Any

import httpx
import pytest

from tests.api.contract import Json, create, new_id, ok, on_sqlite, problem, read, reward, select

ARMS = [{"arm_id": "a"}, {"arm_id": "b"}, {"arm_id": "c"}]
RANDOMIZED: Json = {"exploration_rule": "randomized"}


def campaign(api: httpx.Client, **algorithm: Any) -> str:
    """A multi-armed campaign for the mean; returns its id."""
    body = {
        "campaign_id": new_id("exploration"),
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": ARMS,
    }
    return create(api, body | {"algorithm": RANDOMIZED | algorithm})


def play(api: httpx.Client, name: str, rounds: int, offset: float) -> list[str]:
    """Play so many rounds; the arms that were chosen, under decision ids that do not depend on the campaign's."""
    means, arms = {"a": 0.0, "b": 1.0, "c": 0.5}, []
    for number in range(rounds):
        decision = select(api, name, decision_id=f"{name}-{number}", explain=True)
        assert sum(arm["propensity"] for arm in decision["arms"]) == pytest.approx(1.0, abs=1e-12)
        stated = next(arm["propensity"] for arm in decision["arms"] if arm["arm_id"] == decision["arm_id"])
        assert decision["propensity"] == pytest.approx(stated)
        reward(api, decision["decision_id"], means[decision["arm_id"]] + (number * 7 % 5) / 5 + offset)
        arms.append(decision["arm_id"])
    return arms


def test_estimates_are_in_the_unit_of_the_rewards(api: httpx.Client) -> None:
    """What is learned relative to a centre must never be shown relative to it."""
    name = campaign(api)
    assert len(set(play(api, name, 40, offset=1000.0))) > 1
    explained = select(api, name, explain=True)
    assert all(999.0 < arm["estimate"] < 1002.0 for arm in explained["arms"])
    assert all(arm["index"] >= arm["estimate"] for arm in explained["arms"])
    model = ok(api.get(f"/campaigns/{name}/model"))
    assert all(999.0 < arm["theta"][0] < 1002.0 for arm in model["arms"])


def test_decisions_of_one_state_differ_and_repeat(api: httpx.Client) -> None:
    """While rewards are late a fixed bonus sends every decision to one arm; a retry must still find its own."""
    name = campaign(api)
    play(api, name, 24, offset=0.0)
    decisions = [select(api, name, decision_id=f"{name}-late-{number}") for number in range(60)]
    assert len({decision["seen"] for decision in decisions}) == 1
    assert len(Counter(decision["arm_id"] for decision in decisions)) > 1
    assert select(api, name, decision_id=f"{name}-late-7") == decisions[7]


def test_the_floor_and_the_uniform_share_say_so(api: httpx.Client) -> None:
    """A log's reader must be able to tell an experiment from a preference; both dials can be changed at run time."""
    name = campaign(api, uniform_share=0.5)
    play(api, name, 12, offset=0.0)
    reasons = Counter(select(api, name)["reason"] for _ in range(60))
    assert reasons["uniform"] > 5
    assert set(reasons) <= {"uniform", "index", "floor"}
    ok(api.patch(f"/campaigns/{name}", json={"algorithm": {"uniform_share": 0.0, "floor": 0.0}}))
    assert {select(api, name)["reason"] for _ in range(30)} == {"index"}


def test_defaults_depend_on_the_rule(api: httpx.Client) -> None:
    """Whoever turns no dial gets the rule that works on anybody's rewards; a noise scale is a dial of the paper's."""
    shared = {"risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 2}}
    expected: list[tuple[Json, tuple[str, float, bool]]] = [
        ({}, ("randomized", 2.0, True)),
        (RANDOMIZED, ("randomized", 2.0, True)),
        ({"exploration": 0}, ("randomized", 0.0, True)),
        ({"noise_scale": 0.5}, ("optimistic", 0.0, False)),
        (RANDOMIZED | {"noise_scale": 0.5}, ("randomized", 2.0, True)),
        ({"exploration_rule": "optimistic"}, ("optimistic", 0.0, False)),
    ]
    for algorithm, (rule, floor, intercept) in expected:
        request = shared | {"campaign_id": new_id("exploration"), "algorithm": algorithm}
        made = read(api, create(api, request))
        assert (made["algorithm"]["exploration_rule"], made["algorithm"]["floor"]) == (rule, floor)
        assert made["model"]["intercept"] is intercept
        filled_in = {name: made[name] for name in (*request, "description", "arms", "seed")}
        assert ok(api.post("/campaigns", json=filled_in)) == made


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("floor", -1.0),
        ("floor", 1e7),
        ("uniform_share", -0.1),
        ("uniform_share", 1.5),
        ("exploration_rule", "thompson"),
    ],
)
def test_dials_out_of_range_are_refused(api: httpx.Client, field: str, value: object) -> None:
    """A 422 names the field, and nothing is created."""
    name = new_id("exploration")
    body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": ARMS}
    reply = api.post("/campaigns", json=body | {"algorithm": {field: value}})
    assert problem(reply, 422)["errors"][0]["field"] == f"algorithm.{field}"
    assert api.get(f"/campaigns/{name}").status_code == 404


def test_an_arm_added_to_a_shared_campaign_is_below_the_floor(api: httpx.Client) -> None:
    """Observations of its id from before it was registered do not count for the floor."""
    body = {
        "campaign_id": new_id("exploration"),
        "risk": {"measure": "mean"},
        "model": {"type": "shared", "dimension": 1},
    }
    arms = [{"arm_id": "old", "features": [0.0]}]
    name = create(api, body | {"arms": arms, "algorithm": RANDOMIZED | {"warmup": 0}})
    listed = [{"arm_id": "old", "features": [0.0]}, {"arm_id": "new", "features": [1.0]}]
    for number in range(40):
        decision = select(api, name, arms=listed, chosen_arm_id="new" if number % 2 else "old")
        reward(api, decision["decision_id"], 1.0 if decision["arm_id"] == "old" else 0.0)
    ok(api.post(f"/campaigns/{name}/arms", json={"arm_id": "new", "features": [1.0]}), 201)
    reasons = {select(api, name)["reason"] for _ in range(80)}
    assert "floor" in reasons
    assert read(api, name)["arms"][1]["arm_id"] == "new"


@on_sqlite
@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("exploration", [-1e-9, 1e6 + 1, "much", None]),
        ("floor", [-1e-9, 1e6 + 1, "low"]),
        ("uniform_share", [-1e-9, 1 + 1e-9, "all", None]),
        ("warmup", [-1, 10_001, 0.5, None]),
        ("exploration_rule", ["thompson", 1]),
    ],
)
def test_bad_dials_change_nothing(api: httpx.Client, field: str, values: list[object]) -> None:
    """A dial out of range must be refused by name, in a creation and in a change, for every algorithm and model."""
    for name in ("linucb", "linucb-cr", "linucb-onepass-cr", "linucb-ogd-cr"):
        for model in (
            {"type": "multi-armed"},
            {"type": "shared", "dimension": 2},
            {"type": "disjoint", "dimension": 2},
        ):
            body = {"campaign_id": new_id("dials"), "risk": {"measure": "mean"}, "model": model}
            for value in values:
                reply = api.post("/campaigns", json=body | {"algorithm": {"name": name, field: value}})
                assert problem(reply, 422)["errors"][0]["field"] == f"algorithm.{field}"
            assert api.get(f"/campaigns/{body['campaign_id']}").status_code == 404
    campaign_id = campaign(api)
    before = read(api, campaign_id)
    for value in values:
        reply = api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {field: value, "delta": 0.2}})
        assert problem(reply, 422)["errors"][0]["field"] == f"algorithm.{field}"
    assert read(api, campaign_id) == before
    # the rule decides what is learned, so it cannot change
    reply = api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exploration_rule": "optimistic"}})
    assert problem(reply, 422)["errors"][0]["field"] == "algorithm.exploration_rule"
