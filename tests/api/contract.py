"""What the tests of the API say in the contract's words: campaigns to make, problems to expect."""

import itertools
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

PROBLEM_FIELDS = {"type", "title", "status", "detail", "errors"}
PROBLEM_BYTES_MAX = 4_000
MARKER = "xyzzyMARKERxyzzy"
"""Put into bad input; a reply that holds it echoes."""
ARMS = [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1]}]
CONFIGURATION = ("campaign_id", "description", "risk", "model", "arms", "algorithm", "reward", "seed")

on_sqlite = pytest.mark.parametrize("api_server", ["sqlite"], indirect=True, scope="session")
"""For tests that judge parsing, validation or arithmetic: what they send is answered before a database matters."""

_numbers = itertools.count(1)

Json = dict[str, Any]


def new_id(prefix: str) -> str:
    """An id that no other test uses."""
    return f"{prefix}-{next(_numbers)}"


def shared(**changes: Any) -> Json:
    """A request to create a shared campaign with the arms a and b in two dimensions, no warm-up and no floor."""
    return {
        "campaign_id": new_id("shared"),
        "risk": {"measure": "mean"},
        "model": {"type": "shared", "dimension": 2},
        "arms": ARMS,
        "algorithm": {"warmup": 0, "floor": 0},
    } | changes


def disjoint(**changes: Any) -> Json:
    """A request to create a disjoint campaign with the arms a, b and c and a context of two numbers."""
    return {
        "campaign_id": new_id("disjoint"),
        "risk": {"measure": "expectile", "level": 0.2},
        "model": {"type": "disjoint", "dimension": 2},
        "arms": [{"arm_id": name} for name in "abc"],
        "algorithm": {"warmup": 0, "floor": 0},
    } | changes


def multi_armed(**changes: Any) -> Json:
    """A request to create a campaign without features, with the arms a, b and c."""
    return {
        "campaign_id": new_id("multi-armed"),
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": name} for name in "abc"],
        "algorithm": {"warmup": 0, "floor": 0},
    } | changes


def create(api: httpx.Client, request: Json) -> str:
    """Create the campaign; its id."""
    reply = api.post("/campaigns", json=request)
    assert reply.status_code == 201, reply.text
    campaign_id: str = reply.json()["campaign_id"]
    return campaign_id


def ok(reply: httpx.Response, status: int = 200) -> Json:
    """The body of a reply that must be a success."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    body: Json = reply.json()
    return body


def select(api: httpx.Client, campaign_id: str, **fields: Any) -> Json:
    """Select, which must succeed."""
    return ok(api.post("/select", json={"campaign_id": campaign_id, **fields}))


def reward(api: httpx.Client, decision_id: str, value: float, **fields: Any) -> Json:
    """Reward, which must succeed."""
    return ok(api.post("/reward", json={"decision_id": decision_id, "reward": value, **fields}))


def teach(api: httpx.Client, campaign_id: str, rewards: Sequence[tuple[str, float]], **fields: Any) -> None:
    """Choose these arms and reward them, in this order."""
    selects = [{"campaign_id": campaign_id, "chosen_arm_id": arm_id, **fields} for arm_id, _ in rewards]
    decisions = ok(api.post("/select/batch", json={"items": selects}))["items"]
    items = [
        {"decision_id": decision["decision_id"], "reward": value}
        for decision, (_, value) in zip(decisions, rewards, strict=True)
    ]
    answers = ok(api.post("/reward/batch", json={"items": items}))["items"]
    assert [one["arm_id"] for one in answers] == [arm_id for arm_id, _ in rewards]


def model(api: httpx.Client, campaign_id: str) -> Json:
    """What the campaign's model has learned."""
    return ok(api.get(f"/campaigns/{campaign_id}/model"))


def assert_same_model(one: Json, other: Json) -> None:
    """Two campaigns have learned the same, as I3 says it: byte for byte, or to 1e-9 for the exact minimiser.

    How many fits it took depends on when the models were asked for.
    """
    apart = {"campaign_id", "convergence"}
    assert_close({k: one[k] for k in one.keys() - apart}, {k: other[k] for k in other.keys() - apart})


def assert_close(one: Any, other: Any) -> None:
    """Both are the same JSON, but for the last digits of numbers."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert_close(value, other[name])
    elif isinstance(one, list):
        for value, twin in zip(one, other, strict=True):
            assert_close(value, twin)
    elif isinstance(one, float):
        assert one == pytest.approx(other, rel=1e-9, abs=1e-12)
    else:
        assert one == other


def read(api: httpx.Client, campaign_id: str) -> Json:
    """The campaign as resolved."""
    return ok(api.get(f"/campaigns/{campaign_id}"))


def stored(api: httpx.Client, campaign_id: str) -> tuple[Json, Json]:
    """All that can be seen of a campaign: what must not change when a request is refused, unless it counts refusals."""
    learned = model(api, campaign_id)
    del learned["refused_rewards"]
    return read(api, campaign_id), learned


def problem(reply: httpx.Response, status: int, field: str | None = None) -> Json:
    """The body of a reply that must be a problem of this status, about this field, echoing nothing."""
    assert reply.status_code == status, f"{reply.status_code}: {reply.text[:500]}"
    assert reply.headers["content-type"] == "application/problem+json"
    assert len(reply.content) <= PROBLEM_BYTES_MAX
    assert MARKER not in reply.text
    body: Json = reply.json()
    assert body.get("request_id") == reply.headers.get("x-request-id")
    assert set(body) - {"request_id"} == PROBLEM_FIELDS
    assert body["status"] == status
    assert all(isinstance(body[name], str) and body[name] for name in ("type", "title", "detail"))
    assert len(body["errors"]) <= 20
    assert all(set(one) == {"field", "message"} and one["message"] for one in body["errors"])
    if field is not None:
        assert field in {one["field"] for one in body["errors"]}, body
    return body


def pages_with_limits(api: httpx.Client, name: str) -> list[str]:
    """The pages that show an arm's limits, each in a column of its own."""
    select(api, name, decision_id=f"{name}-1", explain=True)
    pages = [api.get(f"/dashboard/campaigns/{name}{page}").text for page in ("", "/try", f"/decisions/{name}-1")]
    assert all('<th scope="col">limits</th>' in text for text in pages)
    return pages
