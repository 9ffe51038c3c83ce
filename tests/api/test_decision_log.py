"""GET /campaigns/{campaign_id}/decisions: what was decided and what came of it, newest first."""

import time
from base64 import urlsafe_b64encode

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, reward, select, shared


def logged(api: httpx.Client, campaign_id: str, **parameters: int | str) -> Json:
    return ok(api.get(f"/campaigns/{campaign_id}/decisions", params=parameters))


def pages(api: httpx.Client, campaign_id: str, limit: int) -> list[list[str]]:
    """Ids of all pages, by their cursors."""
    found, cursor = [], {}
    while True:
        page = logged(api, campaign_id, limit=limit, **cursor)
        found.append([one["decision_id"] for one in page["items"]])
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}


def test_entries(api: httpx.Client) -> None:
    """An auditor would be shown something else than what was answered."""
    campaign_id = create(api, shared())
    made = [select(api, campaign_id) for _ in range(2)]
    made.append(select(api, campaign_id, chosen_arm_id="b", explain=True))
    receipt = reward(api, made[0]["decision_id"], 0)
    items = logged(api, campaign_id)["items"]
    assert [one["decision_id"] for one in items] == [one["decision_id"] for one in reversed(made)]
    for entry, decision in zip(reversed(items), made, strict=True):
        same = decision.keys() & entry.keys() - {"arms"}
        assert {name: entry[name] for name in same} == {name: decision[name] for name in same}
        assert same > {"arm_id", "estimate", "bonus", "index", "reason", "propensity", "seen", "exploring"}
        assert entry["features"] == ([1, 0] if decision["arm_id"] == "a" else [0, 1])
        assert (entry["context"], entry["due_at"]) == (None, None)
    assert [one["state"] for one in items] == ["pending", "pending", "rewarded"]
    assert [one["explained"] for one in items] == [True, False, False]
    assert items[0]["recommended_arm_id"] == made[2]["recommended_arm_id"]
    learned = items[2]["reward"]
    assert learned.pop("observed_at") >= items[2]["created_at"]
    assert learned == {
        "arm_id": receipt["arm_id"],
        "reward": 0,
        "source": "reward",
        "sequence": receipt["sequence"],
        "learned": True,
        "original": None,
        "corrected_at": None,
        "reason": None,
    }


def test_context_and_pause(api: httpx.Client) -> None:
    """A context would be taken for an arm's features, or a reward that waits for one that was learned."""
    campaign_id = create(api, disjoint())
    decision = select(api, campaign_id, context=[3, 4])
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "paused"}))
    reward(api, decision["decision_id"], 1, arm_id="c")
    (entry,) = logged(api, campaign_id)["items"]
    assert (entry["context"], entry["features"]) == ([3, 4], None)
    assert (entry["reward"]["arm_id"], entry["reward"]["learned"]) == ("c", False)
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "active"}))
    assert logged(api, campaign_id)["items"][0]["reward"]["learned"] is True


@pytest.mark.parametrize("limit", [1, 3, 9, 10])
def test_pages_of_one_moment(api: httpx.Client, limit: int) -> None:
    """Decisions of one batch have one time: a page would end among them and the next skip or repeat some."""
    campaign_id = create(api, multi_armed())
    made = []
    for count in (1, 5, 3):
        reply = ok(api.post("/select/batch", json={"items": [{"campaign_id": campaign_id}] * count}))
        made += [one["decision_id"] for one in reply["items"]]
    found = pages(api, campaign_id, limit)
    assert [decision_id for page in found for decision_id in page] == made[::-1]
    assert all(len(page) == limit for page in found[:-1])
    assert found[-1]


def test_ids_of_ones_own(api: httpx.Client) -> None:
    """Ids that are not in the order of their decisions would lose some between two pages."""
    campaign_id = create(api, multi_armed())
    prefix = new_id("logged")
    for batch in ("zb", "ya", "~."):
        items = [{"campaign_id": campaign_id, "decision_id": f"{prefix}{name}"} for name in batch]
        ok(api.post("/select/batch", json={"items": items}))
    expected = [f"{prefix}{name}" for name in "~.yazb"]
    assert [one for page in pages(api, campaign_id, 2) for one in page] == expected


