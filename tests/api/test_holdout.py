"""A holdout over HTTP: who is held out, what is recorded of it, and what the policy gains over it."""

import httpx
import pytest

from tests.api.contract import create, disjoint, multi_armed, ok, problem, reward, select, shared

STICKY = {"sticky_seconds": 366 * 86_400}
HALF = {"share": 0.5, "arm_id": "a"}
DECISIONS = 60


def test_a_share_gets_the_arm_of_the_holdout(api: httpx.Client) -> None:
    """What is not held out at random, or not with the probabilities that are recorded, measures nothing."""
    campaign = create(api, multi_armed(holdout=HALF))
    made = [select(api, campaign, decision_id=f"{campaign}.{number}", explain=True) for number in range(DECISIONS)]
    held = [one for one in made if one["reason"] == "holdout"]
    assert 15 <= len(held) <= 45  # four standard errors around 30
    assert {one["arm_id"] for one in held} == {"a"}
    for one in made:
        chances = {arm["arm_id"]: arm["propensity"] for arm in one["arms"]}
        assert sum(chances.values()) == pytest.approx(1.0)
        assert one["propensity"] == pytest.approx(chances[one["arm_id"]])
        assert chances["a"] >= 0.5
    again = create(api, multi_armed(holdout=HALF))
    same = [select(api, again, decision_id=f"{again}.{number}") for number in range(3)]
    assert all(one["reason"] in {"holdout", "index"} for one in same)


def test_a_uniform_holdout_draws_among_the_candidates(api: httpx.Client) -> None:
    """Without an arm to hold out for, chance is the policy to compare with."""
    campaign = create(api, disjoint(holdout={"share": 0.5, "policy": "uniform"}))
    made = [select(api, campaign, context=[1, 2], exclude=["c"], explain=True) for _ in range(DECISIONS)]
    held = {one["arm_id"] for one in made if one["reason"] == "holdout"}
    assert held == {"a", "b"}
    assert all(arm["propensity"] >= 0.25 - 1e-12 for one in made for arm in one["arms"])


def test_a_subject_stays_where_it_is(api: httpx.Client) -> None:
    """A user who changes sides contaminates both. Campaigns with one seed hold out the same subjects."""
    campaigns = [create(api, multi_armed(holdout=HALF, assignment=STICKY, seed=3)) for _ in range(2)]
    sides = [
        [select(api, campaign, subject=f"u{number}")["reason"] == "holdout" for number in range(20)]
        for campaign in campaigns
    ]
    assert sides[0] == sides[1]
    assert 0 < sum(sides[0]) < 20


def test_requests_without_its_arm_belong_to_neither_side(api: httpx.Client) -> None:
    """They would be decided by the policy only, and the two sides would differ in what was asked."""
    campaign = create(api, multi_armed(holdout=HALF))
    for number in range(20):
        decision = select(api, campaign, exclude=["a"] if number % 2 else [], chosen_arm_id=None if number % 2 else "b")
        assert decision["reason"] != "holdout"
        reward(api, decision["decision_id"], 1)
    report = ok(api.get(f"/campaigns/{campaign}/report"))["holdout"]
    assert (report["held_out"]["n"], report["decided"]["n"], report["lift"]) == (0, 0, None)


def test_the_report_says_what_the_policy_gains(api: httpx.Client) -> None:
    """The number that a product team has to show."""
    campaign = create(api, multi_armed(holdout=HALF, arms=[{"arm_id": name} for name in "ab"]))
    selects = {"items": [{"campaign_id": campaign}] * 200}
    made = ok(api.post("/select/batch", json=selects))["items"]
    values = {"a": 1.0, "b": 2.0}
    items = [
        {"decision_id": one["decision_id"], "reward": values[one["arm_id"]] + 0.01 * (number % 7)}
        for number, one in enumerate(made)
    ]
    rewarded = ok(api.post("/reward/batch", json={"items": items}))["items"]
    report = ok(api.get(f"/campaigns/{campaign}/report"))["holdout"]
    held = [item["reward"] for item, one in zip(items, made, strict=True) if one["reason"] == "holdout"]
    rest = [item["reward"] for item, one in zip(items, made, strict=True) if one["reason"] != "holdout"]
    assert (report["share"], report["arm_id"], report["policy"]) == (0.5, "a", None)
    assert (report["held_out"]["n"], report["decided"]["n"]) == (len(held), len(rest))
    assert report["lift"] == pytest.approx(sum(rest) / len(rest) - sum(held) / len(held))
    assert report["interval"][0] < report["lift"] < report["interval"][1]
    assert "than that of a" in report["sentence"]
    correction = {"reward": 9, "reason": "a slip"}
    ok(api.post(f"/decisions/{rewarded[0]['decision_id']}/correction", json=correction))
    assert ok(api.get(f"/campaigns/{campaign}/report"))["holdout"]["lift"] != report["lift"]
    assert ok(api.get(f"/campaigns/{create(api, multi_armed())}/report"))["holdout"] is None


def test_it_moves_with_its_campaign(api: httpx.Client) -> None:
    """After a move the sides would be mixed up."""
    campaign = create(api, multi_armed(holdout=HALF))
    for number in range(20):
        reward(api, select(api, campaign)["decision_id"], number)
    before = ok(api.get(f"/campaigns/{campaign}/report"))["holdout"]
    exported = api.get(f"/campaigns/{campaign}/export")
    api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})
    headers = {"Content-Type": "application/x-ndjson"}
    assert api.post("/import", content=exported.content, headers=headers).status_code == 201
    assert ok(api.get(f"/campaigns/{campaign}/report"))["holdout"] == before


@pytest.mark.parametrize(
    ("holdout", "field"),
    [
        ({"share": 0.05}, "holdout.arm_id"),
        ({"share": 0.05, "arm_id": "a", "policy": "uniform"}, "holdout.arm_id"),
        ({"share": 0.05, "arm_id": "z"}, "holdout.arm_id"),
        ({"share": 0, "arm_id": "a"}, "holdout.share"),
        ({"share": 0.51, "arm_id": "a"}, "holdout.share"),
        ({"share": "0.1", "arm_id": "a"}, "holdout.share"),
        ({"share": 0.1, "policy": "greedy"}, "holdout.policy"),
        ({"arm_id": "a"}, "holdout.share"),
    ],
)
def test_a_holdout_that_makes_no_sense_is_refused(api: httpx.Client, holdout: dict[str, object], field: str) -> None:
    """A team would find out after a month that nothing was held out."""
    problem(api.post("/campaigns", json=multi_armed(holdout=holdout)), 422, field)


def test_a_shared_model_may_hold_out_for_an_arm_that_requests_bring(api: httpx.Client) -> None:
    """Its arms need not be registered."""
    campaign = create(api, shared(holdout={"share": 0.5, "arm_id": "usual"}))
    arms = [{"arm_id": "usual", "features": [1, 0]}, {"arm_id": "new", "features": [0, 1]}]
    made = [select(api, campaign, arms=arms) for _ in range(20)]
    assert {one["arm_id"] for one in made if one["reason"] == "holdout"} == {"usual"}
