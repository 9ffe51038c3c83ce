"""What reports and pages say of a campaign that was restarted: they judge by what it has learned."""

import httpx
import numpy as np
import pytest

from tests.api.contract import Json, create, model, multi_armed, ok, read

ARMS = [{"arm_id": "a"}, {"arm_id": "b"}]


def learn(api: httpx.Client, campaign_id: str, means: dict[str, float], pairs: int, name: str) -> None:
    """So many decisions for each arm, by the application, and their rewards."""
    rng = np.random.default_rng(8)
    items: list[Json] = [
        {"campaign_id": campaign_id, "decision_id": f"{name}-{n}-{arm}", "chosen_arm_id": arm}
        for n in range(pairs)
        for arm in means
    ]
    made = ok(api.post("/select/batch", json={"items": items}))["items"]
    rewards = [
        {
            "campaign_id": campaign_id,
            "decision_id": one["decision_id"],
            "reward": float(rng.normal(means[one["arm_id"]])),
        }
        for one in made
    ]
    learned = ok(api.post("/reward/batch", json={"items": rewards}))["items"]
    assert {one["status"] for one in learned} == {200}


@pytest.fixture
def restarted(api: httpx.Client) -> str:
    """Arm a was the better one; since row 101, from which the campaign was restarted, it is the worse one."""
    campaign_id = create(api, multi_armed(arms=ARMS, holdout={"share": 0.5, "policy": "uniform"}))
    learn(api, campaign_id, {"a": 10.0, "b": 5.0}, 50, "before")
    learn(api, campaign_id, {"a": 0.0, "b": 5.0}, 30, "after")
    ok(api.post(f"/campaigns/{campaign_id}/restart", json={"from": 101}))
    return campaign_id


def test_a_report_judges_by_what_counts(api: httpx.Client, restarted: str) -> None:
    """It would recommend the arm that the alarm had been raised for, and call that evidence."""
    found = ok(api.get(f"/campaigns/{restarted}/report"))
    assert (found["first_row"], found["head"], found["plays"]) == (101, 161, 160)
    by_arm = {arm["arm_id"]: arm for arm in found["arms"]}
    assert [(by_arm[arm]["plays"], by_arm[arm]["rewards"]["n"]) for arm in "ab"] == [(80, 30), (80, 30)]
    theta = {arm["arm_id"]: arm["theta"][0] for arm in model(api, restarted)["arms"]}
    for arm in "ab":
        assert by_arm[arm]["rewards"]["mean"] == pytest.approx(theta[arm], abs=0.3)
    learning = found["learning"]
    assert (learning["leading_arm_id"], learning["separated"]) == ("b", True)
    ok(api.post(f"/campaigns/{restarted}/restart", json={"from": 1}))
    found = ok(api.get(f"/campaigns/{restarted}/report"))
    assert (found["first_row"], found["arms"][0]["rewards"]["n"]) == (1, 80)


def test_a_holdout_is_judged_by_what_counts(api: httpx.Client) -> None:
    """The lift would be that of a world that has ended."""
    campaign_id = create(api, multi_armed(arms=ARMS, holdout={"share": 0.5, "policy": "uniform"}))
    for number in range(60):
        decision = ok(api.post("/select", json={"campaign_id": campaign_id}))
        ok(api.post("/reward", json={"decision_id": decision["decision_id"], "reward": float(number % 3)}))
    path = f"/campaigns/{campaign_id}"
    ok(api.post(f"{path}/restart", json={"from": 41}))
    holdout = ok(api.get(f"{path}/report"))["holdout"]
    assert holdout["held_out"]["n"] + holdout["decided"]["n"] == 20


def test_the_decision_log_says_what_is_learned(api: httpx.Client, restarted: str) -> None:
    """Rewards that no longer count would look like the others."""
    items = ok(api.get(f"/campaigns/{restarted}/decisions", params={"limit": 1_000}))["items"]
    learned = {one["decision_id"]: one["reward"]["learned"] for one in items}
    assert len(learned) == 160
    assert all(value == one.startswith("after") for one, value in learned.items())
    assert read(api, restarted)["observations"] == 161


def test_the_page_says_since_when(api: httpx.Client, restarted: str) -> None:
    """The page and the report would lead to opposite conclusions."""
    page = api.get(f"/dashboard/campaigns/{restarted}").text
    assert "since the restart at row 101 of the log" in " ".join(page.split())
    assert "from a sample of" not in page
    assert "b leads" in page
