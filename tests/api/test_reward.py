"""POST /reward: what is learned, once, and what is refused."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.contract import (
    Json,
    create,
    disjoint,
    model,
    multi_armed,
    new_id,
    ok,
    problem,
    read,
    reward,
    select,
    shared,
    stored,
)


def test_reply(api: httpx.Client) -> None:
    """A client written from the contract would miss a field, or take the sequence for another number."""
    campaign_id = create(api, shared())
    for sequence in (1, 2, 3):
        decision = select(api, campaign_id)
        assert reward(api, decision["decision_id"], 1.25) == {
            "decision_id": decision["decision_id"],
            "campaign_id": campaign_id,
            "arm_id": decision["arm_id"],
            "reward": 1.25,
            "sequence": sequence,
            "observations": sequence,
            "duplicate": False,
            "learned": True,
        }
        campaign = read(api, campaign_id)
        assert (campaign["observations"], campaign["head"]) == (sequence, sequence)
    decision = select(api, campaign_id)
    assert (decision["seen"], decision["observations"]) == (3, 3)


def test_repeated_reward(api: httpx.Client) -> None:
    """B29. A retry after a timeout would count twice, fail, or be told another sequence number."""
    campaign_id = create(api, disjoint())
    decision_id = select(api, campaign_id, context=[1, 2])["decision_id"]
    first = reward(api, decision_id, 0.8)
    reward(api, select(api, campaign_id, context=[1, 2])["decision_id"], 0.3)
    before = stored(api, campaign_id)
    again = reward(api, decision_id, 0.8)
    assert (first["sequence"], first["observations"]) == (1, 1)
    assert again == first | {"observations": 2, "duplicate": True}
    assert stored(api, campaign_id) == before
    problem(api.post("/reward", json={"decision_id": decision_id, "reward": 0.2}), 409, "reward")
    problem(api.post("/reward", json={"decision_id": decision_id, "reward": 0.8000000000000002}), 409, "reward")
    other = next(name for name in "abc" if name != first["arm_id"])
    problem(api.post("/reward", json={"decision_id": decision_id, "reward": 0.8, "arm_id": other}), 409, "arm_id")
    assert stored(api, campaign_id) == before


def test_concurrent_rewards(api: httpx.Client) -> None:
    """B29. Of two processes that report the same reward at once, one would fail or both would count."""
    campaign_id = create(api, multi_armed())
    decision_id = select(api, campaign_id)["decision_id"]
    with ThreadPoolExecutor(8) as threads:
        bodies = [0.5] * 8 + [0.25] * 8
        replies = list(
            threads.map(lambda value: api.post("/reward", json={"decision_id": decision_id, "reward": value}), bodies)
        )
    statuses = [reply.status_code for reply in replies]
    assert sorted(set(statuses)) == [200, 409]
    assert statuses.count(200) == 8  # whichever value came first, all that say the same agree
    accepted = [reply.json() for reply in replies if reply.status_code == 200]
    assert [one["duplicate"] for one in accepted].count(False) == 1
    assert len({(one["reward"], one["sequence"]) for one in accepted}) == 1
    assert model(api, campaign_id)["head"] == 1


@pytest.mark.parametrize("zero", ["0", "0.0", "-0.0", "0e5"])
def test_zero_is_a_reward(api: httpx.Client, zero: str) -> None:
    """B28. A customer who did not buy would count as one who was never asked."""
    campaign_id = create(api, multi_armed())
    decision_id = select(api, campaign_id, eligible=["a"])["decision_id"]
    body = f'{{"decision_id": "{decision_id}", "reward": {zero}}}'
    headers = {"Content-Type": "application/json"}
    first = ok(api.post("/reward", content=body, headers=headers))
    assert (first["reward"], first["sequence"], first["learned"], first["duplicate"]) == (0, 1, True, False)
    assert reward(api, decision_id, 0)["duplicate"]
    assert reward(api, decision_id, -0.0)["duplicate"]
    assert model(api, campaign_id)["observations"] == 1


def test_fifty_zeros(api: httpx.Client) -> None:
    """B28. An arm that never pays would keep the prior's benefit of the doubt."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 0, "noise_scale": 1}))
    for name, value in (("a", 0.0), ("b", 0.2)):
        before = select(api, campaign_id, explain=True)
        bonus = {one["arm_id"]: one["bonus"] for one in before["arms"]}[name]
        items = [{"arm_id": name, "reward": value} for _ in range(50)]
        assert ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))["accepted"] == 50
        after = {one["arm_id"]: one for one in select(api, campaign_id, explain=True)["arms"]}[name]
        assert after["bonus"] < bonus / 3
        assert after["estimate"] == pytest.approx(value, abs=0.01)
    assert select(api, campaign_id)["greedy_arm_id"] == "b"


