"""Selects and rewards for subjects: one decision stands for a while, on both databases and by both ways."""

import json
from typing import Any

import httpx
import pytest

from prudent_client import Client, ConflictError, NotFoundError, Reward, Select
from tests.api.contract import MARKER, Json, create, disjoint, multi_armed, new_id, ok, problem, reward, select, shared
from tests.api.test_fast_lane import answers

STICKY = {"sticky_seconds": 366 * 86_400}
"""So that hardly any run meets the end of a window; `tests/ledger/test_subjects.py` moves the clock over one."""


def reward_for(api: httpx.Client, campaign: str, subject: str, value: float, **fields: Any) -> Json:
    body = {"campaign_id": campaign, "subject": subject, "reward": value, **fields}
    return ok(api.post("/reward", json=body))


def test_the_first_decision_stands(api: httpx.Client) -> None:
    """A user would see another arm whenever a page is drawn again, or an attribute changes."""
    campaign = create(api, disjoint(assignment=STICKY))
    first = select(api, campaign, subject="u1", context=[1, 2])
    assert (first["repeated"], first["arm_available"]) == (False, True)
    for fields in ({"context": [1, 2]}, {"context": [9, -9]}, {"context": [0, 0, 0]}, {"context": {"x": "y"}}, {}):
        again = select(api, campaign, subject="u1", **fields)
        assert again == first | {"repeated": True}
    another = select(api, campaign, subject="u2", context=[1, 2])
    assert another["decision_id"] != first["decision_id"]
    assert ok(api.get(f"/decisions/{first['decision_id']}"))["arm_id"] == first["arm_id"]
    assert api.get(f"/campaigns/{campaign}/export").text.count('"kind":"decision"') == 2


def test_an_arm_that_went_still_comes_and_says_so(api: httpx.Client) -> None:
    """The user has seen it; whether the application can still show it is the application's to say."""
    campaign = create(api, shared(assignment=STICKY))
    first = select(api, campaign, subject="u", chosen_arm_id="a")
    assert first["arm_id"] == "a"
    features = {"features": [1, 0]}
    for fields, is_available in (
        ({"exclude": ["a"]}, False),
        ({"eligible": ["b"]}, False),
        ({"arms": [{"arm_id": "b", **features}]}, False),
        ({"arms": [{"arm_id": "a", **features}], "eligible": ["a"]}, True),
        ({"exclude": ["b"]}, True),
    ):
        again = select(api, campaign, subject="u", **fields)
        assert (again["arm_id"], again["repeated"], again["arm_available"]) == ("a", True, is_available), fields
    ok(api.patch(f"/campaigns/{campaign}/arms/a", json={"status": "retired"}))
    again = select(api, campaign, subject="u")
    assert (again["arm_id"], again["arm_available"]) == ("a", False)


def test_a_subject_is_rewarded_once(api: httpx.Client) -> None:
    """Whoever sees the outcome knows the user, and not the id of a decision that another program made."""
    campaign, other = (create(api, multi_armed(assignment=STICKY)) for _ in range(2))
    decision = select(api, campaign, subject="u")
    receipt = reward_for(api, campaign, "u", 1)
    assert (receipt["decision_id"], receipt["duplicate"]) == (decision["decision_id"], False)
    assert reward_for(api, campaign, "u", 1) == receipt | {"duplicate": True}
    assert reward(api, decision["decision_id"], 1, campaign_id=campaign)["duplicate"] is True
    problem(api.post("/reward", json={"campaign_id": campaign, "subject": "u", "reward": 2}), 409)
    problem(api.post("/reward", json={"campaign_id": other, "subject": "u", "reward": 1}), 404)
    problem(api.post("/reward", json={"campaign_id": campaign, "subject": "v", "reward": 1}), 404)
    problem(api.post("/reward", json={"campaign_id": new_id("none"), "subject": "u", "reward": 1}), 404)
    assert select(api, other, subject="u")["decision_id"].split("-")[2] != decision["decision_id"].split("-")[2]


def test_pages_evaluated_five_times_each_learn_what_was_shown(api: httpx.Client) -> None:
    """Four of five decisions would have been seen by nobody, and learned the default."""
    rules = {"timeout_seconds": 3600, "default": 0}
    campaign = create(api, multi_armed(arms=[{"arm_id": "a"}], assignment=STICKY, reward=rules))
    for page in range(20):
        for _ in range(5):
            select(api, campaign, subject=f"page {page}")
        reward_for(api, campaign, f"page {page}", 1)
    report = ok(api.get(f"/campaigns/{campaign}/report"))
    assert (report["plays"], report["pending"]) == (20, 0)
    assert (report["arms"][0]["rewards"]["n"], report["arms"][0]["rewards"]["mean"]) == (20, 1.0)


def test_without_stickiness_each_request_decides_anew(api: httpx.Client) -> None:
    """A campaign that does not ask for it keeps deciding for each request."""
    campaign = create(api, multi_armed())
    made = [select(api, campaign, subject="u") for _ in range(3)]
    batch = ok(api.post("/select/batch", json={"items": [{"campaign_id": campaign, "subject": "u"}] * 3}))["items"]
    assert len({one["decision_id"] for one in made + batch}) == 6
    assert not any(one["repeated"] for one in made + batch)
    reward(api, made[0]["decision_id"], 1)
    body = {"campaign_id": campaign, "subject": "u", "reward": 1}
    assert "decision_id" in problem(api.post("/reward", json=body), 422, "subject")["detail"]


