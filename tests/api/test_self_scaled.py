"""The bonus self-scaled through the API, on both databases."""

from typing import Any

import httpx
import orjson
import pytest

from tests.api.contract import (
    Json,
    create,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    pages_with_limits,
    problem,
    read,
    reward,
    select,
    shared,
)

SELF_SCALED: Json = {"bonus": "self-scaled"}


def teach(api: httpx.Client, name: str, count: int, arms: str = "abc", offset: float = 0.0) -> None:
    """Rewards for so many decisions of each arm, made elsewhere."""
    rows = [
        {"arm_id": arm, "reward": offset + 0.3 * place + (number * 7 % 11) / 10}
        for number in range(count)
        for place, arm in enumerate(arms)
    ]
    ok(api.post(f"/campaigns/{name}/observations", json={"items": rows}))


def test_limits_are_shown_in_the_unit_of_the_rewards(api: httpx.Client) -> None:
    """Whoever asked for limits must find them where estimates are, around them, and where rewards are."""
    name = create(api, multi_armed(algorithm=SELF_SCALED))
    teach(api, name, 40, offset=1000.0)
    decision = select(api, name, explain=True)
    assert decision["reason"] == "index"
    for arm in decision["arms"]:
        low, high = arm["limits"]
        assert 999.0 < low < arm["estimate"] < high < 1003.0
        assert high == pytest.approx(arm["estimate"] + arm["bonus"])
    model = ok(api.get(f"/campaigns/{name}/model"))
    shown = {arm["arm_id"]: arm["limits"] for arm in model["arms"]}
    assert shown == {arm["arm_id"]: pytest.approx(arm["limits"]) for arm in decision["arms"]}
    assert model["guaranteed"] is False
    assert "calibrated by simulation" in model["guarantee_note"]
    assert [model[field] for field in ("conditioning", "noise_scale", "parameter_bound", "radius")] == [None] * 4
    assert model["arms"][0]["radius"] is None


def test_an_infinite_index_is_null(api: httpx.Client) -> None:
    """JSON has no infinity; 0 or a large number instead would be taken for a bonus. Repeats and logs agree."""
    name = create(api, multi_armed(algorithm=SELF_SCALED | {"warmup": 0}))
    teach(api, name, 30, "ab")
    decision = select(api, name, decision_id=f"{name}-1", explain=True)
    assert (decision["arm_id"], decision["reason"], decision["propensity"]) == ("c", "floor", 1.0)
    assert decision["bonus"] is decision["index"] is None
    shown = next(arm for arm in decision["arms"] if arm["arm_id"] == "c")
    assert (shown["bonus"], shown["index"], shown["limits"]) == (None, None, None)
    assert decision["arms"][0]["arm_id"] == "c"
    assert select(api, name, decision_id=f"{name}-1", explain=True) == decision
    listed = ok(api.get(f"/campaigns/{name}/decisions"))["items"]
    assert [one["bonus"] for one in listed] == [None]
    reward(api, decision["decision_id"], 0.5)
    model = ok(api.get(f"/campaigns/{name}/model"))
    assert [arm["limits"] is None for arm in model["arms"]] == [False, False, True]


def test_a_campaign_with_infinite_indices_can_be_moved(api: httpx.Client) -> None:
    """An export that cannot be imported is no backup."""
    name = create(api, multi_armed(algorithm=SELF_SCALED | {"warmup": 0}))
    teach(api, name, 25, "ab")
    made = select(api, name, decision_id=f"{name}-1", explain=True)
    exported = api.get(f"/campaigns/{name}/export")
    lines = [orjson.loads(line) for line in exported.content.splitlines()]
    assert [line["index"] for line in lines if line["kind"] == "decision"] == [None]
    assert api.delete(f"/campaigns/{name}", params={"confirm": name}).status_code == 204
    ok(api.post("/import", content=exported.content, headers={"Content-Type": "application/x-ndjson"}), 201)
    assert select(api, name, decision_id=f"{name}-1", explain=True) == made


def test_defaults_can_be_posted_again(api: httpx.Client) -> None:
    """What a reply shows is a valid request for the same campaign."""
    request = {
        "campaign_id": new_id("self-scaled"),
        "risk": {"measure": "expectile", "level": 0.2},
        "model": {"type": "shared", "dimension": 2},
        "algorithm": SELF_SCALED,
    }
    made = read(api, create(api, request))
    algorithm = made["algorithm"]
    assert (algorithm["exploration_rule"], algorithm["warmup"], algorithm["floor"]) == ("optimistic", 20, 0.0)
    assert (algorithm["regularization"], algorithm["radius"], made["warnings"]) == (None, None, [])
    assert made["model"]["intercept"] is True
    filled_in = {field: made[field] for field in (*request, "description", "arms", "seed", "reward")}
    assert ok(api.post("/campaigns", json=filled_in)) == made
    assert ok(api.post("/campaigns", json=request)) == made


