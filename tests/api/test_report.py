"""GET /campaigns/{campaign_id}/report: what each arm gave, what caution costs, and whether the campaign learns."""

import time
from statistics import fmean, stdev
from typing import Any

import httpx
import numpy as np
import pytest
from scipy import stats
from sqlalchemy import text

from prudent.store.engines import create_write_engine, parse_database_url
from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, reward, select, shared, teach
from tests.servers import Server

CAUTIOUS = {"measure": "expectile", "level": 0.1}


def report(api: httpx.Client, campaign_id: str) -> Json:
    return ok(api.get(f"/campaigns/{campaign_id}/report"))


def arms_of(body: Json) -> dict[str, Json]:
    return {arm["arm_id"]: arm for arm in body["arms"]}


def observe(api: httpx.Client, campaign_id: str, items: list[Json]) -> None:
    for start in range(0, len(items), 1_000):
        ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": items[start : start + 1_000]}))


def forget(server: Server, *decision_ids: str) -> None:
    """Prune decisions, as retention does."""
    engine = create_write_engine(parse_database_url(server.database_url))
    with engine.begin() as connection:
        for decision_id in decision_ids:
            connection.execute(text("DELETE FROM decisions WHERE decision_id = :id"), {"id": decision_id})
    engine.dispose()


def test_empty(api: httpx.Client) -> None:
    """A dashboard would break on a campaign that has only been created."""
    body = report(api, create(api, multi_armed()))
    assert (body["plays"], body["pending"], body["expired"], body["observations"]) == (0, 0, 0, 0)
    assert [(arm["arm_id"], arm["status"], arm["plays"], arm["share"]) for arm in body["arms"]] == [
        (name, "active", 0, None) for name in "abc"
    ]
    rewards = body["arms"][0]["rewards"]
    assert rewards.pop("sources") == {"reward": 0, "default": 0, "warm_start": 0}
    assert rewards.pop("n") == 0
    assert set(rewards.values()) == {None}
    assert body["price_of_caution"]["best_by_mean"] is body["learning"]["leading_arm_id"] is None
    assert (body["learning"]["exploring_share"], body["learning"]["separated"]) == (None, None)
    problem(api.get(f"/campaigns/{new_id('none')}/report"), 404)
    problem(api.get("/campaigns/a b/report"), 422)


def test_by_hand(api: httpx.Client) -> None:
    """The report's numbers would not be those of the rewards."""
    campaign_id = create(api, multi_armed(risk=CAUTIOUS))
    given = {"a": [1.0, 2.0, 6.0, -3.0], "b": [0.5], "c": []}
    teach(api, campaign_id, [(name, value) for name, values in given.items() for value in values])
    select(api, campaign_id, chosen_arm_id="b")
    body = report(api, campaign_id)
    assert (body["plays"], body["pending"], body["observations"], body["head"]) == (6, 1, 5, 5)
    for name, arm in arms_of(body).items():
        plays = len(given[name]) + (name == "b")
        assert (arm["plays"], arm["share"], arm["pending"]) == (plays, plays / 6, int(name == "b"))
        assert (arm["rewards"]["n"], arm["rewards"]["sources"]["reward"]) == (len(given[name]), len(given[name]))
    rewards = arms_of(body)["a"]["rewards"]
    assert rewards["mean"] == pytest.approx(fmean(given["a"]))
    assert rewards["standard_deviation"] == pytest.approx(stdev(given["a"]))
    assert (rewards["minimum"], rewards["maximum"], rewards["interval"]) == (-3, 6, None)
    assert rewards["risk"] == pytest.approx(float(stats.expectile(given["a"], 0.1)))
    assert arms_of(body)["b"]["rewards"]["standard_deviation"] is None
    assert body["risk"]["level"] == 0.1


def test_warm_starts_are_observations_and_no_plays(api: httpx.Client) -> None:
    """History that was sent along would look like decisions of the service, or be left out of the rewards."""
    campaign_id = create(api, multi_armed())
    observe(api, campaign_id, [{"arm_id": "a", "reward": 2.0}] * 3)
    teach(api, campaign_id, [("a", 6)])
    arm = arms_of(report(api, campaign_id))["a"]
    assert (arm["plays"], arm["rewards"]["n"], arm["rewards"]["mean"]) == (1, 4, 3)
    assert arm["rewards"]["sources"] == {"reward": 1, "default": 0, "warm_start": 3}


