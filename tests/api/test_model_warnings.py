"""What `/model` warns of: features and rewards that the defaults do not suit, which nobody would notice otherwise."""

from typing import Any

import httpx
import numpy as np
import pytest

from tests.api.contract import Json, create, disjoint, model, multi_armed, ok, on_sqlite, shared

RANDOMIZED = {"warmup": 0, "exploration_rule": "randomized"}
NAMES = ["linucb", "linucb-cr", "linucb-onepass-cr", "linucb-ogd-cr"]


def observe(api: httpx.Client, campaign_id: str, items: list[Json]) -> None:
    for start in range(0, len(items), 1_000):
        ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items[start : start + 1_000]}))


def items_of(count: int, size: float, level: float, dimension: int = 2) -> list[Json]:
    """Observations of a shared model: features of about this norm, rewards of spread 1 around a level."""
    random = np.random.default_rng(7)
    found = []
    for number in range(count):
        features = random.normal(size=dimension)
        features *= size / np.linalg.norm(features)
        value = float(level + random.normal())
        found.append({"arm_id": "ab"[number % 2], "features": features.tolist(), "reward": value})
    return found


def said(api: httpx.Client, campaign_id: str) -> str:
    return " ".join(model(api, campaign_id)["warnings"])


@on_sqlite
def test_ordinary_campaigns_are_not_warned(api: httpx.Client) -> None:
    """A warning that everybody gets is one that nobody reads."""
    campaign_id = create(api, shared(algorithm=RANDOMIZED))
    observe(api, campaign_id, items_of(200, 0.9, 300.0))
    assert model(api, campaign_id)["warnings"] == []
    # a context of 0 or 1: only the constant that the service adds takes it above feature_bound
    hours = create(api, disjoint(model={"type": "disjoint", "dimension": 1}, algorithm=RANDOMIZED))
    items = [{"arm_id": "abc"[n % 3], "context": [int(n % 4 > 0)], "reward": n % 5} for n in range(400)]
    observe(api, hours, items)
    assert model(api, hours)["features_above_bound"] > 200
    assert model(api, hours)["warnings"] == []


@on_sqlite
def test_center(api: httpx.Client) -> None:
    """Nobody could tell what the model's own numbers are relative to."""
    campaign_id = create(api, multi_armed(algorithm=RANDOMIZED))
    assert model(api, campaign_id)["center"] == 0
    observe(api, campaign_id, [{"arm_id": "a", "reward": value} for value in (10, 20, 30, 40, 99)])
    assert model(api, campaign_id)["center"] == 25  # the mean of the first four
    assert model(api, create(api, multi_armed(algorithm={"exploration_rule": "optimistic"})))["center"] is None
    without = create(api, shared(model={"type": "shared", "dimension": 2, "intercept": False}, algorithm=RANDOMIZED))
    assert model(api, without)["center"] is None


@on_sqlite
@pytest.mark.parametrize(("level", "is_warned"), [(0.0, False), (2.0, False), (5.0, True), (-300.0, True)])
def test_rewards_far_from_0_that_cannot_be_centred(api: httpx.Client, level: float, is_warned: bool) -> None:
    """Star ratings in a shared model without an intercept would be explored as if nothing had been learned."""
    request = shared(model={"type": "shared", "dimension": 2, "intercept": False}, algorithm=RANDOMIZED)
    campaign_id = create(api, request)
    observe(api, campaign_id, items_of(150, 0.9, level))
    assert ("cannot be centred" in said(api, campaign_id)) == is_warned
    if is_warned:
        assert "model.intercept" in said(api, campaign_id)


@on_sqlite
@pytest.mark.parametrize("name", NAMES)
def test_small_features(api: httpx.Client, name: str) -> None:
    """Features of norm 0.01 are not learned, however many observations there are."""
    features = [
        {"name": feature, "center": 0, "scale": 1} for feature in ("price", "colour")
    ]  # otherwise they are learned
    request = shared(
        model={"type": "shared", "dimension": 2, "features": features}, algorithm=RANDOMIZED | {"name": name}
    )
    campaign_id = create(api, request)
    items = items_of(200, 0.01, 0.0)
    observe(api, campaign_id, items[:99])
    assert "outweighs" not in said(api, campaign_id)
    observe(api, campaign_id, items[99:])
    assert "outweighs all observations of price, colour:" in said(api, campaign_id)
    # one small feature among others
    mixed = create(api, request | {"campaign_id": f"{campaign_id}-mixed"})
    observe(api, mixed, [one | {"features": [one["features"][0], 1.0 - n % 2]} for n, one in enumerate(items)])
    assert "outweighs all observations of price:" in said(api, mixed)


@on_sqlite
@pytest.mark.parametrize("name", NAMES)
def test_most_features_above_the_bound(api: httpx.Client, name: str) -> None:
    """Incomes in euros where norms of 1 are expected: only two of the four algorithms said so."""
    algorithm: dict[str, Any] = RANDOMIZED | {"name": name, "regularization": 10}
    campaign_id = create(api, shared(algorithm=algorithm))
    observe(api, campaign_id, items_of(60, 40.0, 0.0))
    warning = "60 of 60 observations had features above feature_bound, 1: their norm is typically 40"
    assert warning in said(api, campaign_id)
    without = {"type": "shared", "dimension": 2, "intercept": False}
    few = create(api, shared(model=without, algorithm=algorithm))
    observe(api, few, [*items_of(60, 0.1, 0.0), *items_of(10, 40.0, 0.0)])
    assert ("above feature_bound" in said(api, few)) == (name in {"linucb", "linucb-ogd-cr"} or "onepass" in name)
