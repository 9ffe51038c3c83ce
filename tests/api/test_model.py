"""GET /campaigns/{campaign_id}/model: what was learned, and what may be claimed about it."""

from math import exp, log, pi, sqrt

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
    reward,
    select,
    shared,
    teach,
)

FIELDS = {
    "campaign_id",
    "algorithm",
    "observations",
    "head",
    "feature_names",
    "features",
    "frozen_at",
    "theta",
    "theta_intervals",
    "arms",
    "conditioning",
    "noise_scale",
    "parameter_bound",
    "radius",
    "guaranteed",
    "guarantee_note",
    "center",
    "inside_ball",
    "regret_bound",
    "convergence",
    "one_pass",
    "features_above_bound",
    "changes",
    "refused_rewards",
    "warnings",
    "state_digest",
}
OPTIMISTIC = {"warmup": 0, "exploration_rule": "optimistic"}
"""Rewards are learned as they are, so that what is learned can be computed by hand."""
THEORY = {"warmup": 0, "noise_scale": 2.5, "parameter_bound": 3}
EXPECTILE = {"measure": "expectile", "level": 0.2}
ENTROPIC = {
    "risk": {"measure": "entropic", "gamma": -1},
    "reward": {"minimum": -2, "maximum": 2},
}


def test_fields(api: httpx.Client) -> None:
    """A dashboard written from the contract would miss a number, or show one of another kind of campaign."""
    body = model(api, create(api, shared()))
    assert set(body) == FIELDS
    assert (body["algorithm"], body["observations"], body["head"], body["theta"]) == ("linucb-cr", 0, 0, [0, 0, 0])
    unknown = {"theta": None, "radius": None, "inside_ball": None, "theta_intervals": None, "limits": None}
    assert body["arms"] == [{"arm_id": name, "status": "active", **unknown} for name in "ab"]
    assert (body["inside_ball"], body["regret_bound"]) == (None, None)
    assert body["radius"] > 0
    assert (body["conditioning"], body["noise_scale"], body["parameter_bound"]) == (1, 1, 0)
    assert (body["guaranteed"], body["features_above_bound"], body["warnings"]) == (False, 0, [])
    assert set(body["convergence"]) == {"certified", "fits", "uncertified_fits", "bound_active_fits"}
    body = model(api, create(api, disjoint()))
    assert (body["theta"], body["radius"]) == (None, None)
    assert all(arm["theta"] == [0, 0, 0] and arm["radius"] > 0 for arm in body["arms"])
    assert [arm["theta"] for arm in model(api, create(api, multi_armed()))["arms"]] == [[0]] * 3
    problem(api.get(f"/campaigns/{new_id('none')}/model"), 404)


def test_estimates_by_hand(api: httpx.Client) -> None:
    """The numbers shown would not be those of the method."""
    campaign_id = create(api, multi_armed(algorithm=OPTIMISTIC | {"name": "linucb", "regularization": 0.5}))
    items = [{"arm_id": "a", "reward": value} for value in (1, 2, 6)] + [{"arm_id": "b", "reward": -4}]
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    body = model(api, campaign_id)
    thetas = [arm["theta"][0] for arm in body["arms"]]
    assert thetas == pytest.approx([9 / 3.5, -4 / 1.5, 0], rel=1e-12)
    errors = sum((thetas[0] - value) ** 2 for value in (1, 2, 6)) + (thetas[1] + 4) ** 2
    assert body["noise_scale"] == pytest.approx((errors / 4) ** 0.5, rel=1e-12)
    assert body["parameter_bound"] == pytest.approx(4 / 1.5, rel=1e-12)