def test_a_reward_that_was_taken_back_is_in_no_count(api: httpx.Client) -> None:
    """The counts by origin would be of more rewards than there are."""
    campaign_id = create(api, multi_armed())
    teach(api, campaign_id, [("a", 6), ("a", 2)])
    newest = api.get(f"/campaigns/{campaign_id}/decisions").json()["items"][0]["decision_id"]
    body = {"reward": None, "reason": "a test"}
    assert api.post(f"/decisions/{newest}/correction", json=body).status_code == 200
    arm = arms_of(report(api, campaign_id))["a"]
    assert (arm["plays"], arm["pending"], arm["rewards"]["n"], arm["rewards"]["mean"]) == (2, 0, 1, 6)
    assert arm["rewards"]["sources"] == {"reward": 1, "default": 0, "warm_start": 0}


def test_paused(api: httpx.Client) -> None:
    """Nobody would see that rewards no longer reach the model, or those rewards would be missing."""
    campaign_id = create(api, multi_armed())
    teach(api, campaign_id, [("a", 1), ("a", 2)])
    assert report(api, campaign_id)["learning"]["paused"] is False
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "paused"}))
    teach(api, campaign_id, [("a", 9)])
    body = report(api, campaign_id)
    assert (body["status"], body["observations"], body["head"]) == ("paused", 2, 3)
    assert arms_of(body)["a"]["rewards"]["mean"] == 4
    assert (body["learning"]["paused"], body["learning"]["observations"]) == (True, 2)
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "active"}))
    assert report(api, campaign_id)["learning"]["observations"] == 3


def test_pruned_decisions(api: httpx.Client, api_server: Server) -> None:
    """Plays would vanish from the report with the decisions that were pruned, though their rewards are still known."""
    campaign_id = create(api, multi_armed())
    made = [select(api, campaign_id, chosen_arm_id=name)["decision_id"] for name in "aabb"]
    for decision_id in made[:3]:
        reward(api, decision_id, 1)
    before = report(api, campaign_id)
    forget(api_server, made[0], made[2])
    body = report(api, campaign_id)
    assert [arm["plays"] for arm in body["arms"]] == [arm["plays"] for arm in before["arms"]] == [2, 2, 0]
    assert (body["plays"], body["pending"], arms_of(body)["a"]["rewards"]["n"]) == (4, 1, 2)


def test_reward_for_another_arm(api: httpx.Client) -> None:
    """A reward for the arm that was used in the end would count a play twice, or count for the wrong arm."""
    campaign_id = create(api, multi_armed())
    made = select(api, campaign_id, chosen_arm_id="a")
    reward(api, made["decision_id"], 5, arm_id="b")
    arms = arms_of(report(api, campaign_id))
    assert [arms[name]["plays"] for name in "abc"] == [1, 0, 0]
    assert [arms[name]["rewards"]["n"] for name in "abc"] == [0, 1, 0]
    assert arms["a"]["pending"] == 0


def test_external_choices(api: httpx.Client) -> None:
    """Somebody who only watches would not see how often the service would have done the same."""
    campaign_id = create(api, multi_armed())
    observe(api, campaign_id, [{"arm_id": name, "reward": value} for name, value in zip("abc", (9, 0, 0), strict=True)])
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exploration": 0}}))
    for name in "aab":
        select(api, campaign_id, chosen_arm_id=name)
    select(api, campaign_id)
    body = report(api, campaign_id)
    assert body["external"] == {"decisions": 3, "agreed": 2, "agreement": 2 / 3}
    assert arms_of(body)["a"]["external"] == {"decisions": 2, "agreed": 2, "agreement": 1}
    assert arms_of(body)["b"]["external"] == {"decisions": 1, "agreed": 0, "agreement": 0}
    assert arms_of(body)["c"]["external"]["agreement"] is None


def test_price_of_caution(api: httpx.Client) -> None:
    """Nobody would know what minding the bad outcomes costs in the average, and what it buys."""
    campaign_id = create(api, multi_armed(risk=CAUTIOUS))
    random = np.random.default_rng(3)
    given = {"a": random.normal(1, 0.1, 600), "b": random.normal(2, 5, 60), "c": random.normal(-9, 1, 40)}
    observe(api, campaign_id, [{"arm_id": name, "reward": value} for name in given for value in given[name].tolist()])
    ok(api.patch(f"/campaigns/{campaign_id}/arms/c", json={"status": "retired"}))
    body = report(api, campaign_id)
    price, learning = body["price_of_caution"], body["learning"]
    assert (price["best_by_mean"], price["best_by_risk"]) == ("b", "a")
    assert price["mean_difference"] == pytest.approx(given["b"].mean() - given["a"].mean())
    risks = {name: float(stats.expectile(given[name], 0.1)) for name in given}
    assert price["risk_difference"] == pytest.approx(risks["a"] - risks["b"])
    assert "expectile at level 0.1" in price["sentence"]
    assert (learning["leading_arm_id"], learning["runner_up_arm_id"], learning["separated"]) == ("a", "b", True)
    assert learning["undecided_arm_ids"] == []
    for arm in body["arms"]:
        low, high = arm["rewards"]["interval"]
        assert low < arm["rewards"]["risk"] < high
    ok(api.patch(f"/campaigns/{campaign_id}/arms/a", json={"status": "paused"}))
    body = report(api, campaign_id)
    assert (body["learning"]["leading_arm_id"], body["learning"]["separated"]) == ("b", None)
    assert body["price_of_caution"]["mean_difference"] == 0


