"""POST /campaigns/{campaign_id}/observations: warm starts."""

from typing import Any

import httpx
import pytest

from tests.api.contract import (
    MARKER,
    Json,
    assert_same_model,
    create,
    disjoint,
    model,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    problem,
    reward,
    select,
    shared,
    stored,
)


def observe(api: httpx.Client, campaign_id: str, *items: Json) -> httpx.Response:
    """Send observations."""
    return api.post(f"/campaigns/{campaign_id}/observations", json={"items": list(items)})


@pytest.mark.parametrize(
    ("make", "fields"),
    [(shared, {"features": [0.5, -1]}), (disjoint, {"context": [0.5, -1]}), (multi_armed, {})],
    ids=["shared", "disjoint", "multi-armed"],
)
def test_learned_like_rewards(api: httpx.Client, make: Any, fields: Json) -> None:
    """A history that is loaded would give another model than the one it was collected with."""
    lived, loaded = create(api, make()), create(api, make())
    history = [("a", 1.0), ("b", -2.0), ("a", 0.0), ("b", 0.25)]
    for arm_id, value in history:
        request = {"arms": [{"arm_id": arm_id, **fields}]} if make is shared else {"chosen_arm_id": arm_id, **fields}
        reward(api, select(api, lived, **request)["decision_id"], value)
    items = [{"arm_id": arm_id, "reward": value, **fields} for arm_id, value in history]
    assert ok(observe(api, loaded, *items)) == {"accepted": 4, "duplicates": 0, "observations": 4, "head": 4}
    assert_same_model(model(api, loaded), model(api, lived))


def test_registered_features_may_be_left_out(api: httpx.Client) -> None:
    """A history of registered arms would need their features in every row."""
    spelled_out, short = create(api, shared()), create(api, shared())
    ok(observe(api, spelled_out, {"arm_id": "b", "features": [0, 1], "reward": 2}))
    ok(observe(api, short, {"arm_id": "b", "reward": 2}))
    assert model(api, short) == model(api, spelled_out) | {"campaign_id": short}
    problem(observe(api, short, {"arm_id": "stranger", "reward": 2}), 422, "items.0.features")
    assert ok(observe(api, short, {"arm_id": "stranger", "features": [1, 1], "reward": 2}))["accepted"] == 1


def test_repeated_observations(api: httpx.Client) -> None:
    """An import that is run again after a crash would double the history."""
    campaign_id = create(api, multi_armed())
    items = [{"observation_id": f"row-{number}", "arm_id": "a", "reward": number} for number in range(3)]
    when = "2024-01-01T13:30:45-08:00"
    items[1] |= {"observed_at": when, "propensity": 0.5}
    assert ok(observe(api, campaign_id, *items[:2], items[0])) == {
        "accepted": 2,
        "duplicates": 1,
        "observations": 2,
        "head": 2,
    }
    before = model(api, campaign_id)
    assert ok(observe(api, campaign_id, *items[:2])) == {"accepted": 0, "duplicates": 2, "observations": 2, "head": 2}
    assert model(api, campaign_id) == before
    # the same instant in another zone is the same content, as W26 asks of times
    utc = items[1] | {"observed_at": "2024-01-01T21:30:45Z"}
    assert ok(observe(api, campaign_id, utc, items[2])) == {
        "accepted": 1,
        "duplicates": 1,
        "observations": 3,
        "head": 3,
    }
    assert ok(observe(api, campaign_id, {"arm_id": "a", "reward": 0}))["observations"] == 4
    assert ok(observe(api, campaign_id, {"arm_id": "a", "reward": 0}))["observations"] == 5
    # the ids of one campaign are not those of another
    assert ok(observe(api, create(api, multi_armed()), *items))["accepted"] == 3


@pytest.mark.parametrize(
    "change",
    [
        {"reward": 2},
        {"arm_id": "b"},
        {"propensity": 0.25},
        {"context": [1, 3]},
        {"observed_at": "2024-01-01T00:00:00.000001Z"},
    ],
    ids=str,
)
def test_other_content(api: httpx.Client, change: Json) -> None:
    """Two rows of different files that share an id would silently be one."""
    campaign_id = create(api, disjoint())
    item = {
        "observation_id": "row",
        "arm_id": "a",
        "context": [1, 2],
        "reward": 1,
        "propensity": 0.5,
        "observed_at": "2024-01-01T00:00:00Z",
    }
    ok(observe(api, campaign_id, item))
    before = stored(api, campaign_id)
    fresh = {"arm_id": "a", "context": [0, 0], "reward": 5}
    problem(observe(api, campaign_id, fresh, item | change), 409, "items.1")
    problem(observe(api, campaign_id, fresh | {"observation_id": "new"}, item | change), 409, "items.1")
    assert stored(api, campaign_id) == before
    assert ok(observe(api, campaign_id, fresh | {"observation_id": "new"}))["accepted"] == 1