@pytest.mark.parametrize("make", [disjoint, multi_armed])
def test_another_arm_was_used(api: httpx.Client, make: Callable[..., Json]) -> None:
    """What came of the arm that was really used would be learned for the one that was not."""
    campaign_id = create(api, make())
    fields = {"context": [1, 2]} if make is disjoint else {}
    decision = select(api, campaign_id, eligible=["a"], **fields)
    receipt = reward(api, decision["decision_id"], 2, arm_id="b")
    assert receipt["arm_id"] == "b"
    assert reward(api, decision["decision_id"], 2, arm_id="b") == receipt | {"duplicate": True}
    arms = ok(api.get(f"/campaigns/{campaign_id}/report"))["arms"]
    counts = {one["arm_id"]: one["rewards"]["n"] for one in arms}
    assert (counts["a"], counts["b"]) == (0, 1)
    own = select(api, campaign_id, eligible=["a"], **fields)
    assert reward(api, own["decision_id"], 2, arm_id="a")["arm_id"] == "a"
    problem(
        api.post(
            "/reward",
            json={"decision_id": select(api, campaign_id, **fields)["decision_id"], "reward": 1}
            | {"arm_id": "unknown"},
        ),
        422,
        "arm_id",
    )


def test_another_arm_in_a_shared_campaign(api: httpx.Client) -> None:
    """The reward would be learned with the features of an arm that was not used."""
    campaign_id = create(api, shared())
    decision_id = select(api, campaign_id, eligible=["a"])["decision_id"]
    before = stored(api, campaign_id)
    problem(api.post("/reward", json={"decision_id": decision_id, "reward": 1, "arm_id": "b"}), 422, "arm_id")
    assert stored(api, campaign_id) == before
    assert reward(api, decision_id, 1, arm_id="a")["learned"]


@pytest.mark.parametrize("value", [-1.0000001, 2.0000001, -1e9, 1e9])
def test_reward_outside_the_bounds(api: httpx.Client, value: float) -> None:
    """A reward in cents where dollars were declared would ruin the estimate for good."""
    campaign_id = create(api, multi_armed(reward={"minimum": -1, "maximum": 2}))
    decision_id = select(api, campaign_id)["decision_id"]
    before = stored(api, campaign_id)
    body = problem(api.post("/reward", json={"decision_id": decision_id, "reward": value}), 422, "reward")
    assert ("-1" if value < 0 else "2") in body["detail"]
    assert stored(api, campaign_id) == before
    assert reward(api, decision_id, -1 if value < 0 else 2)["learned"]


def test_unknown_decision(api: httpx.Client) -> None:
    """B30. A reward for nothing would be a server error, or be counted somewhere."""
    campaign_id = create(api, shared())
    select(api, campaign_id)
    before = stored(api, campaign_id)
    problem(api.post("/reward", json={"decision_id": new_id("unknown"), "reward": 1}), 404)
    problem(api.post("/reward", json={"decision_id": campaign_id, "reward": 1}), 404)
    assert stored(api, campaign_id) == before


def test_default_after_the_deadline(api: httpx.Client) -> None:
    """A customer who never answers would count twice: by the default, and by a late answer."""
    rules = {"timeout_seconds": 0.05, "default": -1}
    campaign_id = create(api, multi_armed(reward=rules, arms=[{"arm_id": "a"}]))
    decision_id = select(api, campaign_id)["decision_id"]
    late = problem(_late(api, decision_id), 409)
    assert "default" in late["detail"]
    assert problem(_late(api, decision_id), 409)["detail"] == late["detail"]
    body = model(api, campaign_id)
    assert (body["observations"], body["head"]) == (1, 1)
    assert body["arms"][0]["theta"][0] < 0


def test_late_reward_without_a_default(api: httpx.Client) -> None:
    """An answer that took its time would be thrown away."""
    campaign_id = create(api, multi_armed(reward={"timeout_seconds": 0.001}))
    decision_id = select(api, campaign_id)["decision_id"]
    assert ok(_late(api, decision_id))["learned"]


def _late(api: httpx.Client, decision_id: str) -> httpx.Response:
    time.sleep(0.06)
    return api.post("/reward", json={"decision_id": decision_id, "reward": 1})
