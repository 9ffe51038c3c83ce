"""Decisions with deferred activation: no play and no deadline until they are shown."""

import httpx
import pytest

from prudent_client import Client, NotFoundError
from tests.api.contract import Json, create, multi_armed, new_id, ok, problem, reward, select

STICKY = {"sticky_seconds": 366 * 86_400}
SOON = {"timeout_seconds": 1e-6, "default": 0}
"""Whatever is shown has expired at once."""


def activate(api: httpx.Client, decision_id: str) -> None:
    reply = api.post(f"/decisions/{decision_id}/activate")
    assert (reply.status_code, reply.content) == (204, b"")


def counts(api: httpx.Client, campaign: str) -> tuple[int, int, int]:
    """Plays, decisions that wait for a reward, and those whose deadline has passed."""
    report = ok(api.get(f"/campaigns/{campaign}/report"))
    return report["plays"], report["pending"], report["expired"]


def state(api: httpx.Client, campaign: str) -> Json:
    entry: Json = ok(api.get(f"/campaigns/{campaign}/decisions"))["items"][0]
    return entry


def test_what_is_never_shown_is_never_defaulted(api: httpx.Client) -> None:
    """A page that decides for ten places and shows one would teach nine defaults."""
    campaign = create(api, multi_armed(reward=SOON))
    decision = select(api, campaign, activation="deferred")["decision_id"]
    assert counts(api, campaign) == (0, 0, 0)
    assert (state(api, campaign)["state"], state(api, campaign)["due_at"]) == ("deferred", None)
    assert ok(api.get(f"/decisions/{decision}"))["due_at"] is None
    assert reward(api, decision, 1)["duplicate"] is False  # no deadline has passed
    assert counts(api, campaign) == (1, 0, 0)
    assert state(api, campaign)["state"] == "rewarded"


def test_an_activation_is_a_play_and_starts_the_deadline(api: httpx.Client) -> None:
    """Counted from the select, a deadline may have passed before the user saw anything."""
    campaign = create(api, multi_armed(reward={"timeout_seconds": 3600, "default": 0}))
    decision = select(api, campaign, activation="deferred")["decision_id"]
    activate(api, decision)
    first = ok(api.get(f"/decisions/{decision}"))
    assert first["due_at"] > first["created_at"]
    activate(api, decision)
    assert ok(api.get(f"/decisions/{decision}")) == first
    assert counts(api, campaign) == (1, 1, 0)
    reward(api, decision, 1)
    activate(api, decision)
    assert ok(api.get(f"/decisions/{decision}"))["due_at"] is None
    assert counts(api, campaign) == (1, 0, 0)
    late = create(api, multi_armed(reward=SOON))
    decision = select(api, late, activation="deferred")["decision_id"]
    activate(api, decision)
    problem(api.post("/reward", json={"decision_id": decision, "reward": 1}), 409)


def test_plays_of_the_warm_up_are_those_that_were_shown(api: httpx.Client) -> None:
    """An arm that nobody saw would count as tried."""
    campaign = create(api, multi_armed(arms=[{"arm_id": "a"}, {"arm_id": "b"}], algorithm={"warmup": 1, "floor": 0}))
    hidden = select(api, campaign, activation="deferred", exclude=["b"])["decision_id"]
    other = select(api, campaign, exclude=["a"])
    assert other["arm_id"] == "b"
    waiting = select(api, campaign, activation="deferred")
    assert (waiting["arm_id"], waiting["reason"]) == ("a", "warmup")
    activate(api, hidden)
    activate(api, hidden)
    assert select(api, campaign)["reason"] == "index"


def test_a_subject_that_is_shown_activates_what_stands(api: httpx.Client) -> None:
    """A page prefetches all flags, and then one of them is asked for."""
    campaign = create(api, multi_armed(assignment=STICKY))
    first = select(api, campaign, subject="u", activation="deferred")
    assert select(api, campaign, subject="u", activation="deferred") == first | {"repeated": True}
    assert counts(api, campaign) == (0, 0, 0)
    assert select(api, campaign, subject="u") == first | {"repeated": True}
    assert counts(api, campaign) == (1, 1, 0)


