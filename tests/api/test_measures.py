"""The paper's other measures over HTTP: what is refused, what comes back, and that a replay agrees."""

import httpx
import pytest

from tests.api.contract import (
    Json,
    assert_same_model,
    create,
    model,
    multi_armed,
    new_id,
    ok,
    problem,
    read,
    reward,
    select,
    shared,
)

CVAR = {"measure": "cvar", "level": 0.1}
ABOVE = {"measure": "moment", "of": "above", "threshold": 1}


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        *(({"risk": {"measure": name, "level": level}}, "risk.level") for name in ("cvar", "quantile")
          for level in (0, 1, -0.1, 1.5, None, "0.1")),
        ({"risk": {"measure": "cvar"}}, "risk.level"),
        ({"risk": {"measure": "mean-variance"}}, "risk.aversion"),
        *(({"risk": {"measure": "mean-variance", "aversion": aversion}}, "risk.aversion") for aversion in (-1, 0, 1e7)),
        ({"risk": {"measure": "mean-variance", "aversion": 1, "of": "spread"}}, "risk.of"),
        ({"risk": {"measure": "moment", "of": "above"}}, "risk.threshold"),
        ({"risk": ABOVE | {"factor": 2}}, "risk.factor"),
        ({"risk": {"measure": "moment", "of": "log"}}, "reward.minimum"),
        ({"risk": {"measure": "moment", "of": "log"}, "reward": {"minimum": 0}}, "reward.minimum"),
        ({"risk": {"measure": "moment", "of": "power", "exponent": 0.5}, "reward": {"minimum": -1}}, "reward.minimum"),
        ({"risk": {"measure": "moment", "of": "power", "exponent": 0}, "reward": {"minimum": 0}}, "risk.exponent"),
        ({"risk": CVAR, "algorithm": {"name": "linucb-ogd-cr"}}, "algorithm.name"),
        ({"risk": CVAR, "algorithm": {"name": "linucb"}}, "algorithm.name"),
        ({"risk": ABOVE, "algorithm": {"name": "linucb"}}, "algorithm.name"),
        ({"risk": CVAR, "algorithm": {"conditioning": "theory"}}, "algorithm.conditioning"),
    ],
    ids=str,
)  # fmt: skip
def test_risks_that_make_no_sense(api: httpx.Client, changes: Json, field: str) -> None:
    """A campaign would be created that learns nothing, or something else, and cannot be changed."""
    request = shared(**changes)
    problem(api.post("/campaigns", json=request), 422, field)
    assert api.get(f"/campaigns/{request['campaign_id']}").status_code == 404


def test_a_conditioning_that_came_later(api: httpx.Client) -> None:
    """What a creation refuses would come in by a change."""
    campaign_id = create(api, shared(risk=CVAR))
    problem(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"conditioning": "theory"}}), 422)
    assert read(api, campaign_id)["algorithm"]["conditioning"] is None
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"conditioning": 1, "exploration": 0.5}}))


@pytest.mark.parametrize("algorithm", ["linucb-cr", "linucb-onepass-cr"])
@pytest.mark.parametrize(
    "risk",
    [CVAR, {"measure": "quantile", "level": 0.2}, {"measure": "mean-variance", "aversion": 1, "of": "variance"}, ABOVE],
    ids=str,
)
def test_a_copy_that_is_taught_the_same_knows_the_same(api: httpx.Client, risk: Json, algorithm: str) -> None:
    """A campaign that another worker, a restart or an import makes from the log would answer otherwise."""
    rows = [{"arm_id": "ab"[number % 2], "reward": float((7 * number) % 11) / 5} for number in range(60)]
    arms = [{"arm_id": "a"}, {"arm_id": "b"}]
    ids = [create(api, multi_armed(risk=risk, arms=arms, algorithm={"name": algorithm})) for _ in range(2)]
    for campaign_id, step in zip(ids, (1, 20), strict=True):
        for start in range(0, len(rows), step):
            items = [row | {"observation_id": new_id("row")} for row in rows[start : start + step]]
            ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
            if step == 1 and start % 7 == 0:
                select(api, campaign_id)
    assert_same_model(model(api, ids[0]), model(api, ids[1]))


def test_a_moment_is_in_its_own_unit(api: httpx.Client) -> None:
    """A chance would be reported as an amount."""
    campaign_id = create(api, multi_armed(risk=ABOVE, arms=[{"arm_id": "a"}], algorithm={}))
    for value in (5.0, 0.0, 100.0, 1.0):
        reward(api, select(api, campaign_id)["decision_id"], value)
    (arm,) = ok(api.get(f"/campaigns/{campaign_id}/report"))["arms"]
    assert (arm["rewards"]["risk"], arm["rewards"]["mean"]) == (0.75, 26.5)
    assert 0.0 < select(api, campaign_id)["estimate"] < 1.0
