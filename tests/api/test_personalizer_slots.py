"""Personalizer's events with several slots: ranked, shown and rewarded together."""

import httpx
import pytest

from prudent.api.doors.rank_requests import slot_id_of
from tests.api.contract import Json, create, ok
from tests.api.test_personalizer import ACTIONS, RANK, meals, refused, slots_path


def test_each_slot_has_an_action_of_its_own(api: httpx.Client) -> None:
    """A page would show the same twice, or an empty place."""
    campaign_id = create(api, meals())
    slots = [
        {"id": "hero", "features": [{"size": "large"}], "excludedActions": ["salad"], "baselineAction": "ice cream"},
        {"id": "left side", "features": [{"size": "small"}], "baselineAction": "salad"},
        {"id": "footer", "excludedActions": ["ice cream", "salad", "Säfte/Juices"], "baselineAction": "pasta"},
    ]
    asked = {"contextFeatures": RANK["contextFeatures"], "actions": ACTIONS, "slots": slots, "deferActivation": True}
    for number in range(12):
        event = f"page {number}"
        filled = ok(api.post(slots_path(campaign_id, "rank"), json=asked | {"eventId": event}), 201)
        assert ok(api.post(slots_path(campaign_id, "rank"), json=asked | {"eventId": event}), 201) == filled
        chosen = {slot["id"]: slot["rewardActionId"] for slot in filled["slots"]}
        assert list(chosen) == ["hero", "left side", "footer"]
        assert len(set(chosen.values())) == 3
        assert chosen["footer"] == "pasta"  # kept for it, as nothing else is allowed there
        assert chosen["hero"] != "salad"
    assert ok(api.get(f"/campaigns/{campaign_id}/report"))["plays"] == 0
    assert api.post(slots_path(campaign_id, "events/page%201/activate")).status_code == 204
    assert ok(api.get(f"/campaigns/{campaign_id}/report"))["plays"] == 3
    rewards = {"reward": [{"slotId": "hero", "value": 1}, {"slotId": "left side", "value": 0}]}
    assert api.post(slots_path(campaign_id, "events/page%201/reward"), json=rewards).status_code == 204
    assert api.post(slots_path(campaign_id, "events/page%201/reward"), json=rewards).status_code == 204
    assert ok(api.get(f"/campaigns/{campaign_id}"))["observations"] == 2
    hero = ok(api.get(f"/decisions/{slot_id_of(campaign_id, 'page 1', 'hero')}"))
    assert hero["rewarded"]
    nowhere = {"reward": [{"slotId": "attic", "value": 1}]}
    refused(api.post(slots_path(campaign_id, "events/page%201/reward"), json=nowhere), 404, "reward.0.slotId")
    refused(api.post(slots_path(campaign_id, "events/page/reward"), json=nowhere), 404)
    refused(api.post(slots_path(campaign_id, "events/page/activate")), 404)
    for field, slot in (
        ("slots.1.id", slots[0] | {"baselineAction": "salad"}),
        ("slots.1.baselineAction", slots[1] | {"baselineAction": "ice cream"}),
        ("slots.1.baselineAction", slots[1] | {"excludedActions": ["salad"]}),
        ("slots.1.baselineAction", slots[1] | {"baselineAction": "soup"}),
    ):
        refused(api.post(slots_path(campaign_id, "rank"), json=asked | {"slots": [slots[0], slot]}), 400, field)
    for missing in ("id", "baselineAction"):
        slot = {name: value for name, value in slots[0].items() if name != missing}
        refused(api.post(slots_path(campaign_id, "rank"), json=asked | {"slots": [slot]}), 400, f"slots.0.{missing}")


def test_rewards_of_slots_are_learned_together_or_not_at_all(api: httpx.Client) -> None:
    """A client that corrects a refused request and sends it again would have half of it counted as different."""
    campaign_id = create(api, meals())
    actions = [{"id": name, "features": []} for name in ("pasta", "juice")]
    slots = [{"id": "s1", "baselineAction": "pasta"}, {"id": "s2", "baselineAction": "juice"}]
    asked = {"contextFeatures": [], "actions": actions, "slots": slots, "eventId": "part"}
    ok(api.post(slots_path(campaign_id, "rank"), json=asked), 201)
    address, good = slots_path(campaign_id, "events/part/reward"), {"slotId": "s1", "value": 0.5}
    for bad, status, target in (
        ({"slotId": "zz", "value": 1}, 404, "reward.1.slotId"),
        ({"slotId": "s2", "value": 2}, 400, "reward.1.value"),
    ):
        error = refused(api.post(address, json={"reward": [good, bad]}), status, target)
        assert error["message"].startswith(f"{target}: ")
    decision = ok(api.get(f"/decisions/{slot_id_of(campaign_id, 'part', 's1')}"))
    assert not decision["rewarded"]
    assert ok(api.get(f"/campaigns/{campaign_id}"))["observations"] == 0
    rewards = {"reward": [good, {"slotId": "s2", "value": 1}]}
    assert api.post(address, json=rewards).status_code == 204
    assert ok(api.get(f"/campaigns/{campaign_id}"))["observations"] == 2


@pytest.mark.parametrize(
    ("body", "target"),
    [
        ({}, "reward"),
        ({"reward": []}, "reward"),
        ({"reward": [{"slotId": "s1", "value": "x"}]}, "reward.0.value"),
        ({"reward": [{"value": 1}]}, "reward.0.slotId"),
    ],
)
def test_a_bad_reward_of_slots_names_the_field_that_is_there(api: httpx.Client, body: Json, target: str) -> None:
    """Its sender would look for a field that the request does not have."""
    address = slots_path(create(api, meals()), "events/e/reward")
    assert refused(api.post(address, json=body), 400, target)["message"].startswith(f"{target}: ")
