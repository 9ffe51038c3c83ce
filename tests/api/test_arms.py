"""Arms that come and go at run time."""

from collections.abc import Callable

import httpx
import pytest

from tests.api.contract import (
    Json,
    create,
    disjoint,
    model,
    multi_armed,
    new_id,
    ok,
    problem,
    read,
    reward,
    select,
    shared,
    stored,
)


def test_add_an_arm(api: httpx.Client) -> None:
    """A product added to a running campaign would not be offered, or its retry would be an error."""
    campaign_id = create(api, shared())
    arm = {"arm_id": "c", "features": [0.5, 0.25]}
    expected = arm | {"value": "c", "status": "active"}
    assert ok(api.post(f"/campaigns/{campaign_id}/arms", json=arm), 201) == expected
    assert ok(api.post(f"/campaigns/{campaign_id}/arms", json=arm)) == expected
    assert read(api, campaign_id)["arms"][-1] == expected
    assert select(api, campaign_id, eligible=["c"])["arm_id"] == "c"
    problem(api.post(f"/campaigns/{campaign_id}/arms", json=arm | {"features": [0.5, 0.26]}), 409, "arm_id")
    problem(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "c"}), 409, "arm_id")
    assert read(api, campaign_id)["arms"][-1] == expected


def test_added_arm_of_a_disjoint_campaign_has_its_own_parameter(api: httpx.Client) -> None:
    """A new arm would inherit another's estimate, or adding it would forget what the others learned."""
    campaign_id = create(api, disjoint())
    for _ in range(3):
        decision = select(api, campaign_id, context=[1, 0], eligible=["a"])
        reward(api, decision["decision_id"], 10)
    before = model(api, campaign_id)
    ok(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "d"}), 201)
    after = model(api, campaign_id)
    assert [arm["theta"] for arm in after["arms"][:3]] == [arm["theta"] for arm in before["arms"]]
    assert after["arms"][3]["theta"][:2] == [0, 0]  # then the centre of the rewards
    decision = select(api, campaign_id, context=[1, 0], eligible=["d"])
    assert reward(api, decision["decision_id"], -4)["sequence"] == 4
    assert model(api, campaign_id)["arms"][3]["theta"][0] < 0


