"""One decision id in two campaigns: each request says which is meant, or is refused and changes nothing."""

from typing import Any

import httpx
import pytest

from prudent_client import Client, ConflictError, Receipt
from tests.api.contract import Json, create, model, multi_armed, new_id, ok, problem, reward, select


def two(api: httpx.Client, **changes: Any) -> tuple[str, list[str]]:
    """An id, and the campaigns that have each made a decision with it."""
    decision_id = new_id("same")
    campaigns = [create(api, multi_armed(**changes)) for _ in range(2)]
    for campaign in campaigns:
        select(api, campaign, decision_id=decision_id)
    return decision_id, campaigns


def observations(api: httpx.Client, campaigns: list[str]) -> list[int]:
    return [model(api, campaign)["observations"] for campaign in campaigns]


def test_a_reward_says_which_it_is_of(api: httpx.Client) -> None:
    """One campaign would learn the other's reward."""
    decision_id, campaigns = two(api)
    body: Json = {"decision_id": decision_id, "reward": 1}
    refused = problem(api.post("/reward", json=body), 409, "campaign_id")
    assert "several campaigns" in refused["detail"]
    assert observations(api, campaigns) == [0, 0]
    for number, campaign in enumerate(campaigns):
        assert reward(api, decision_id, number, campaign_id=campaign)["campaign_id"] == campaign
    problem(api.post("/reward", json=body), 409, "campaign_id")
    assert reward(api, decision_id, 1, campaign_id=campaigns[1])["duplicate"]
    third = create(api, multi_armed())
    problem(api.post("/reward", json=body | {"campaign_id": third}), 404, "campaign_id")
    problem(api.post("/reward", json=body | {"campaign_id": new_id("none")}), 404)
    assert observations(api, [*campaigns, third]) == [1, 1, 0]


def test_each_item_of_a_batch_says_which_it_is_of(api: httpx.Client) -> None:
    """A nightly file of rewards would be refused as a whole, or be learned by one of them."""
    decision_id, campaigns = two(api)
    own = select(api, campaigns[0])["decision_id"]
    items = [{"decision_id": decision_id, "reward": 1}, {"decision_id": own, "reward": 1}]
    items += [{"decision_id": decision_id, "reward": 1, "campaign_id": campaign} for campaign in campaigns]
    answers = ok(api.post("/reward/batch", json={"items": items}))["items"]
    assert [answer["status"] for answer in answers] == [409, 200, 200, 200]
    assert [answer["campaign_id"] for answer in answers[1:]] == [campaigns[0], *campaigns]
    assert observations(api, campaigns) == [2, 1]


def test_reading_activating_and_correcting_say_so_as_well(api: httpx.Client) -> None:
    """Somebody else's decision would be shown, activated or corrected."""
    decision_id, campaigns = two(api, reward={"timeout_seconds": 3600, "default": 0})
    deferred = new_id("same")
    for campaign in campaigns:
        select(api, campaign, decision_id=deferred, activation="deferred")
    third = create(api, multi_armed())
    problem(api.get(f"/decisions/{decision_id}"), 409, "campaign_id")
    problem(api.get(f"/decisions/{decision_id}", params={"campaign_id": third}), 404, "campaign_id")
    problem(api.get(f"/decisions/{decision_id}", params={"campaign_id": "not an id"}), 422, "campaign_id")
    problem(api.post(f"/decisions/{deferred}/activate"), 409, "campaign_id")
    problem(api.post(f"/decisions/{deferred}/activate", params={"campaign_id": third}), 404, "campaign_id")
    correction = {"reward": 2, "reason": "a refund"}
    reward(api, decision_id, 1, campaign_id=campaigns[1])
    problem(api.post(f"/decisions/{decision_id}/correction", json=correction), 409, "campaign_id")
    for campaign, status in ((campaigns[0], 409), (campaigns[1], 200), (third, 404), (new_id("none"), 404)):
        reply = api.post(f"/decisions/{decision_id}/correction", json=correction | {"campaign_id": campaign})
        assert reply.status_code == status, reply.text
    assert api.post(f"/decisions/{deferred}/activate", params={"campaign_id": campaigns[0]}).status_code == 204
    found = [
        [ok(api.get(f"/decisions/{one}", params={"campaign_id": campaign})) for campaign in campaigns]
        for one in (decision_id, deferred)
    ]
    assert [one["campaign_id"] for one in found[0]] == campaigns
    assert [one["rewarded"] for one in found[0]] == [False, True]
    assert [one["due_at"] is not None for one in found[1]] == [True, False]
    assert observations(api, campaigns) == [0, 2]


def test_the_id_is_free_again_once_the_other_campaign_is_deleted(api: httpx.Client) -> None:
    """Who has cleared up would have to name the campaign for ever."""
    decision_id, (one, other) = two(api)
    problem(api.get(f"/decisions/{decision_id}"), 409)
    ok(api.get(f"/decisions/{decision_id}", params={"campaign_id": one}))
    assert api.delete(f"/campaigns/{other}", params={"confirm": other}).status_code == 204
    assert ok(api.get(f"/decisions/{decision_id}"))["campaign_id"] == one
    assert reward(api, decision_id, 1)["campaign_id"] == one


def test_the_client_says_so(api: httpx.Client) -> None:
    """Its users would have to write these requests themselves."""
    decision_id, (one, other) = two(api)
    with Client(str(api.base_url), deadline_seconds=60) as client:
        with pytest.raises(ConflictError):
            client.reward(decision_id, 1.0)
        assert client.reward(decision_id, 1.0, campaign_id=one).campaign_id == one
        assert client.correct(decision_id, 2.0, "a refund", campaign_id=one).campaign_id == one
        assert client.get_decision(decision_id, campaign_id=other).rewarded is False
        client.activate(decision_id, campaign_id=other)
        (answer,) = client.reward_batch([{"decision_id": decision_id, "reward": 3, "campaign_id": other}])
        assert isinstance(answer, Receipt)
        assert answer.campaign_id == other