def test_a_contradiction_is_refused(api: httpx.Client) -> None:
    """A reward for a decision of another campaign is a mistake, and may be learned by neither."""
    one, other = create(api, multi_armed(assignment=STICKY)), create(api, multi_armed())
    decision = select(api, one, subject="u")["decision_id"]
    body = {"decision_id": decision, "reward": 1}
    problem(api.post("/reward", json=body | {"campaign_id": other}), 404, "campaign_id")
    problem(api.post("/reward", json=body | {"campaign_id": new_id("none")}), 404)
    problem(api.post("/reward", json={"decision_id": new_id("none"), "campaign_id": one, "reward": 1}), 404)
    both = {"decision_id": decision, "subject": "u", "campaign_id": one}
    problem(api.post("/select", json=both), 422, "subject")
    problem(api.post("/reward", json=both | {"reward": 1}), 422, "subject")
    problem(api.post("/reward", json={"subject": "u", "reward": 1}), 422, "campaign_id")
    problem(api.post("/reward", json={"campaign_id": one, "reward": 1}), 422, "decision_id")
    problem(api.post("/reward", json={"reward": 1}), 422, "decision_id")
    for bad in ("", "x" * 257, 7, ["u"], {MARKER: 1}):
        problem(api.post("/select", json={"campaign_id": one, "subject": bad}), 422, "subject")
    problem(api.post("/select", json={"campaign_id": one, "decision_id": decision}), 409)
    assert ok(api.get(f"/decisions/{decision}"))["rewarded"] is False
    for seconds in (59, 366 * 86_400 + 1, 60.5, "60", True):
        bad_campaign = multi_armed(assignment={"sticky_seconds": seconds})
        problem(api.post("/campaigns", json=bad_campaign), 422, "assignment.sticky_seconds")


def test_both_ways_answer_the_same(api: httpx.Client) -> None:
    """The fast lane knows subjects, or leaves them to the application: nobody may see a difference."""
    campaign = create(api, multi_armed(assignment=STICKY))
    body = json.dumps({"campaign_id": campaign, "subject": "ü ☃"})
    select(api, campaign, subject="ü ☃")
    lane, application = answers(api, "/select", body)
    assert lane == application
    assert json.loads(lane["content"])["repeated"] is True
    reward_for(api, campaign, "ü ☃", 1)
    lane, application = answers(api, "/reward", json.dumps({"campaign_id": campaign, "subject": "ü ☃", "reward": 1}))
    assert lane == application
    for path, wrong in (
        ("/select", {"campaign_id": campaign, "subject": ""}),
        ("/select", {"campaign_id": campaign, "subject": "u", "decision_id": "d"}),
        ("/reward", {"campaign_id": campaign, "subject": "nobody", "reward": 1}),
        ("/reward", {"subject": "u", "reward": 1}),
        ("/reward", {"reward": 1}),
    ):
        lane, application = answers(api, path, json.dumps(wrong))
        assert lane == application
        assert lane["status"] in {404, 422}


def test_subjects_move_with_their_campaign(api: httpx.Client) -> None:
    """After a move every user would be decided anew, and rewards of before would find nothing."""
    campaign = create(api, multi_armed(assignment=STICKY))
    before = [select(api, campaign, subject=f"{MARKER} {number}") for number in range(5)]
    exported = api.get(f"/campaigns/{campaign}/export")
    assert MARKER not in exported.text
    ok(api.get(f"/campaigns/{campaign}"))
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    headers = {"Content-Type": "application/x-ndjson"}
    assert api.post("/import", content=exported.content, headers=headers).status_code == 201
    for number, one in enumerate(before):
        assert select(api, campaign, subject=f"{MARKER} {number}") == one | {"repeated": True}
    assert reward_for(api, campaign, f"{MARKER} 0", 1)["decision_id"] == before[0]["decision_id"]


def test_the_client_knows_subjects(api: httpx.Client) -> None:
    """What the service can do, the client can."""
    campaign = create(api, multi_armed(assignment=STICKY))
    with Client(str(api.base_url), deadline_seconds=60) as client:
        first = client.select(campaign, subject="u")
        assert client.select(campaign, subject="u") == first.model_copy(update={"repeated": True})
        assert client.reward_subject(campaign, "u", 1.0).decision_id == first.decision_id
        assert client.get_campaign(campaign).assignment == STICKY
        with pytest.raises(ConflictError):
            client.reward_subject(campaign, "u", 2.0)
        requests = [Select(campaign_id=campaign, subject=name) for name in ("u", "v")]
        assert requests[0].decision_id is None
        decided = client.select_batch(requests)
        assert [one.repeated for one in decided] == [True, False]  # type: ignore[union-attr]  # no errors
        rewards = [Reward(None, 1.0, campaign_id=campaign, subject=name) for name in ("v", "w")]
        rewarded = client.reward_batch(rewards)
        assert isinstance(rewarded[1], NotFoundError)
        assert rewarded[1].item == "w"
