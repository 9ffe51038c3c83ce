"""Paused and archived campaigns."""

from collections.abc import Callable

import httpx
import pytest

from tests.api.contract import (
    Json,
    assert_same_model,
    create,
    disjoint,
    model,
    ok,
    problem,
    read,
    reward,
    select,
    shared,
)

OGD = {"name": "linucb-ogd-cr", "episode_length": 3, "warmup": 0}
RIDGE = {"name": "linucb", "warmup": 0}
CAMPAIGNS = [
    lambda **changes: shared(**changes),
    lambda **changes: shared(algorithm=RIDGE, **changes),
    lambda **changes: shared(algorithm=OGD, **changes),
    lambda **changes: disjoint(**changes),
]


def change(api: httpx.Client, campaign_id: str, status: str) -> None:
    """Give the campaign another status."""
    assert ok(api.patch(f"/campaigns/{campaign_id}", json={"status": status}))["status"] == status


@pytest.mark.parametrize("make", CAMPAIGNS, ids=["exact", "ridge", "ogd", "disjoint"])
def test_paused_campaign_catches_up(api: httpx.Client, make: Callable[..., Json]) -> None:
    """After a pause the campaign would have lost what it was told meanwhile, or learned it in another order."""
    pausing, never = (create(api, make()) for _ in range(2))
    fields = {"context": [1.0, -0.5]} if read(api, pausing)["model"]["type"] == "disjoint" else {}

    def play(value: float, arm_id: str) -> list[Json]:
        decisions = [select(api, one, chosen_arm_id=arm_id, **fields) for one in (pausing, never)]
        return [reward(api, decision["decision_id"], value) for decision in decisions]

    early = [play(value, arm_id) for value, arm_id in ((1, "a"), (-2, "b"), (0.5, "a"))]
    assert all(one["learned"] for both in early for one in both)
    learned = model(api, pausing)
    change(api, pausing, "paused")
    for number, (value, arm_id) in enumerate(((3, "b"), (7, "a"), (-1, "b"), (2, "b")), start=4):
        receipt, other = play(value, arm_id)
        assert (receipt["learned"], other["learned"]) == (False, True)
        assert receipt["sequence"] == other["sequence"] == number
        assert (receipt["observations"], other["observations"]) == (3, number)
        assert reward(api, receipt["decision_id"], value) == receipt | {"duplicate": True}
    paused = model(api, pausing)
    assert paused == learned | {"head": 7}
    assert select(api, pausing, **fields)["seen"] == 3
    assert (read(api, pausing)["observations"], read(api, pausing)["head"]) == (3, 7)
    item = {"arm_id": "a", "reward": 1, **({"context": [0, 1]} if fields else {})}
    for campaign_id, learned_by_now in ((pausing, 3), (never, 8)):
        receipt = ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": [item]}))
        assert receipt == {"accepted": 1, "duplicates": 0, "observations": learned_by_now, "head": 8}
    assert model(api, pausing) == learned | {"head": 8}
    change(api, pausing, "paused")  # again: the head at the pause is still the first one
    assert model(api, pausing) == learned | {"head": 8}
    change(api, pausing, "active")
    assert_same_model(model(api, pausing), model(api, never))
    assert all(one["learned"] for one in play(1, "a"))
    assert_same_model(model(api, pausing), model(api, never))


def test_archived_campaign(api: httpx.Client) -> None:
    """A finished campaign would go on deciding, or would lose the last rewards."""
    campaign_id = create(api, shared())
    pending = select(api, campaign_id)
    change(api, campaign_id, "archived")
    problem(api.post("/select", json={"campaign_id": campaign_id}), 409)
    receipt = reward(api, pending["decision_id"], 1)
    assert (receipt["learned"], receipt["sequence"], receipt["observations"]) == (True, 1, 1)
    assert model(api, campaign_id)["observations"] == 1
    change(api, campaign_id, "active")
    assert select(api, campaign_id)["seen"] == 1


def test_archived_after_a_pause(api: httpx.Client) -> None:
    """Rewards that came during the pause would be lost when the campaign is put away."""
    campaign_id = create(api, shared())
    pending = [select(api, campaign_id)["decision_id"] for _ in range(2)]
    change(api, campaign_id, "paused")
    assert not reward(api, pending[0], 1)["learned"]
    change(api, campaign_id, "archived")
    assert reward(api, pending[1], 1)["learned"]
    assert reward(api, pending[0], 1)["learned"]
    body = model(api, campaign_id)
    assert (body["observations"], body["head"]) == (2, 2)
