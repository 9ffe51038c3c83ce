"""Values of arms: what the application shows or does for them, carried by decisions and learned by nobody."""

import json
from typing import Any

import httpx
import pytest

from prudent_client import Client, ConflictError, InvalidRequestError
from tests.api.contract import ARMS, Json, create, model, multi_armed, ok, problem, read, select, shared, teach

BIG = "x" * 16_382
"""With its quotes, 16 KiB."""
KINDS: list[tuple[Any, Any]] = [
    ("red", "blue"),
    (1, 2),
    (1.0, 2.5),
    (True, False),
    ({"a": [1]}, {"b": None}),
    ([1, "x"], []),
]


def arms(*values: Any) -> list[Json]:
    return [{"arm_id": name} | ({} if value is None else {"value": value}) for name, value in zip("abc", values)]  # noqa: B905


@pytest.mark.parametrize("pair", KINDS, ids=str)
def test_a_decision_carries_its_arms_value(api: httpx.Client, pair: tuple[Any, Any]) -> None:
    """An application would need a table of its own, to be changed with each arm."""
    campaign = create(api, multi_armed(arms=arms(*pair)))
    for place, name in enumerate("ab"):
        made = select(api, campaign, chosen_arm_id=name)
        assert json.dumps(made["value"]) == json.dumps(pair[place])
        assert ok(api.get(f"/decisions/{made['decision_id']}"))["value"] == made["value"]
    shown = read(api, campaign)["arms"]
    assert json.dumps([arm["value"] for arm in shown]) == json.dumps(list(pair))


def test_the_arms_id_is_the_default(api: httpx.Client) -> None:
    """Whoever asks for a value always gets one."""
    campaign = create(api, shared())
    assert [arm["value"] for arm in read(api, campaign)["arms"]] == ["a", "b"]
    assert select(api, campaign, chosen_arm_id="b")["value"] == "b"
    listed = select(api, campaign, arms=[{"arm_id": "new", "features": [1, 0]}])
    assert listed["value"] == "new"
    said = shared(arms=[arm | {"value": arm["arm_id"]} for arm in ARMS])
    assert ok(api.post("/campaigns", json=shared(campaign_id=create(api, said))))["arms"] == read(api, campaign)["arms"]
    mixed = create(api, multi_armed(arms=arms("red", None)))
    assert [arm["value"] for arm in read(api, mixed)["arms"]] == ["red", "b"]


def test_a_value_changes_without_a_trace_in_what_was_learned(api: httpx.Client) -> None:
    """A new picture for an arm must not make it start anew."""
    campaign = create(api, multi_armed(arms=arms(1, 2)))
    teach(api, campaign, [("a", 1.0), ("b", 0.5), ("a", 0.9)])
    before, decision = model(api, campaign), select(api, campaign, chosen_arm_id="a", decision_id=f"{campaign}-d")
    path = f"/campaigns/{campaign}/arms/a"
    assert ok(api.patch(path, json={"value": 7}))["value"] == 7
    assert model(api, campaign) == before
    again = select(api, campaign, chosen_arm_id="a", decision_id=f"{campaign}-d")
    assert again == decision | {"value": 7}
    assert ok(api.patch(path, json={"status": "paused"})) == {
        "arm_id": "a",
        "features": None,
        "value": 7,
        "status": "paused",
    }
    assert ok(api.patch(path, json={"status": "active", "value": 8}))["status"] == "active"


def test_all_values_are_of_one_type(api: httpx.Client) -> None:
    """A typed flag that is a number for one user and a text for another breaks the application."""
    for bad in (arms(1, "x"), arms("x", True), arms(True, 1), arms(1, None), arms({}, [])):
        problem(api.post("/campaigns", json=multi_armed(arms=bad)), 422, "arms.1.value")
    campaign = create(api, multi_armed(arms=arms(1, 2)))
    path = f"/campaigns/{campaign}/arms"
    before = read(api, campaign)
    for bad in ("x", True, None, [1], {"x": 1}):
        problem(api.post(path, json={"arm_id": "c", "value": bad}), 422, "value")
        problem(api.patch(f"{path}/a", json={"value": bad}), 422, "value")
    problem(api.post(path, json={"arm_id": "c"}), 422, "value")
    problem(api.post(path, json={"arm_id": "a", "value": 3}), 409)
    problem(api.patch(f"{path}/a", json={}), 422, "status")
    problem(api.patch(f"{path}/a", json={"status": None}), 422, "status")
    assert read(api, campaign) == before
    assert ok(api.post(path, json={"arm_id": "c", "value": 3}), 201)["value"] == 3
    assert ok(api.post(path, json={"arm_id": "c", "value": 3}))["value"] == 3
    alone = create(api, multi_armed(arms=arms(1)))
    assert ok(api.patch(f"/campaigns/{alone}/arms/a", json={"value": "x"}))["value"] == "x"


def test_values_have_limits(api: httpx.Client) -> None:
    """What cannot be answered as it was sent must not be stored."""
    create(api, multi_armed(arms=arms(BIG)))
    problem(api.post("/campaigns", json=multi_armed(arms=arms(BIG + "x"))), 422, "arms.0.value")
    for bad in ("NaN", "Infinity", "1e999", "18446744073709551616", '{"x": [1e999]}', '{"x": 1, "x": 2}'):
        body = json.dumps(multi_armed(arms=[{"arm_id": "a", "value": 0}])).replace('"value": 0', f'"value": {bad}')
        reply = api.post("/campaigns", content=body, headers={"Content-Type": "application/json"})
        problem(reply, 422)


def test_values_move_with_their_campaign(api: httpx.Client) -> None:
    """A moved campaign would answer with ids where the application expects its values."""
    campaign = create(api, multi_armed(arms=arms({"colour": "red"}, {"colour": "blue"})))
    ok(api.patch(f"/campaigns/{campaign}/arms/b", json={"value": {"colour": "green"}}))
    before = read(api, campaign)
    exported = api.get(f"/campaigns/{campaign}/export")
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    headers = {"Content-Type": "application/x-ndjson"}
    assert api.post("/import", content=exported.content, headers=headers).status_code == 201
    assert read(api, campaign)["arms"] == before["arms"]
    assert select(api, campaign, chosen_arm_id="b")["value"] == {"colour": "green"}


def test_the_client_knows_values(api: httpx.Client) -> None:
    """What the service can do, the client can."""
    campaign = create(api, multi_armed(arms=arms(1, 2)))
    with Client(str(api.base_url), deadline_seconds=60) as client:
        assert client.select(campaign, chosen_arm_id="b").value == 2
        assert client.change_arm(campaign, "b", value=3).value == 3
        assert client.change_arm(campaign, "b", "paused").value == 3
        assert client.add_arm(campaign, "c", value=4).value == 4
        with pytest.raises(ConflictError):
            client.add_arm(campaign, "c", value=5)
        with pytest.raises(InvalidRequestError, match="value"):
            client.add_arm(campaign, "d")