@pytest.mark.parametrize(
    ("bad", "field"),
    [
        ({"arm_id": "a", "context": [1], "reward": 1}, "items.2.context"),
        ({"arm_id": "a", "context": [1, 2, 3], "reward": 1}, "items.2.context"),
        ({"arm_id": "a", "reward": 1}, "items.2.context"),
        ({"arm_id": "a", "context": [1, 2], "features": [1, 2], "reward": 1}, "items.2.features"),
        ({"arm_id": "unknown", "context": [1, 2], "reward": 1}, "items.2.arm_id"),
        ({"arm_id": "a", "context": [1, 2], "reward": 11}, "items.2.reward"),
        ({"arm_id": "a", "context": [1, 2]}, "items.2.reward"),
        ({"arm_id": "a", "context": [1, 2], "reward": "1"}, "items.2.reward"),
        ({"arm_id": "a", "context": [1, 2], "reward": 1, "propensity": 0}, "items.2.propensity"),
        ({"arm_id": "a", "context": [1, 2], "reward": 1, "propensity": 1.5}, "items.2.propensity"),
        ({"arm_id": "a", "context": [1, 2], "reward": 1, "weight": 2**63}, "items.2.weight"),
        ({"arm_id": "a", "context": [1, 2], "reward": 1, "observation_id": "a/b"}, "items.2.observation_id"),
        ({"arm_id": "a", "context": [1, "2"], "reward": 1}, "items.2.context.1"),
        (MARKER, "items.2"),
    ],
    ids=str,
)
def test_all_or_none(api: httpx.Client, bad: Any, field: str) -> None:
    """Half of a file with one bad row would be learned, and the corrected file then doubled."""
    campaign_id = create(api, disjoint(reward={"maximum": 10}))
    before = stored(api, campaign_id)
    good = [{"observation_id": f"row-{n}", "arm_id": "a", "context": [1, n], "reward": n} for n in range(3)]
    problem(observe(api, campaign_id, good[0], good[1], bad, good[2]), 422, field)
    assert stored(api, campaign_id) == before
    assert ok(observe(api, campaign_id, *good)) == {"accepted": 3, "duplicates": 0, "observations": 3, "head": 3}


def test_count_towards_warmup(api: httpx.Client) -> None:
    """Arms with a long history would be tried again, as if nothing was known of them."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 2, "floor": 0}))
    ok(observe(api, campaign_id, *[{"arm_id": name, "reward": 1} for name in "aab"]))
    chosen = [select(api, campaign_id) for _ in range(4)]
    assert [one["reason"] for one in chosen] == ["warmup"] * 3 + ["index"]
    assert chosen[0]["arm_id"] == "c"
    assert sorted(one["arm_id"] for one in chosen[1:3]) == ["b", "c"]


@pytest.mark.parametrize(
    "when",
    [
        "2024-01-01T13:30:45",
        "2024-01-01",
        "2024-01-01T13:30:45-0800x",
        "2024-13-01T00:00:00Z",
        "2024-01-01T25:00:00Z",
        "1700000000",
        "1969-12-31T23:59:59Z",
        "9999-12-31T23:59:59Z",
        "",
        MARKER,
        1_700_000_000,
        1.5,
        True,
        [],
    ],
    ids=str,
)
@on_sqlite
def test_time_that_is_none(api: httpx.Client, when: object) -> None:
    """W26. A local time, or seconds taken for milliseconds, would be stored as some other instant."""
    campaign_id = create(api, multi_armed())
    item = {"arm_id": "a", "reward": 1, "observed_at": when}
    problem(observe(api, campaign_id, item), 422, "items.0.observed_at")
    assert model(api, campaign_id)["head"] == 0


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("2024-01-01T13:30:45-08:00", "2024-01-01T21:30:45Z"),
        ("2024-01-01T00:00:00.123456+05:45", "2023-12-31T18:15:00.123456z"),
        ("2024-02-29 23:59:59+00:00", "2024-02-29t23:59:59.000Z"),
        ("9998-12-31T23:59:59.999999Z", "9998-12-31T22:59:59.999999-01:00"),
    ],
)
def test_same_instant_in_another_zone(api: httpx.Client, one: str, same: str) -> None:
    """W26. A history exported in another time zone would be a conflict with itself."""
    campaign_id = create(api, multi_armed())
    item = {"observation_id": "row", "arm_id": "a", "reward": 1}
    assert ok(observe(api, campaign_id, item | {"observed_at": one}))["accepted"] == 1
    assert ok(observe(api, campaign_id, item | {"observed_at": same}))["duplicates"] == 1
    assert ok(observe(api, campaign_id, item))["duplicates"] == 1
    problem(observe(api, campaign_id, item | {"observed_at": "2024-01-01T21:30:46Z"}), 409, "items.0")


def test_number_of_items(api: httpx.Client) -> None:
    """One request could occupy the service for seconds."""
    campaign_id = create(api, multi_armed())
    item = {"arm_id": "a", "reward": 1}
    problem(observe(api, campaign_id, *[item] * 1_001), 413)
    problem(observe(api, campaign_id), 422, "items")
    assert model(api, campaign_id)["head"] == 0
    assert ok(observe(api, campaign_id, *[item] * 1_000))["observations"] == 1_000
    problem(observe(api, new_id("none"), item), 404)