def test_the_activation_belongs_to_the_request(api: httpx.Client) -> None:
    """A retry that asks for something else must not be answered as if it did not."""
    campaign = create(api, multi_armed())
    made = select(api, campaign, decision_id=new_id("d"), activation="deferred")
    body = {"campaign_id": campaign, "decision_id": made["decision_id"]}
    assert ok(api.post("/select", json=body | {"activation": "deferred"})) == made
    problem(api.post("/select", json=body), 409)
    for bad in ("later", True, None, ""):
        problem(api.post("/select", json={"campaign_id": campaign, "activation": bad}), 422, "activation")
    problem(api.post(f"/decisions/{new_id('none')}/activate"), 404)
    problem(api.post("/decisions/not%20an%20id/activate"), 422, "decision_id")


@pytest.mark.parametrize("body", [b'{"campaign_id": "x"}', b"{", b"[]", b"null", b"\xff", b"campaign_id=x"])
def test_a_body_is_refused_and_not_ignored(api: httpx.Client, body: bytes) -> None:
    """Who sends the campaign in the body would be told to send it."""
    campaign = create(api, multi_armed(reward={"timeout_seconds": 3600, "default": 0}))
    decision = select(api, campaign, activation="deferred")["decision_id"]
    path = f"/decisions/{decision}/activate"
    for headers in ({"Content-Type": "application/json"}, {"Content-Type": "text/plain"}, {}):
        detail = problem(api.post(path, content=body, headers=headers), 422, "body")["detail"]
        assert "?campaign_id=" in detail
    assert state(api, campaign)["state"] == "deferred"


@pytest.mark.parametrize("kind", ["application/json", "application/x-www-form-urlencoded", None])
@pytest.mark.parametrize("body", [b"", b"{}", b" {\n}\n"])
def test_a_body_that_says_nothing_is_taken(api: httpx.Client, body: bytes, kind: str | None) -> None:
    """Programs send an empty object with every POST, and curl a type with an empty body."""
    campaign = create(api, multi_armed())
    decision = select(api, campaign, activation="deferred")["decision_id"]
    headers = {} if kind is None else {"Content-Type": kind}
    reply = api.post(f"/decisions/{decision}/activate", content=body, headers=headers)
    assert (reply.status_code, reply.content) == (204, b"")
    assert counts(api, campaign) == (1, 1, 0)


def test_it_moves_with_its_campaign(api: httpx.Client) -> None:
    """What was never shown would be defaulted after a move."""
    campaign = create(api, multi_armed(reward={"timeout_seconds": 3600, "default": 0}))
    ids = [select(api, campaign, activation="deferred")["decision_id"] for _ in range(3)]
    activate(api, ids[0])
    reward(api, ids[1], 1)
    exported = api.get(f"/campaigns/{campaign}/export")
    before = counts(api, campaign)
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    headers = {"Content-Type": "application/x-ndjson"}
    assert api.post("/import", content=exported.content, headers=headers).status_code == 201
    assert counts(api, campaign) == before == (2, 1, 0)
    assert ok(api.get(f"/decisions/{ids[2]}"))["due_at"] is None
    assert reward(api, ids[2], 1)["duplicate"] is False
    again = api.get(f"/campaigns/{campaign}/export").text.splitlines()
    activations = [line.partition('"activation":')[2][:11] for line in again if '"kind":"decision"' in line]
    assert all(one.startswith('"20') for one in activations)


def test_the_client_activates(api: httpx.Client) -> None:
    """What the service can do, the client can."""
    campaign = create(api, multi_armed())
    with Client(str(api.base_url), deadline_seconds=60) as client:
        decision = client.select(campaign, activation="deferred")
        assert counts(api, campaign) == (0, 0, 0)
        client.activate(decision.decision_id)
        assert counts(api, campaign) == (1, 1, 0)
        with pytest.raises(NotFoundError):
            client.activate(new_id("none"))
