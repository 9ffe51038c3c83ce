"""Small campaigns, played through HTTP to their end."""

import random

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, model, multi_armed, ok, reward, select, teach

ROUNDS_A_REQUEST = 25


def play(api: httpx.Client, campaign_id: str, rounds: int, pays: dict[str, list[float]], **fields: object) -> list[str]:
    """Select and reward so many rounds, in batches; the arms chosen. An arm pays one of its values."""
    draw = random.Random(7)  # noqa: S311  # a simulation
    chosen: list[str] = []
    for _ in range(rounds // ROUNDS_A_REQUEST):
        items = [{"campaign_id": campaign_id, **fields}] * ROUNDS_A_REQUEST
        decisions = ok(api.post("/select/batch", json={"items": items}))["items"]
        arms = [one["arm_id"] for one in decisions]
        rewards = [{"decision_id": one["decision_id"], "reward": draw.choice(pays[one["arm_id"]])} for one in decisions]
        assert {one["status"] for one in ok(api.post("/reward/batch", json={"items": rewards}))["items"]} == {200}
        chosen += arms
    return chosen


@pytest.mark.parametrize("kind", ["constant", "empty"])
def test_constant_context(api: httpx.Client, kind: str) -> None:
    """B01. A campaign whose context says nothing would not learn, or would be a singular matrix."""
    arms = [{"arm_id": f"arm-{number}"} for number in range(4)]
    request: Json = multi_armed(arms=arms, algorithm={})
    fields: Json = {}
    if kind == "constant":
        request = disjoint(
            risk={"measure": "mean"}, model={"type": "disjoint", "dimension": 1}, arms=arms, algorithm={}
        )
        fields = {"context": [1]}
    campaign_id = create(api, request)
    history = [(arm["arm_id"], 1.0 if arm["arm_id"] == "arm-3" else 0.0) for arm in arms for _ in range(10)]
    teach(api, campaign_id, history, **fields)
    items = [{"campaign_id": campaign_id, **fields}] * 1_000
    chosen = ok(api.post("/select/batch", json={"items": items}))["items"]
    best = [one for one in chosen if one["arm_id"] == "arm-3"]
    assert len(best) >= 900
    assert all(one["exploring"] for one in chosen if one["arm_id"] != "arm-3")


def test_from_nothing_and_from_one(api: httpx.Client) -> None:
    """B11. The first decisions of a campaign, or those after one reward an arm, would be NaN or an error."""
    for request, fields in ((multi_armed(), {}), (disjoint(), {"context": [0.5, 0]})):
        campaign_id = create(api, request)
        for number in range(4):
            scored = select(api, campaign_id, explain=True, **fields)["arms"]
            assert len(scored) == 3
            # JSON has no NaN: a number that is none would be null
            assert all(isinstance(one[name], float) for one in scored for name in ("estimate", "bonus", "index"))
            assert all(one["bonus"] >= 0 for one in scored)
            if number < 3:
                decision = select(api, campaign_id, chosen_arm_id="abc"[number], **fields)
                reward(api, decision["decision_id"], 1)


@pytest.mark.parametrize("pays", [([-3.0], [-1.0]), ([-4.0, -2.0], [-2.0, 0.0])], ids=["constant", "noisy"])
def test_negative_rewards(client: httpx.Client, pays: tuple[list[float], list[float]]) -> None:
    """B13. Where every reward is a loss, an arm that was never tried would look best, or the worse one win."""
    campaign_id = create(client, multi_armed(arms=[{"arm_id": "worse"}, {"arm_id": "better"}], algorithm={}))
    chosen = play(client, campaign_id, 2_000, {"worse": pays[0], "better": pays[1]})
    assert len(chosen) == 2_000
    assert chosen.count("better") / len(chosen) > 0.95
    thetas = {arm["arm_id"]: arm["theta"][0] for arm in model(client, campaign_id)["arms"]}
    assert thetas["better"] == pytest.approx(-1, abs=0.1)


@pytest.mark.parametrize(
    "values", [([0, 1], [0, 0, 0, 1]), ([250.0, 350.0], [150.0, 250.0])], ids=["binary", "dollars"]
)
def test_newcomers_campaign_learns(client: httpx.Client, values: tuple[list[float], list[float]]) -> None:
    """Binary rewards, or rewards in hundreds of dollars, would need dials that a newcomer does not know."""
    campaign_id = create(client, multi_armed(arms=[{"arm_id": "good"}, {"arm_id": "bad"}], algorithm={}))
    chosen = play(client, campaign_id, 1_000, {"good": values[0], "bad": values[1]})
    assert chosen[500:].count("good") / 500 > 0.9


def test_caution_prefers_the_safe_arm(client: httpx.Client) -> None:
    """A cautious campaign would choose like any other, by the average."""
    pays = {"safe": [0.9, 1.1], "risky": [-8.0, 11.0]}  # 1.5 on average
    shares = []
    for risk in ({"measure": "mean"}, {"measure": "expectile", "level": 0.1}):
        request = multi_armed(risk=risk, arms=[{"arm_id": name} for name in pays], algorithm={})
        campaign_id = create(client, request)
        items = [{"arm_id": name, "reward": value} for name, values in pays.items() for value in values * 40]
        ok(client.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
        shares.append(select(client, campaign_id, explore=False)["arm_id"])
    assert shares == ["risky", "safe"]


BOLD = {"bold": [0.9] * 9 + [-1.0], "steady": [0.55, 0.6, 0.65], "slow": [0.4]}


@pytest.mark.parametrize("algorithm", ["linucb-cr", "linucb-onepass-cr"])
@pytest.mark.parametrize(
    ("risk", "best"),
    [
        ({"measure": "cvar", "level": 0.1}, "steady"),
        ({"measure": "quantile", "level": 0.3}, "bold"),
        ({"measure": "mean-variance", "aversion": 1}, "steady"),
        ({"measure": "mean-variance", "aversion": 2, "of": "variance"}, "steady"),
        ({"measure": "moment", "of": "above", "threshold": 0.8}, "bold"),
        ({"measure": "moment", "of": "gain-loss", "reference": 0, "factor": 5}, "steady"),
    ],
    ids=str,
)
def test_the_couriers_by_each_measure(client: httpx.Client, risk: Json, best: str, algorithm: str) -> None:
    """A campaign would learn another measure than the one that it names, or its report show another."""
    arms = [{"arm_id": name} for name in BOLD]
    campaign_id = create(client, multi_armed(arms=arms, risk=risk, algorithm={"name": algorithm}))
    # enough of each arm to begin with: two bad ones among its first plays may make a campaign give a good arm up
    items = [{"arm_id": name, "reward": value} for name, values in BOLD.items() for value in values * 4]
    ok(client.post(f"/campaigns/{campaign_id}/observations", json={"items": items}))
    chosen = play(client, campaign_id, 500, BOLD)
    assert chosen[-200:].count(best) > 100, chosen[-200:].count(best)
    assert model(client, campaign_id)["guaranteed"] is False
    report = ok(client.get(f"/campaigns/{campaign_id}/report"))
    assert report["learning"]["observations"] == 500 + len(items)
    shown = {arm["arm_id"]: arm["rewards"] for arm in report["arms"]}
    if risk["measure"] == "cvar" and shown["bold"]["n"] >= 10:
        assert shown["bold"]["risk"] < shown["bold"]["mean"]
