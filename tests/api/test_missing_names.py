"""A name that does not exist is answered with the one that may have been meant; an id with how ids are written."""

from typing import Any

import httpx
import pytest

from tests.api.contract import create, disjoint, multi_armed, new_id, ok, problem, select, shared

ANY: dict[str, Any] = {"risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}


@pytest.mark.parametrize(
    "call", ["select", "reward", "campaign", "report", "decisions", "model", "export", "pause", "arm"]
)
def test_an_unknown_campaign_is_answered_with_the_nearest(api: httpx.Client, call: str) -> None:
    """A letter that is missing in a program's settings is looked for in the code for an hour."""
    name = new_id("delivery-of-parcels")
    create(api, multi_armed(campaign_id=name))
    wrong = name.replace("parcels", "parcel")
    replies = {
        "select": lambda: api.post("/select", json={"campaign_id": wrong}),
        "campaign": lambda: api.get(f"/campaigns/{wrong}"),
        "report": lambda: api.get(f"/campaigns/{wrong}/report"),
        "decisions": lambda: api.get(f"/campaigns/{wrong}/decisions"),
        "model": lambda: api.get(f"/campaigns/{wrong}/model"),
        "export": lambda: api.get(f"/campaigns/{wrong}/export"),
        "pause": lambda: api.patch(f"/campaigns/{wrong}", json={"status": "paused"}),
        "arm": lambda: api.post(f"/campaigns/{wrong}/arms", json={"arm_id": "c"}),
    }
    if call == "reward":
        body = problem(api.post("/reward", json={"decision_id": new_id("d"), "reward": 1}), 404)
        assert "send the decision_id with which its select was answered" in body["detail"]
        return
    body = problem(replies[call](), 404)
    assert body["detail"] == f"there is no such campaign: did you mean {name}?"


def test_an_address_of_a_page_may_have_any_characters(api: httpx.Client) -> None:
    """A mangled link to a page would be answered with an internal error on PostgreSQL."""
    assert api.get("/dashboard/campaigns/a%00b").status_code == 404


def test_an_unknown_arm_is_answered_with_the_nearest(api: httpx.Client) -> None:
    """Arms are named by people, and written by programs."""
    arms = [{"arm_id": "steady"}, {"arm_id": "bold"}, {"arm_id": "slow"}]
    campaign_id = create(api, multi_armed(arms=arms))
    changed = api.patch(f"/campaigns/{campaign_id}/arms/stedy", json={"status": "paused"})
    assert problem(changed, 404)["detail"] == "there is no such arm: did you mean steady?"
    for body, field in (
        ({"chosen_arm_id": "blod"}, "chosen_arm_id"),
        ({"eligible": ["bold", "blod"]}, "eligible"),
        ({"exclude": ["blod"]}, "exclude"),
    ):
        refused = problem(api.post("/select", json={"campaign_id": campaign_id} | body), 422, field)
        assert refused["detail"].endswith("did you mean bold?")
    decision_id = select(api, campaign_id)["decision_id"]
    sent = api.post("/reward", json={"decision_id": decision_id, "reward": 1, "arm_id": "xyz"})
    assert "the arms are steady, bold, slow" in problem(sent, 422, "arm_id")["detail"]


@pytest.mark.parametrize(
    ("body", "field", "meant"),
    [
        ({"arm": []}, "arm", "arms"),
        ({"risk": {"measure": "expectile", "downside_wieght": 4}}, "risk.downside_wieght", "downside_weight"),
        ({"algorithm": {"explorations": 2}}, "algorithm.explorations", "exploration"),
        ({"arms": [{"arm_id": "a", "feature": [1]}]}, "arms.0.feature", "features"),
        ({"model": {"type": "disjoint", "features": [{"nam": "x"}]}}, "model.features.0.nam", "name"),
    ],
)
def test_an_unknown_field_is_answered_with_the_nearest_of_its_place(
    api: httpx.Client, body: dict[str, Any], field: str, meant: str
) -> None:
    """The default would be taken in silence, or one would have to find the letter."""
    reply = problem(api.post("/campaigns", json=ANY | {"campaign_id": "c"} | body), 422, field)
    messages = {one["field"]: one["message"] for one in reply["errors"]}
    assert messages[field] == f"unknown field: did you mean {meant}?"


def test_an_unknown_field_like_no_other_is_only_unknown(api: httpx.Client) -> None:
    """A guess that is far away would send the reader the wrong way."""
    reply = problem(api.post("/select", json={"campaign_id": "c", "zzzz": 1}), 422, "zzzz")
    assert reply["errors"] == [{"field": "zzzz", "message": "unknown field"}]


def test_an_id_is_described_in_words(api: httpx.Client) -> None:
    """A regular expression is read by those who wrote it."""
    words = "must be an id: 1 to 128 letters, digits and characters of . _ ~ -, without spaces"
    reply = problem(api.post("/campaigns", json=ANY | {"campaign_id": "two words"}), 422, "campaign_id")
    assert reply["errors"][0]["message"] == words
    assert problem(api.get("/campaigns/two%20words"), 422, "campaign_id")["errors"][0]["message"] == words


def test_a_risk_tolerance_is_refused_under_its_own_name(api: httpx.Client) -> None:
    """It was answered as gamma, which the request does not have."""
    rules = {"minimum": -500, "maximum": 1000}
    body = disjoint(risk={"measure": "entropic", "risk_tolerance": 10}, reward=rules)
    reply = problem(
        api.post("/campaigns", json=body | {"campaign_id": new_id("tolerance")}), 422, "risk.risk_tolerance"
    )
    assert reply["errors"][0]["message"] == "must be at least 50 in magnitude, the range of rewards over 30"
    ok(
        api.post(
            "/campaigns",
            json=body | {"campaign_id": new_id("tolerance"), "risk": body["risk"] | {"risk_tolerance": 50}},
        ),
        201,
    )
    twice = shared(risk={"measure": "entropic", "gamma": -0.1}, reward=rules)
    problem(api.post("/campaigns", json=twice | {"campaign_id": new_id("tolerance")}), 422, "risk.gamma")


def test_a_slash_too_many_is_pointed_out(api: httpx.Client) -> None:
    """It looks right, and is another path."""
    reply = problem(api.post("/select/", json={"campaign_id": "c"}), 404)
    assert reply["detail"] == "no such path: did you mean /select?"