@pytest.mark.parametrize("scale", [1e-3, 1, 300])
def test_data_driven_dial_is_free_of_scale(api: httpx.Client, scale: float) -> None:
    """Rewards in cents would choose other arms than the same rewards in dollars."""
    values = [0.3, 0.9, 0.1, 0.4, 0.8, 0.2]
    seen: list[Json] = []
    for factor in (1, scale):
        campaign_id = create(api, disjoint())
        for number, value in enumerate(values):
            decision = select(api, campaign_id, chosen_arm_id="abc"[number % 3], context=[0.5, number / 5])
            reward(api, decision["decision_id"], value * factor)
        seen.append(select(api, campaign_id, context=[1, 1], explain=True, decision_id=new_id("scale")))
    assert [one["arm_id"] for one in seen[0]["arms"]] == [one["arm_id"] for one in seen[1]["arms"]]
    for one, other in zip(seen[0]["arms"], seen[1]["arms"], strict=True):
        assert other["estimate"] == pytest.approx(one["estimate"] * scale, rel=1e-9)
        assert other["bonus"] == pytest.approx(one["bonus"] * scale, rel=1e-9)


@pytest.mark.parametrize(
    ("guaranteed", "changes"),
    [
        (True, {"algorithm": THEORY}),
        (True, {"algorithm": THEORY, "risk": EXPECTILE}),
        (True, {"algorithm": THEORY | {"conditioning": "theory"}, "risk": EXPECTILE}),
        (True, {"algorithm": THEORY | {"bonus": "global"}, "risk": EXPECTILE}),
        (True, {"algorithm": THEORY | {"name": "linucb"}}),
        (True, {"algorithm": THEORY | {"parameter_bound": 2}, **ENTROPIC}),
        (True, {"algorithm": THEORY | {"conditioning": "self-concordant"}, **ENTROPIC}),
        (False, {"algorithm": {"warmup": 0}}),
        (False, {"algorithm": THEORY | {"noise_scale": None}}),
        (False, {"algorithm": THEORY | {"parameter_bound": None}}),
        (False, {"algorithm": THEORY | {"projection": False}}),
        (False, {"algorithm": THEORY | {"conditioning": 1}, "risk": EXPECTILE}),
        (False, {"algorithm": THEORY | {"conditioning": 4}, "risk": EXPECTILE}),
        (False, {"algorithm": THEORY | {"name": "linucb-ogd-cr"}, "risk": EXPECTILE}),
        (False, {"algorithm": THEORY | {"name": "linucb-onepass-cr"}, "risk": EXPECTILE}),
        (True, {"algorithm": THEORY, "risk": {"measure": "moment", "of": "above", "threshold": 0.5}}),
        (False, {"algorithm": THEORY, "risk": {"measure": "cvar", "level": 0.2}}),
        (False, {"algorithm": THEORY, "risk": {"measure": "quantile", "level": 0.2}}),
        (False, {"algorithm": THEORY, "risk": {"measure": "mean-variance", "aversion": 1}}),
        (False, {"algorithm": THEORY, **ENTROPIC}),  # the ball leaves the rewards' bounds
        (False, {"algorithm": THEORY | {"conditioning": "self-concordant", "bonus": "global"}, **ENTROPIC}),
    ],
    ids=str,
)
def test_guaranteed(api: httpx.Client, guaranteed: bool, changes: Json) -> None:
    """An interval that may fail would be sold as a guarantee, or a sound one be doubted."""
    campaign_id = create(api, shared(**changes))
    for _ in range(2):
        body = model(api, campaign_id)
        assert body["guaranteed"] is guaranteed, body["guarantee_note"]
        assert body["guarantee_note"]
        assert (body["regret_bound"] is not None) is guaranteed
        reward(api, select(api, campaign_id)["decision_id"], 1)


def test_guarantee_ends_with_a_feature_above_the_bound(api: httpx.Client) -> None:
    """The theory would be claimed for data that break its assumption."""
    campaign_id = create(api, shared(algorithm=THEORY))
    for size, counted in ((1, 0), (1.5, 1), (1, 1)):
        decision = select(api, campaign_id, arms=[{"arm_id": "x", "features": [size, 0]}])
        reward(api, decision["decision_id"], 1)
        body = model(api, campaign_id)
        assert (body["features_above_bound"], body["guaranteed"]) == (counted, counted == 0)
    assert "feature_bound" in " ".join(body["warnings"])


