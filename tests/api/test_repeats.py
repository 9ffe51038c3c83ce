"""The same decision_id again: a retry must be answered as the first time, another request must not."""

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, reward, select, shared

ARMS = [{"arm_id": "a", "features": [0.9, 0.1]}, {"arm_id": "b", "features": [0.1, 0.9]}]


def test_same_request_same_reply(api: httpx.Client) -> None:
    """A retried request would be shown another arm than the one the customer saw."""
    campaign_id = create(api, shared(algorithm={"warmup": 1}))
    request = {"campaign_id": campaign_id, "decision_id": new_id("visit"), "arms": ARMS}
    first = api.post("/select", json=request)
    ok(first)
    assert api.post("/select", json=request).content == first.content
    for _ in range(5):
        reward(api, select(api, campaign_id)["decision_id"], 3)
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exploration": 0}}))
    ok(api.patch(f"/campaigns/{campaign_id}/arms/{first.json()['arm_id']}", json={"status": "retired"}))
    assert api.post("/select", json=request).content == first.content
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "archived"}))
    assert api.post("/select", json=request).content == first.content
    problem(api.post("/select", json=request | {"decision_id": new_id("visit")}), 409)
    assert reward(api, first.json()["decision_id"], 1)["sequence"] == 6
    assert api.post("/select", json=request).content == first.content


def test_explain_is_no_part_of_the_request(api: httpx.Client) -> None:
    """Asking for the explanation of a decision in a retry would be refused, or change the decision."""
    campaign_id = create(api, shared())
    request = {"campaign_id": campaign_id, "decision_id": new_id("visit"), "explain": True}
    explained = api.post("/select", json=request)
    assert len(ok(explained)["arms"]) == 2
    assert api.post("/select", json=request | {"explain": False}).content == explained.content
    plain = api.post("/select", json=request | {"decision_id": new_id("visit"), "explain": False})
    assert "arms" not in ok(plain)
    again = request | {"decision_id": plain.json()["decision_id"]}
    assert api.post("/select", json=again).content == plain.content


@pytest.mark.parametrize(
    ("request_", "same"),
    [
        ({"arms": ARMS}, {"arms": [{"features": [0.9, 0.1], "arm_id": "a"}, ARMS[1]]}),
        ({"arms": [{"arm_id": "a", "features": [0.0, 1]}]}, {"arms": [{"arm_id": "a", "features": [-0.0, 1.0]}]}),
        ({"eligible": ["a", "b"]}, {"eligible": ["b", "a"]}),
        ({"exclude": []}, {}),
        ({"explore": True}, {}),
        ({"chosen_arm_id": None, "context": None, "eligible": None, "arms": None}, {}),
    ],
    ids=["key-order", "negative-zero", "eligible-order", "exclude-empty", "explore", "nulls"],
)
def test_same_request_written_differently(api: httpx.Client, request_: Json, same: Json) -> None:
    """A retry by another client library, with another order of keys, would be a conflict."""
    base = {"campaign_id": create(api, shared()), "decision_id": new_id("visit")}
    first = api.post("/select", json=base | request_)
    ok(first)
    assert api.post("/select", json=base | same).content == first.content


@pytest.mark.parametrize(
    ("request_", "other"),
    [
        ({"arms": ARMS}, {"arms": ARMS[::-1]}),
        ({"arms": ARMS}, {"arms": [ARMS[0], {"arm_id": "b", "features": [0.1, 0.9000000000000001]}]}),
        ({"arms": ARMS}, {"arms": [*ARMS, {"arm_id": "c", "features": [0, 0]}]}),
        ({"arms": ARMS}, {}),
        ({"arms": [{"arm_id": "a"}, {"arm_id": "b"}]}, {}),
        ({"arms": [{"arm_id": "a"}]}, {"arms": [{"arm_id": "a", "features": [1, 0]}]}),
        ({}, {"eligible": ["a", "b"]}),
        ({"eligible": ["a"]}, {"eligible": ["a", "b"]}),
        ({}, {"exclude": ["a"]}),
        ({"exclude": ["a"]}, {"exclude": ["b"]}),
        ({"eligible": ["a"]}, {"exclude": ["b"]}),
        ({}, {"explore": False}),
        ({}, {"chosen_arm_id": "a"}),
        ({"chosen_arm_id": "a"}, {"chosen_arm_id": "b"}),
    ],
    ids=str,
)
def test_another_request(api: httpx.Client, request_: Json, other: Json) -> None:
    """Two visits that took the same id would share one decision, and one would learn the other's reward."""
    base = {"campaign_id": create(api, shared()), "decision_id": new_id("visit")}
    first = api.post("/select", json=base | request_)
    ok(first)
    problem(api.post("/select", json=base | other), 409, "decision_id")
    assert api.post("/select", json=base | request_).content == first.content


def test_eligible_arm_called_any(api: httpx.Client) -> None:
    """A restriction to the one arm called "any" would count as no restriction at all."""
    campaign_id = create(api, multi_armed(arms=[{"arm_id": "any"}, {"arm_id": "none"}]))
    base = {"campaign_id": campaign_id, "decision_id": new_id("visit")}
    ok(api.post("/select", json=base))
    problem(api.post("/select", json=base | {"eligible": ["any"]}), 409, "decision_id")


def test_another_context(api: httpx.Client) -> None:
    """The decision for one patient would be given for another."""
    base = {"campaign_id": create(api, disjoint()), "decision_id": new_id("visit")}
    ok(api.post("/select", json=base | {"context": [1, 2]}))
    problem(api.post("/select", json=base | {"context": [2, 1]}), 409, "decision_id")


def test_another_campaign(api: httpx.Client) -> None:
    """One campaign would answer with another's decision."""
    one, other = create(api, multi_armed()), create(api, shared())
    decision_id = new_id("visit")
    first, second = (select(api, campaign, decision_id=decision_id) for campaign in (one, other))
    assert [first["campaign_id"], second["campaign_id"]] == [one, other]
    assert select(api, one, decision_id=decision_id) == first
    assert select(api, other, decision_id=decision_id) == second
    problem(api.post("/select", json={"campaign_id": one, "decision_id": decision_id, "explore": False}), 409)


def test_refused_request_leaves_its_id_free(api: httpx.Client) -> None:
    """A request that was corrected after a 422 would be a conflict with its own refusal."""
    campaign_id = create(api, disjoint())
    decision_id = new_id("visit")
    problem(api.post("/select", json={"campaign_id": campaign_id, "decision_id": decision_id}), 422, "context")
    assert select(api, campaign_id, decision_id=decision_id, context=[1, 2])["decision_id"] == decision_id
