"""Arms that are added and retired in the middle of a run: never an error, and what is retired stays away."""

import random

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, model, multi_armed, ok, problem, reward, select, shared
from tests.promises import Promise, length

ROUNDS = length("ARM_ROUNDS", 150)
FIRST = ["a", "b", "c"]
DIMENSION = 2
PAYS = {"a": 0.2, "b": 0.9, "c": 0.1, "d": 0.5, "e": 0.8}
REQUESTS = {"shared": shared, "disjoint": disjoint, "multi-armed": multi_armed}


def features_of(arm: str) -> list[float]:
    return [round(random.Random(f"{arm} {n}").uniform(-1, 1), 3) for n in range(DIMENSION)]  # noqa: S311  # a simulation


def body_of(kind: str, draw: random.Random, active: list[str], *, listed: bool) -> Json:
    """A round's request: with registered arms or, for the shared model, now and then a list of them."""
    if kind == "disjoint":
        return {"context": [draw.gauss(0, 1) for _ in range(DIMENSION)]}
    if kind == "shared" and listed:
        return {"arms": [{"arm_id": arm, "features": features_of(arm)} for arm in [*active, "b", "unregistered"]]}
    return {}


@pytest.mark.parametrize("kind", REQUESTS)
def test_arms_come_and_go(api: httpx.Client, kind: str, promise: Promise) -> None:
    """A product that is sold out would be offered again, or a new one break the campaign that it joins.

    The best arm is retired at a third of the run, with decisions pending; at a quarter and at a half arms are added.
    """
    draw = random.Random(7)  # noqa: S311  # a simulation
    arms = [{"arm_id": arm, **({"features": features_of(arm)} if kind == "shared" else {})} for arm in FIRST]
    campaign_id = create(api, REQUESTS[kind](arms=arms, algorithm={"warmup": 2}))
    active, pending, after_retirement = [*FIRST], [], 0
    for t in range(ROUNDS):
        if t in {ROUNDS // 4, ROUNDS // 2}:
            arm = "d" if t == ROUNDS // 4 else "e"
            body = {"arm_id": arm, **({"features": features_of(arm)} if kind == "shared" else {})}
            ok(api.post(f"/campaigns/{campaign_id}/arms", json=body), 201)
            active.append(arm)
        if t == ROUNDS // 3:
            pending = [select(api, campaign_id, chosen_arm_id="b", **body_of(kind, draw, active, listed=False))]
            ok(api.patch(f"/campaigns/{campaign_id}/arms/b", json={"status": "retired"}))
            active.remove("b")
        decision = select(api, campaign_id, **body_of(kind, draw, active, listed=t % 4 == 1 and t > ROUNDS // 3))
        assert decision["greedy_arm_id"] in {*active, "unregistered"}
        assert decision["arm_id"] in {*active, "unregistered"}
        after_retirement += t >= ROUNDS // 3
        pays = PAYS.get(decision["arm_id"], 0.0) + draw.gauss(0, 0.1)
        answer = reward(api, decision["decision_id"], pays)
        assert answer["learned"]
    promise("arms", f"{kind}: {ROUNDS:,} rounds, errors 0; retired arm chosen 0 times in {after_retirement:,}")
    assert reward(api, pending[0]["decision_id"], 1.0)["arm_id"] == "b"  # what came of it before is still learned
    problem(
        api.post(
            "/select", json={"campaign_id": campaign_id, "eligible": ["b"], **body_of(kind, draw, active, listed=False)}
        ),
        422,
    )
    found = model(api, campaign_id)
    assert [(arm["arm_id"], arm["status"]) for arm in found["arms"]] == [
        (arm, "retired" if arm == "b" else "active") for arm in "abcde"
    ]
    assert found["observations"] == ROUNDS + 1
