"""POST /select/batch and /reward/batch."""

import json
from typing import Any

import httpx
import pytest

from tests.api.contract import (
    MARKER,
    create,
    model,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    problem,
    read,
    reward,
    select,
    shared,
)

HEADERS = {"Content-Type": "application/json"}


def test_order_and_failures_of_single_items(api: httpx.Client) -> None:
    """One bad row of an import would fail the others, or answers would belong to other rows."""
    one, other = create(api, shared()), create(api, multi_armed())
    archived = create(api, multi_armed())
    ok(api.patch(f"/campaigns/{archived}", json={"status": "archived"}))
    ids = [new_id("batch") for _ in range(4)]
    items: list[Any] = [
        {"campaign_id": one, "decision_id": ids[0]},
        {"campaign_id": new_id("none"), "decision_id": ids[1]},
        {"campaign_id": other, "decision_id": ids[2]},
        {"campaign_id": one, "unknown_field": MARKER},
        {"campaign_id": one, "arms": [{"arm_id": "a", "features": [1, 2, 3]}]},
        {"campaign_id": other, "eligible": ["a", "a"]},
        {"campaign_id": archived},
        MARKER,
        {"campaign_id": other, "decision_id": ids[2], "explore": False},
        {"campaign_id": one, "decision_id": ids[0]},
        {"campaign_id": other, "decision_id": ids[3], "explain": True},
    ]
    reply = api.post("/select/batch", json={"items": items})
    answers = ok(reply)["items"]
    assert MARKER not in reply.text
    assert [answer["status"] for answer in answers] == [200, 404, 200, 422, 422, 422, 409, 422, 409, 200, 200]
    assert [answer.get("decision_id") for answer in answers if answer["status"] == 200] == [
        ids[0], ids[2], ids[0], ids[3],
    ]  # fmt: skip
    assert answers[0] == answers[9] == {"status": 200, **select(api, one, decision_id=ids[0])}
    assert len(answers[10]["arms"]) == 3
    for answer in answers:
        if answer["status"] != 200:
            assert set(answer) == {"status", "title", "detail", "errors"}
    fields = [answer["errors"][0]["field"] for answer in answers if answer["status"] == 422]
    assert fields == ["unknown_field", "arms.0.features", "eligible", "body"]


@pytest.mark.parametrize("bad", ["NaN", "Infinity", "1e999", '"1"', "true", "null", "1" + "0" * 400, "1e9999999"])
@on_sqlite
def test_number_of_one_item_is_none(api: httpx.Client, bad: str) -> None:
    """W01. One NaN in a nightly file would stop all of its rewards, or be learned."""
    campaign_id = create(api, shared())
    first, second, third = (select(api, campaign_id)["decision_id"] for _ in range(3))
    body = (
        f'{{"items": [{{"decision_id": "{first}", "reward": 1}}, {{"decision_id": "{second}", "reward": {bad}}}, '
        f'{{"decision_id": "{third}", "reward": 2}}]}}'
    )
    answers = ok(api.post("/reward/batch", content=body, headers=HEADERS))["items"]
    assert [answer["status"] for answer in answers] == [200, 422, 200]
    assert answers[1]["errors"][0]["field"] == "reward"
    assert read(api, campaign_id)["observations"] == 2
    body = (
        f'{{"items": [{{"campaign_id": "{campaign_id}", "arms": [{{"arm_id": "a", "features": [0, {bad}]}}]}}, '
        f'{{"campaign_id": "{campaign_id}"}}]}}'
    )
    answers = ok(api.post("/select/batch", content=body, headers=HEADERS))["items"]
    assert [answer["status"] for answer in answers] == [422, 200]
    assert answers[0]["errors"][0]["field"] == "arms.0.features.1"
    assert reward(api, second, 3)["sequence"] == 3


def test_rewards_of_one_batch(api: httpx.Client) -> None:
    """A file that holds a reward twice, or contradicts itself, would be learned in some other order."""
    campaign_id = create(api, multi_armed(reward={"minimum": 0}))
    first, second = (select(api, campaign_id)["decision_id"] for _ in range(2))
    items = [
        {"decision_id": second, "reward": 2},
        {"decision_id": first, "reward": 1},
        {"decision_id": first, "reward": 1},
        {"decision_id": second, "reward": 3},
        {"decision_id": new_id("none"), "reward": 1},
        {"decision_id": first, "reward": -1},
    ]
    answers = ok(api.post("/reward/batch", json={"items": items}))["items"]
    assert [answer["status"] for answer in answers] == [200, 200, 200, 409, 404, 409]
    assert [answer["sequence"] for answer in answers[:3]] == [1, 2, 2]
    assert [answer["duplicate"] for answer in answers[:3]] == [False, False, True]
    assert model(api, campaign_id)["observations"] == 2