def test_stable_while_decisions_arrive(api: httpx.Client) -> None:
    """Whoever reads a busy campaign's log would see decisions twice."""
    campaign_id = create(api, multi_armed())
    made = [select(api, campaign_id)["decision_id"] for _ in range(4)]
    page = logged(api, campaign_id, limit=2)
    late = select(api, campaign_id)["decision_id"]
    reward(api, made[0], 1)
    rest = logged(api, campaign_id, limit=2, cursor=page["next_cursor"])
    assert [one["decision_id"] for one in (*page["items"], *rest["items"])] == made[::-1]
    assert (rest["items"][1]["state"], rest["next_cursor"]) == ("rewarded", None)
    assert logged(api, campaign_id, limit=1)["items"][0]["decision_id"] == late


@pytest.mark.parametrize("default", [None, -1.0])
def test_deadlines(api: httpx.Client, default: float | None) -> None:
    """A decision that nobody waits for any more would be pending for ever."""
    waiting = create(api, multi_armed(reward={"timeout_seconds": 1e6, "default": default}))
    select(api, waiting)
    (entry,) = logged(api, waiting)["items"]
    assert (entry["state"], entry["due_at"] > entry["created_at"]) == ("pending", True)
    campaign_id = create(api, multi_armed(reward={"timeout_seconds": 0.05, "default": default}))
    select(api, campaign_id)
    time.sleep(0.1)
    final = "expired" if default is None else "rewarded"
    end = time.monotonic() + 30
    while time.monotonic() < end:
        (entry,) = logged(api, campaign_id)["items"]
        assert entry["state"] in {"expired", final}  # past the deadline it is never pending, swept or not
        if entry["state"] == final and entry["due_at"] is None:
            break
        time.sleep(0.1)
    assert (entry["state"], entry["due_at"]) == (final, None)
    assert (entry["reward"] or {}).get("source") == (None if default is None else "default")


def test_of_one_campaign(api: httpx.Client) -> None:
    """One customer's campaign would show another's decisions."""
    ids = [create(api, multi_armed()) for _ in range(2)]
    made = [select(api, campaign_id)["decision_id"] for campaign_id in ids]
    assert [pages(api, campaign_id, 5) for campaign_id in ids] == [[[decision_id]] for decision_id in made]
    assert pages(api, create(api, multi_armed()), 5) == [[]]
    problem(api.get(f"/campaigns/{new_id('none')}/decisions"), 404)


POSITIONS = ["x", "1/", "/a", "1/a b", "-1/a", "99999999999999999999/a", "1/a\0", "1/a\n", "1.5/a"]


@pytest.mark.parametrize("position", POSITIONS, ids=ascii)
def test_cursor_that_is_none(api: httpx.Client, position: str) -> None:
    """A mangled cursor would start the list again from the front, or be a 500."""
    campaign_id = create(api, multi_armed())
    cursor = urlsafe_b64encode(position.encode()).decode().rstrip("=")
    problem(api.get(f"/campaigns/{campaign_id}/decisions", params={"cursor": cursor}), 422, "cursor")


def test_ends_of_the_range(api: httpx.Client) -> None:
    """A cursor beyond what the database can count would be a 500."""
    campaign_id = create(api, multi_armed())
    select(api, campaign_id)
    for created_at, count in ((0, 0), (2**63 - 1, 1), (9_999_999_999_999_999_999, 1)):
        cursor = urlsafe_b64encode(f"{created_at}/a".encode()).decode().rstrip("=")
        assert len(logged(api, campaign_id, cursor=cursor)["items"]) == count
    for limit in (0, -1, 1001, "x"):
        problem(api.get(f"/campaigns/{campaign_id}/decisions", params={"limit": limit}), 422, "limit")