def test_arms_that_are_not_separated(api: httpx.Client) -> None:
    """A lead by chance would be called found."""
    campaign_id = create(api, multi_armed())
    random = np.random.default_rng(4)
    given = {"a": random.normal(0.1, 1, 40), "b": random.normal(0, 1, 40), "c": [-1.0, -2.0]}
    observe(api, campaign_id, [{"arm_id": name, "reward": float(value)} for name in given for value in given[name]])
    learning = report(api, campaign_id)["learning"]
    assert learning["separated"] is False
    assert {learning["leading_arm_id"], learning["runner_up_arm_id"]} == {"a", "b"}
    assert set(learning["undecided_arm_ids"]) == {learning["runner_up_arm_id"], "c"}


def test_exploring_share(api: httpx.Client) -> None:
    """The first complaint about such services is that one cannot see it learn: exploring that ends must show."""
    campaign_id = create(api, multi_armed(algorithm={"warmup": 2}))
    for number in range(6):
        reward(api, select(api, campaign_id)["decision_id"], number % 3)
    made = [select(api, campaign_id) for _ in range(30)]
    body = report(api, campaign_id)["learning"]
    assert body["recent_decisions"] == 36
    ok(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exploration": 0, "floor": 0, "warmup": 0}}))
    ok(api.post("/select/batch", json={"items": [{"campaign_id": campaign_id}] * 80}))
    after = report(api, campaign_id)["learning"]
    assert after["recent_decisions"] == 100
    assert after["exploring_share"] == sum(one["exploring"] for one in made[-20:]) / 100
    assert body["exploring_share"] > 0


def test_what_is_held_out_is_not_exploring(api: httpx.Client) -> None:
    """A campaign that measures itself against one arm would seem to explore for ever."""
    algorithm = {"exploration": 0, "floor": 0, "warmup": 0, "uniform_share": 0}
    campaign_id = create(api, multi_armed(algorithm=algorithm, holdout={"share": 0.5, "arm_id": "c"}))
    ok(api.post("/select/batch", json={"items": [{"campaign_id": campaign_id}] * 100}))
    learning = report(api, campaign_id)["learning"]
    assert (learning["recent_decisions"], learning["exploring_share"]) == (100, 0)
    assert {row["arm_id"] for row in report(api, campaign_id)["arms"] if row["plays"]} > {"c"}


def test_arms_of_requests(api: httpx.Client) -> None:
    """Arms that come with their features in a request would be missing from the report."""
    campaign_id = create(api, shared())
    for name in ("news-1", "news-2", "news-1"):
        made = select(api, campaign_id, arms=[{"arm_id": name, "features": [1, 1]}])
        reward(api, made["decision_id"], 4)
    arms = arms_of(report(api, campaign_id))
    assert list(arms) == ["a", "b", "news-1", "news-2"]
    assert (arms["news-1"]["status"], arms["news-1"]["plays"], arms["news-1"]["rewards"]["n"]) == (None, 2, 2)


@pytest.mark.parametrize("default", [None, -1.0])
def test_deadlines(api: httpx.Client, default: float | None) -> None:
    """Decisions that nobody waits for any more would be called pending for ever."""
    waiting = create(api, multi_armed(reward={"timeout_seconds": 1e6, "default": default}))
    select(api, waiting, chosen_arm_id="a")
    assert report(api, waiting)["pending"] == 1
    campaign_id = create(api, multi_armed(reward={"timeout_seconds": 0.1, "default": default}))
    select(api, campaign_id, chosen_arm_id="a")
    end = time.monotonic() + 30
    arm: Any = None
    while time.monotonic() < end:
        arm = arms_of(report(api, campaign_id))["a"]
        if not arm["pending"] and (default is None or arm["rewards"]["n"]):
            break
        time.sleep(0.1)
    assert (arm["plays"], arm["pending"], arm["expired"]) == (1, 0, int(default is None))
    assert arm["rewards"]["sources"]["default"] == int(default is not None)


def test_after_deletion(api: httpx.Client) -> None:
    """A campaign made anew under the same id would report its predecessor's plays."""
    request = disjoint()
    campaign_id = create(api, request)
    reward(api, select(api, campaign_id, context=[1, 2])["decision_id"], 1)
    api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).raise_for_status()
    problem(api.get(f"/campaigns/{campaign_id}/report"), 404)
    create(api, request)
    assert report(api, campaign_id)["plays"] == 0