def test_change_of_the_dial_changes_the_claim(api: httpx.Client) -> None:
    """A campaign whose dial was turned would go on claiming the guarantee that it started with."""
    campaign_id = create(api, shared(algorithm=THEORY))
    assert model(api, campaign_id)["guaranteed"]
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"noise_scale": None}}))
    assert not model(api, campaign_id)["guaranteed"]
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"noise_scale": 7, "conditioning": 1}}))
    body = model(api, campaign_id)
    assert (body["guaranteed"], body["noise_scale"]) == (False, 7)


def test_ball_that_binds_is_reported(api: httpx.Client) -> None:
    """A bound that is too small would stop the learning without a word."""
    small = create(api, multi_armed(algorithm=OPTIMISTIC | {"parameter_bound": 0.1}))
    large = create(api, multi_armed(algorithm=OPTIMISTIC | {"parameter_bound": 100}))
    for campaign_id, warned in ((small, True), (large, False)):
        for number in range(6):
            reward(api, select(api, campaign_id, chosen_arm_id="a")["decision_id"], 5 + number)
        body = model(api, campaign_id)
        assert ("parameter_bound" in " ".join(body["warnings"])) is warned
        assert body["convergence"]["certified"]
        assert (body["arms"][0]["theta"][0] <= 0.1 + 1e-9) is warned


def test_ball_is_reported_arm_by_arm(api: httpx.Client) -> None:
    """Nobody would see which arm's parameter_bound is too small."""
    campaign_id = create(api, multi_armed(algorithm=OPTIMISTIC | {"parameter_bound": 1}))
    assert model(api, campaign_id)["inside_ball"] is True
    teach(api, campaign_id, [("a", 0.5), ("b", 9), ("b", 9)])
    body = model(api, campaign_id)
    assert body["inside_ball"] is False
    assert {arm["arm_id"]: arm["inside_ball"] for arm in body["arms"]} == {"a": True, "b": False, "c": True}
    campaign_id = create(api, shared(algorithm=OPTIMISTIC | {"parameter_bound": 1, "projection": False}))
    teach(api, campaign_id, [("a", 0.5), ("b", 9)])
    body = model(api, campaign_id)
    assert body["inside_ball"] is False
    assert sum(value**2 for value in body["theta"]) > 1


TUNED = {"warmup": 0, "noise_scale": 0.01, "parameter_bound": 1, "regularization": 0.5}


def learned(api: httpx.Client, request: Json, count: int = 100) -> Json:
    """The model after so many observations; the arms take turns."""
    campaign_id = create(api, request)
    names = [arm["arm_id"] for arm in request["arms"]]
    extra = {"features": [0.6, 0.8]} if request["model"]["type"] == "shared" else {}
    items = [{"arm_id": names[number % len(names)], "reward": 0.5, **extra} for number in range(count)]
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    return model(api, campaign_id)


def theorem_1(rounds: int, dimension: int, m: float, ratio: float, kappa: float, shares: float = 1) -> float:
    """2 c_T sqrt(T P_T) of the tight local bonus with TUNED, written out; ratio: M/m, shares: delta over delta_k."""
    ridge = kappa * 0.5
    radius = 0.01 * sqrt(2 * log(shares / 0.05) + dimension * log(1 + m * ratio * rounds / (dimension * ridge)))
    potential = 2 * max(1 / m, 1 / ridge) * dimension * log(1 + m * rounds / (dimension * ridge))
    return 2 * (kappa * radius + sqrt(ridge)) * sqrt(rounds * potential)