def test_batches_follow_each_other(api: httpx.Client) -> None:
    """Rewards that are sent straight after their decisions would not find them."""
    campaign_id = create(api, shared())
    ids = [new_id("sequence") for _ in range(200)]
    items = [{"campaign_id": campaign_id, "decision_id": decision_id} for decision_id in ids]
    chosen = ok(api.post("/select/batch", json={"items": items}))["items"]
    assert [one["decision_id"] for one in chosen] == ids
    rewards = [{"decision_id": decision_id, "reward": number / 7} for number, decision_id in enumerate(ids)]
    answers = ok(api.post("/reward/batch", json={"items": rewards}))["items"]
    assert [one["sequence"] for one in answers] == list(range(1, 201))
    assert [one["arm_id"] for one in answers] == [one["arm_id"] for one in chosen]
    assert [one["reward"] for one in answers] == [number / 7 for number in range(200)]
    again = ok(api.post("/reward/batch", json={"items": rewards}))["items"]
    assert again == [one | {"duplicate": True, "observations": 200} for one in answers]


@pytest.mark.parametrize("path", ["/select/batch", "/reward/batch"])
@on_sqlite
def test_number_of_items(api: httpx.Client, path: str) -> None:
    """One request could occupy the service for seconds, or an empty file look like a success."""
    item = {"campaign_id": new_id("none")} if path == "/select/batch" else {"decision_id": new_id("none"), "reward": 1}
    answers = ok(api.post(path, json={"items": [item] * 1_000}))["items"]
    assert [answer["status"] for answer in answers] == [404] * 1_000
    for items in ([item] * 1_001, [1] * 1_001):
        assert "1000" in problem(api.post(path, json={"items": items}), 413)["detail"]
    problem(api.post(path, json={"items": []}), 422, "items")


@pytest.mark.parametrize("path", ["/select/batch", "/reward/batch"])
@pytest.mark.parametrize(
    ("body", "field"),
    [
        ([], "body"),
        (MARKER, "body"),
        (None, "body"),
        ({}, "items"),
        ({"items": MARKER}, "items"),
        ({"items": {"0": MARKER}}, "items"),
        ({"items": [MARKER], f"<{MARKER}>": 1}, "(unknown field)"),
    ],
    ids=str,
)
@on_sqlite
def test_envelope(api: httpx.Client, path: str, body: object, field: str) -> None:
    """A client that forgets the envelope would be told about our internals instead of its mistake."""
    text = problem(api.post(path, content=json.dumps(body), headers=HEADERS), 422, field)["detail"]
    assert "Envelope" not in text


def test_another_envelope_is_refused(api: httpx.Client) -> None:
    """What stands beside the items, or a second list of them, would be dropped without a word."""
    campaign_id = create(api, multi_armed())
    decision_id = select(api, campaign_id)["decision_id"]
    item = f'{{"decision_id": "{decision_id}", "reward": 1}}'
    for body in (
        item,
        f"[{item}]",
        f'{{"items": {item}}}',
        f'{{"items": [{item}], "more": 1}}',
        f'{{"more": 1, "items": [{item}]}}',
        f'{{"items": [{item}], "items": [{item}]}}',
        f'{{"items": [{item}}}',
        f'{{"items": [{item}]}}}}',
        f'{{"items": [{item}]}} x',
        '{"items": [' + "[" * 300 + "]" * 300 + "]}",
        "",
    ):
        for padding in ("", " " * 70_000):  # a large body is described in short
            problem(api.post("/reward/batch", content=body + padding, headers=HEADERS), 422)
    assert model(api, campaign_id)["observations"] == 0
    named = f'{{"items": [{{"decision_id": "items", "reward": 1}}, {item}]}}'
    answers = ok(api.post("/reward/batch", content=named, headers=HEADERS))["items"]
    assert [one["status"] for one in answers] == [404, 200]


def test_items_are_judged_as_single_requests_are(api: httpx.Client) -> None:
    """Numbers would be another float64 in a batch than in a request of their own, and a repeat be a conflict."""
    campaign_id = create(api, multi_armed())
    for text in ("0.1", "-0.0", "1e-320", "123456789.12345679", "5e-324", "9007199254740993e-7", "1E3", "100"):
        decision_id = select(api, campaign_id)["decision_id"]
        item = f'{{"decision_id": "{decision_id}", "reward": {text}}}'
        first = ok(api.post("/reward", content=item, headers=HEADERS))
        (again,) = ok(api.post("/reward/batch", content=f'{{"items": [{item}]}}', headers=HEADERS))["items"]
        assert (again["duplicate"], again["reward"]) == (True, first["reward"])
    item = f'{{"decision_id": "{decision_id}", "reward": {10**400}}}'
    (answer,) = ok(api.post("/reward/batch", content=f'{{"items": [{item}]}}', headers=HEADERS))["items"]
    assert (answer["status"], answer["errors"][0]["field"]) == (422, "reward")