REFUSED: list[tuple[str, Any]] = [
    ("noise_scale", 1.0),
    ("parameter_bound", 1.0),
    ("regularization", 1.0),
    ("conditioning", 2.0),
    ("radius", "joint"),
    ("exploration_rule", "randomized"),
    ("floor", 2.0),
    ("delta", 0.3),
]


@on_sqlite
@pytest.mark.parametrize(("field", "value"), REFUSED)
def test_dials_that_have_no_meaning_are_refused(api: httpx.Client, field: str, value: object) -> None:
    """A dial that is ignored misleads whoever turns it."""
    request = multi_armed(algorithm=SELF_SCALED | {field: value})
    assert problem(api.post("/campaigns", json=request), 422)["errors"][0]["field"] == f"algorithm.{field}"
    assert api.get(f"/campaigns/{request['campaign_id']}").status_code == 404


@on_sqlite
def test_a_measure_in_stages_cannot(api: httpx.Client) -> None:
    """Its scores are those of an estimated pseudo-reward, whose spread is not the reward's."""
    request = multi_armed(risk={"measure": "cvar", "level": 0.2}, algorithm=SELF_SCALED)
    assert problem(api.post("/campaigns", json=request), 422)["errors"][0]["field"] == "algorithm.bonus"


@on_sqlite
def test_gradient_descent_cannot(api: httpx.Client) -> None:
    """Its estimate need not be near the minimiser that the limits are about."""
    request = multi_armed(algorithm=SELF_SCALED | {"name": "linucb-ogd-cr"})
    assert problem(api.post("/campaigns", json=request), 422)["errors"][0]["field"] == "algorithm.bonus"


@on_sqlite
def test_the_bonus_is_chosen_at_creation(api: httpx.Client) -> None:
    """Scores are kept from the first reward on: a switch would show limits that rest on nothing."""
    plain, scaled = create(api, multi_armed()), create(api, multi_armed(algorithm=SELF_SCALED))
    for name, bonus in ((plain, "self-scaled"), (scaled, "local-tight")):
        before = read(api, name)
        reply = api.patch(f"/campaigns/{name}", json={"algorithm": {"bonus": bonus}})
        assert problem(reply, 422)["errors"][0]["field"] == "algorithm.bonus"
        assert read(api, name) == before
    for field, value in (("noise_scale", 1.0), ("floor", 2.0), ("delta", 0.5), ("conditioning", 2.0)):
        reply = api.patch(f"/campaigns/{scaled}", json={"algorithm": {field: value}})
        assert problem(reply, 422)["errors"][0]["field"] == f"algorithm.{field}"
    changed = ok(api.patch(f"/campaigns/{scaled}", json={"algorithm": {"delta": 0.1, "exploration": 0.5}}))
    assert changed["algorithm"]["delta"] == 0.1


def test_a_shared_campaign_knows_registered_arms_only(api: httpx.Client) -> None:
    """An arm that is nobody's would never have an index, and would be played for ever."""
    name = create(api, shared(algorithm=SELF_SCALED))
    listed = [{"arm_id": "a"}, {"arm_id": "stranger", "features": [1.0, 1.0]}]
    reply = api.post("/select", json={"campaign_id": name, "arms": listed})
    found = problem(reply, 422)["errors"][0]
    assert found["field"] == "arms.1.arm_id"
    assert "register it first" in found["message"]
    ok(api.post(f"/campaigns/{name}/arms", json={"arm_id": "stranger", "features": [1.0, 1.0]}), 201)
    assert select(api, name, arms=listed)["reason"] == "warmup"
    model = ok(api.get(f"/campaigns/{name}/model"))
    assert [arm["limits"] for arm in model["arms"]] == [None] * 3


def test_a_choice_of_the_application_has_the_index_of_its_comparison(api: httpx.Client) -> None:
    """The spread of one arm counts for the others, so an arm's bonus is that among all arms of the decision."""
    name = create(api, multi_armed(algorithm=SELF_SCALED))
    teach(api, name, 40)
    explained = {arm["arm_id"]: arm for arm in select(api, name, explain=True)["arms"]}
    for arm in "abc":
        decision = select(api, name, chosen_arm_id=arm)
        assert decision["bonus"] == pytest.approx(explained[arm]["bonus"], rel=1e-12)


def test_the_dashboard_shows_limits(api: httpx.Client) -> None:
    """Who watches a campaign for its limits looks there; other campaigns have no empty column."""
    name = create(api, multi_armed(algorithm=SELF_SCALED))
    teach(api, name, 40)
    overview, *_ = pages_with_limits(api, name)
    shown = ok(api.get(f"/campaigns/{name}/model"))["arms"][0]["limits"]
    assert f"{shown[1]:.3f}" in overview
    plain = create(api, multi_armed())
    assert '<th scope="col">limits</th>' not in api.get(f"/dashboard/campaigns/{plain}").text
