"""The dials of an algorithm: which may change while a campaign runs, and how far each may go."""

import math

import httpx
import pytest

from tests.api.contract import create, disjoint, ok, on_sqlite, problem, read, reward, select, shared


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("noise_scale", 0.5),
        ("noise_scale", None),
        ("exploration", 0),
        ("delta", 0.2),
        ("bonus", "global"),
        ("conditioning", 3.5),
        ("conditioning", "theory"),
        ("conditioning", None),
        ("warmup", 7),
    ],
)
def test_change_of_the_index(api: httpx.Client, name: str, value: object) -> None:
    """A dial that the documentation calls adjustable would need a new campaign, and lose what was learned."""
    started = {"name": "linucb-cr", "noise_scale": 0.3, "conditioning": 2, "warmup": 1}
    campaign_id = create(api, disjoint(algorithm=started))
    before = read(api, campaign_id)
    after = ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {name: value}}))
    assert after == before | {"algorithm": before["algorithm"] | {name: value}}
    assert read(api, campaign_id) == after
    assert ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {name: value}})) == after


def test_change_acts_on_the_next_select(api: httpx.Client) -> None:
    """Turning exploration off would be shown, and not done."""
    campaign_id = create(api, shared())
    assert select(api, campaign_id)["index"] > 0
    learned = reward(api, select(api, campaign_id)["decision_id"], 1)
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exploration": 0}}))
    after = select(api, campaign_id)
    assert after["index"] == after["estimate"] > 0
    assert after["observations"] == learned["observations"] == 1


ENDS: dict[str, tuple[float, float]] = {
    "regularization": (1e-12, 1e12),
    "delta": (1e-100, 1 - 1e-16),
    "noise_scale": (1e-30, 1e12),
    "exploration": (0, 1e6),
    "parameter_bound": (1e-30, 1e12),
    "feature_bound": (1e-30, 1e12),
    "conditioning": (1e-12, 1e12),
}


@pytest.mark.parametrize("algorithm", ["linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"])
@pytest.mark.parametrize(("dial", "end"), [(dial, end) for dial, ends in ENDS.items() for end in ends])
@on_sqlite
def test_dials_at_their_ends(api: httpx.Client, algorithm: str, dial: str, end: float) -> None:
    """A dial that is accepted at its creation would later make numbers that are none, and every select a 500."""
    risk = {"measure": "expectile", "level": 0.1}
    campaign_id = create(api, shared(risk=risk, algorithm={"name": algorithm, "warmup": 0, dial: end}))
    for reward_value in (1e-3, -1e6, 0):
        decision = select(api, campaign_id)
        assert math.isfinite(decision["index"])
        reward(api, decision["decision_id"], reward_value)
    zeros = [{"arm_id": name, "features": [0, 0]} for name in "ab"]
    assert math.isfinite(select(api, campaign_id, arms=zeros)["index"])


@pytest.mark.parametrize("dial", sorted(ENDS.keys() - {"exploration"}))
@on_sqlite
def test_dials_beyond_their_ends(api: httpx.Client, dial: str) -> None:
    """R18. The smallest positive number has an infinite inverse."""
    body = shared(algorithm={"name": "linucb-cr", dial: 5e-324})
    problem(api.post("/campaigns", json=body), 422, f"algorithm.{dial}")