def test_added_arm_is_warmed_up(api: httpx.Client) -> None:
    """A new arm could go unplayed for good, because the old ones have better estimates."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 2}))
    for _ in range(6):
        assert select(api, campaign_id)["reason"] == "warmup"
    assert select(api, campaign_id)["reason"] == "index"
    ok(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "d"}), 201)
    chosen = [select(api, campaign_id) for _ in range(3)]
    assert [(one["arm_id"], one["reason"]) for one in chosen[:2]] == [("d", "warmup")] * 2
    assert chosen[2]["reason"] == "index"


@pytest.mark.parametrize(
    ("make", "arm", "field"),
    [
        (shared, {"arm_id": "c", "features": [1]}, "features"),
        (shared, {"arm_id": "c", "features": [1, 2, 3]}, "features"),
        (shared, {"arm_id": "c", "features": []}, "features"),
        (disjoint, {"arm_id": "d", "features": [1, 2]}, "features"),
        (multi_armed, {"arm_id": "d", "features": [1]}, "features"),
        (shared, {"arm_id": "c", "status": "paused"}, "status"),
        (shared, {"features": [1, 2]}, "arm_id"),
    ],
)
def test_arm_that_does_not_fit(api: httpx.Client, make: Callable[[], Json], arm: Json, field: str) -> None:
    """An arm that no select could score would be registered, and every select would fail."""
    campaign_id = create(api, make())
    before = stored(api, campaign_id)
    body = problem(api.post(f"/campaigns/{campaign_id}/arms", json=arm), 422, field)
    assert stored(api, campaign_id) == before
    if field == "features" and make is shared and arm["features"]:
        assert f"expected 2 features, received {len(arm['features'])}" in body["detail"]


def test_arm_of_a_campaign_that_is_none(api: httpx.Client) -> None:
    """An arm could be added to nothing."""
    campaign_id = new_id("none")
    problem(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "a"}), 404)
    problem(api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": "paused"}), 404)
    problem(api.patch(f"/campaigns/{create(api, shared())}/arms/z", json={"status": "paused"}), 404)


def test_arms_of_a_disjoint_campaign_are_bounded(api: httpx.Client) -> None:
    """A campaign could grow at run time to matrices that do not fit into memory."""
    arms = [{"arm_id": str(number)} for number in range(15)]
    campaign_id = create(api, disjoint(model={"type": "disjoint", "dimension": 512, "intercept": False}, arms=arms))
    body = problem(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "one-too-many"}), 422, "arm_id")
    assert "4000000" in body["detail"]


@pytest.mark.parametrize("status", ["paused", "retired"])
def test_inactive_arm_is_not_chosen(api: httpx.Client, status: str) -> None:
    """A withdrawn treatment would still be recommended."""
    campaign_id = create(api, shared(algorithm={"warmup": 3}))
    arm = ok(api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": status}))
    assert arm == {"arm_id": "a", "features": [1, 0], "value": "a", "status": status}
    assert read(api, campaign_id)["arms"][0]["status"] == status
    assert model(api, campaign_id)["arms"][0]["status"] == status
    assert {select(api, campaign_id)["arm_id"] for _ in range(5)} == {"b"}
    listed = [{"arm_id": "a", "features": [9, 9]}, {"arm_id": "b"}]
    assert select(api, campaign_id, arms=listed, explain=True)["arms"][0]["arm_id"] == "b"
    assert select(api, campaign_id, exclude=["a"])["arm_id"] == "b"
    ok(api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": "active"}))
    assert select(api, campaign_id, eligible=["a"])["arm_id"] == "a"
    assert select(api, campaign_id)["reason"] == "warmup"


@pytest.mark.parametrize("status", ["paused", "retired"])
def test_eligible_names_an_inactive_arm(api: httpx.Client, status: str) -> None:
    """An application that insists on a withdrawn arm would silently get another one."""
    campaign_id = create(api, disjoint())
    ok(api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": status}))
    request = {"campaign_id": campaign_id, "context": [1, 1], "eligible": ["b", "a"]}
    assert status in problem(api.post("/select", json=request), 422, "eligible")["detail"]


def test_no_arm_left(api: httpx.Client) -> None:
    """With every arm paused, a select would be a server error, or would choose a paused one."""
    campaign_id = create(api, multi_armed())
    for name in "abc":
        ok(api.patch(f"/campaigns/{campaign_id}/arms/{name}", json={"status": "paused"}))
    problem(api.post("/select", json={"campaign_id": campaign_id}), 422, "arms")


def test_reward_of_an_arm_retired_meanwhile(api: httpx.Client) -> None:
    """B23. What came of the last decisions for an arm would be lost when it is withdrawn."""
    campaign_id = create(api, disjoint(arms=[{"arm_id": "a"}]))
    ok(api.post(f"/campaigns/{campaign_id}/arms", json={"arm_id": "b"}), 201)
    first = select(api, campaign_id, context=[1, 0], eligible=["b"])
    pending = select(api, campaign_id, context=[1, 0], eligible=["b"])
    assert reward(api, first["decision_id"], 1)["learned"]
    before = model(api, campaign_id)["arms"][1]["theta"]
    ok(api.patch(f"/campaigns/{campaign_id}/arms/b", json={"status": "retired"}))
    receipt = reward(api, pending["decision_id"], 3)
    assert (receipt["arm_id"], receipt["learned"], receipt["sequence"]) == ("b", True, 2)
    assert model(api, campaign_id)["arms"][1]["theta"] != before
    assert {select(api, campaign_id, context=[1, 0])["arm_id"] for _ in range(5)} == {"a"}
