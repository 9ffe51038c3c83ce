"""GET /decisions/{decision_id}: a decision as it was answered, and what became of it."""

import httpx
import pytest

from prudent_client import Client, NotFoundError
from tests.api.contract import Json, create, multi_armed, new_id, ok, problem, reward, select, shared


def found(api: httpx.Client, decision_id: str) -> Json:
    return ok(api.get(f"/decisions/{decision_id}"))


def test_a_decision_is_as_it_was_answered(api: httpx.Client) -> None:
    """A client that has lost the answer would act on another one."""
    campaign = create(api, shared())
    for fields in ({}, {"explain": True}, {"chosen_arm_id": "b"}, {"explore": False}):
        answered = select(api, campaign, **fields)
        again = found(api, answered["decision_id"])
        assert {name: again.pop(name) for name in ("rewarded", "due_at")} == {"rewarded": False, "due_at": None}
        assert again.pop("created_at").endswith("Z")
        assert again == answered


def test_it_says_whether_a_reward_is_still_awaited(api: httpx.Client) -> None:
    """A sender that does not know whether its reward arrived would have to send it again to find out."""
    campaign = create(api, multi_armed(reward={"timeout_seconds": 3600, "default": 0}))
    decision = select(api, campaign)["decision_id"]
    waiting = found(api, decision)
    assert waiting["due_at"] > waiting["created_at"]
    reward(api, decision, 1)
    assert (found(api, decision)["rewarded"], found(api, decision)["due_at"]) == (True, None)
    soon = create(api, multi_armed(reward={"timeout_seconds": 1e-6, "default": 0}))
    decision = select(api, soon)["decision_id"]
    problem(api.post("/reward", json={"decision_id": decision, "reward": 1}), 409)  # the default was learned instead
    assert found(api, decision)["rewarded"] is True


def test_what_is_not_there_is_not_found(api: httpx.Client) -> None:
    """A deleted campaign's decisions are gone with it, also while their rows are still being removed."""
    problem(api.get(f"/decisions/{new_id('none')}"), 404)
    problem(api.get("/decisions/not%20an%20id"), 422, "decision_id")
    problem(api.get("/decisions/d?x=1"), 422, "x")
    campaign = create(api, multi_armed())
    decision = select(api, campaign)["decision_id"]
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    problem(api.get(f"/decisions/{decision}"), 404)


def test_the_client_reads_it(api: httpx.Client) -> None:
    """What has a route of its own has a method, with the errors of every other one."""
    campaign = create(api, multi_armed())
    with Client(str(api.base_url), deadline_seconds=60) as client:
        made = client.select(campaign)
        stored = client.get_decision(made.decision_id)
        assert stored.model_dump(exclude={"rewarded", "created_at", "due_at"}) == made.model_dump()
        assert (stored.rewarded, stored.due_at) == (False, None)
        with pytest.raises(NotFoundError):
            client.get_decision(new_id("none"))