def test_regret_bound_by_hand(api: httpx.Client) -> None:
    """The bound shown would not be the theorem's for this campaign's constants."""
    mean = theorem_1(100, 2, 1, 1, 1)
    assert mean < 100
    for algorithm in ({"name": "linucb"}, {"name": "linucb", "bonus": "global"}, {}):
        body = learned(api, shared(algorithm=TUNED | algorithm))
        assert body["regret_bound"] == pytest.approx(mean, rel=1e-12)
    body = learned(api, shared(algorithm=TUNED, risk=EXPECTILE))
    assert body["regret_bound"] == pytest.approx(theorem_1(100, 2, 0.4, 4, 4), rel=1e-12)
    body = learned(api, shared(algorithm=TUNED | {"bonus": "local"}, risk=EXPECTILE))
    assert body["regret_bound"] == pytest.approx(min(200, 2 * theorem_1(100, 2, 0.4, 4, 4)), rel=1e-12)
    body = learned(api, shared(algorithm=TUNED | {"exploration": 2}))
    assert body["regret_bound"] == pytest.approx(1.5 * mean, rel=1e-12)
    assert learned(api, shared(algorithm=TUNED | {"exploration": 0.5}))["regret_bound"] is None
    assert model(api, create(api, shared(algorithm=TUNED)))["regret_bound"] == 0
    # a warm-up of 3 plays for each of two arms, at 2 L S each
    body = learned(api, shared(algorithm=TUNED | {"warmup": 3}))
    assert body["regret_bound"] == pytest.approx(mean + 12, rel=1e-12)


def test_regret_bound_of_a_self_concordant_campaign(api: httpx.Client) -> None:
    """The curvature within the reward bounds would be taken for that of the whole ball, and the bound be too small."""
    changes = {"algorithm": TUNED | {"conditioning": "self-concordant"}}
    changes |= {"risk": {"measure": "entropic", "gamma": -0.1}, "reward": {"minimum": 0, "maximum": 1}}
    body = learned(api, shared(**changes), 900)
    # d2 = |gamma| exp(gamma (y - xi)), y - xi in [-1, 2] over the ball, and in [-1, 1] within the reward bounds
    m = 0.1 * exp(-0.2)
    expected = theorem_1(900, 2, m, 0.1 * exp(0.1) / m, 1.2)
    assert expected < 1800
    assert body["regret_bound"] == pytest.approx(expected, rel=1e-12)


def test_regret_bound_counts_blocks(api: httpx.Client) -> None:
    """A campaign with a parameter an arm would be promised the regret of one with a single parameter."""
    request = multi_armed(algorithm=TUNED)

    def bound(count: int, shares: float) -> float:
        radius = 0.01 * sqrt(2 * log(shares / 0.05) + log(1 + 300 / 0.5))
        potential = 2 * max(1, 1 / 0.5) * count * log(1 + 300 / (count * 0.5))
        return 2 * (radius + sqrt(0.5)) * sqrt(300 * potential)

    body = learned(api, request, 300)
    assert body["regret_bound"] == pytest.approx(bound(3, 3), rel=1e-12)
    ok(api.post(f"/campaigns/{body['campaign_id']}/arms", json={"arm_id": "d"}), 201)
    expected = bound(4, 16 * pi**2 / 6)
    assert model(api, body["campaign_id"])["regret_bound"] == pytest.approx(expected, rel=1e-12)
    empty = create(api, multi_armed(algorithm=TUNED, arms=[]))
    assert model(api, empty)["regret_bound"] is None


def test_conditioning_in_use(api: httpx.Client) -> None:
    """null would mean another conditioning than the documentation says."""
    cases = [
        ({"warmup": 0}, 1),
        ({"warmup": 0, "noise_scale": 1}, 4),
        ({"warmup": 0, "conditioning": "theory"}, 4),
        ({"warmup": 0, "conditioning": 2.5}, 2.5),
    ]
    for algorithm, expected in cases:
        body = model(api, create(api, shared(risk=EXPECTILE, algorithm=algorithm)))
        assert body["conditioning"] == pytest.approx(expected)
    algorithm = THEORY | {"conditioning": "self-concordant"}
    body = model(api, create(api, shared(algorithm=algorithm, **ENTROPIC)))
    assert body["conditioning"] == pytest.approx(1 + 2 * 1 * 1 * 3)
