"""A baseline over HTTP: what is held at it, what is recorded, and what a report says."""

import random
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, model, multi_armed, ok, problem, read, reward, select, shared
from tests.conftest import MakeServer

BASELINE = {"arm_id": "b", "tolerance": 0.1}
DIALS = {"warmup": 1, "floor": 0, "baseline": BASELINE}
MEANS = {"a": 0.2, "b": 1.0, "c": 2.0}


def report(api: httpx.Client, campaign: str) -> Json:
    found: Json = ok(api.get(f"/campaigns/{campaign}/report"))
    return found


def play(api: httpx.Client, campaign: str, rounds: int, **fields: Json) -> list[Json]:
    """Explained decisions, each rewarded at once by its arm's mean and some noise."""
    draw, made = random.Random(7), []  # noqa: S311  # no secret
    for _ in range(rounds):
        made.append(select(api, campaign, explain=True, **fields))
        reward(api, made[-1]["decision_id"], MEANS[made[-1]["arm_id"]] + draw.gauss(0, 0.05))
    return made


def assert_consistent(made: list[Json], tolerance: float, allowance: float = 0.0) -> float:
    """What is explained is what was decided by, at any time; the allowance that is left."""
    for one in made:
        arms = {arm["arm_id"]: arm for arm in one["arms"]}
        usual = arms["b"]["estimate"]
        earned = tolerance * abs(usual)
        for name, arm in arms.items():
            is_covered = name == "b" or allowance + earned + arm["estimate"] - arm["bonus"] - usual >= -1e-9
            assert is_covered or arm["propensity"] == 0.0
        assert sum(arm["propensity"] for arm in arms.values()) == pytest.approx(1.0)
        assert arms[one["arm_id"]]["propensity"] == pytest.approx(one["propensity"])
        own = arms[one["arm_id"]]
        allowance += earned if one["arm_id"] == "b" else earned + own["estimate"] - own["bonus"] - usual
        assert allowance >= -1e-9
    return allowance


def test_other_arms_are_played_as_they_can_be_afforded(api: httpx.Client) -> None:
    """At first nothing is known and nothing is risked; in the end the better arm is found, and the worse one seldom."""
    campaign = create(api, multi_armed(algorithm=DIALS))
    made = play(api, campaign, 120)
    assert [one["arm_id"] for one in made[:10]] == ["b"] * 10
    assert made[1]["reason"] == "baseline"
    assert {one["arm_id"] for one in made[-20:]} == {"c"}
    assert sum(one["arm_id"] == "a" for one in made) <= 3
    allowance = assert_consistent(made, 0.1)
    found = report(api, campaign)["baseline"]
    held = sum(one["reason"] == "baseline" for one in made[-100:])
    assert (found["arm_id"], found["tolerance"], found["held"]) == ("b", 0.1, held)
    assert found["allowance"] == pytest.approx(allowance)
    assert f"{allowance:.4g}" in found["sentence"]
    assert found["sentence"] in api.get(f"/dashboard/campaigns/{campaign}").text
    explored = sum(one["exploring"] and one["reason"] != "baseline" for one in made[-100:])
    assert report(api, campaign)["learning"]["exploring_share"] == pytest.approx(explored / 100)
    assert report(api, create(api, multi_armed()))["baseline"] is None
    assert report(api, create(api, multi_armed(algorithm=DIALS)))["baseline"]["allowance"] == 0.0


def test_a_greedy_request_is_held_too(api: httpx.Client) -> None:
    """The best estimate of an arm that was played once is no reason to leave what works."""
    campaign = create(api, multi_armed(algorithm=DIALS))
    items = [{"arm_id": arm, "reward": reward} for arm, reward in (("a", 9.0), ("b", 1.0))]
    ok(api.post(f"/campaigns/{campaign}/observations", json={"items": items}))
    made = select(api, campaign, explore=False, explain=True)
    assert (made["arm_id"], made["reason"], made["greedy_arm_id"], made["propensity"]) == ("b", "baseline", "a", 1.0)


def test_what_the_campaign_does_not_decide_leaves_the_allowance(api: httpx.Client) -> None:
    """An application's own choice, or a request without the baseline, is not compared with it."""
    campaign = create(api, multi_armed(algorithm=DIALS))
    assert_consistent(play(api, campaign, 10), 0.1)
    before = report(api, campaign)["baseline"]["allowance"]
    assert before > 0.5
    for fields in ({"chosen_arm_id": "a"}, {"exclude": ["b"]}, {"eligible": ["a"]}):
        assert select(api, campaign, **fields)["arm_id"] in {"a", "c"}
        assert report(api, campaign)["baseline"]["allowance"] == before
    held = create(api, multi_armed(algorithm=DIALS, holdout={"share": 0.5, "arm_id": "a"}))
    allowances = [0.0]
    for _ in range(30):
        (one,) = play(api, held, 1)
        allowances.append(report(api, held)["baseline"]["allowance"])
        if one["reason"] == "holdout":
            assert allowances[-1] == allowances[-2]
        chances = {arm["arm_id"]: arm["propensity"] for arm in one["arms"]}
        assert chances["a"] >= 0.5
        assert one["propensity"] == pytest.approx(chances[one["arm_id"]])


def test_all_workers_share_one_allowance(make_server: MakeServer, database_url: str) -> None:
    """Sixteen clients and rewards that come late: a decision rests on the one before it, wherever that was made."""
    server = make_server(database_url, workers=2)
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as api:
        campaign = create(api, multi_armed(algorithm=DIALS))
        play(api, campaign, 3)

        def decide(client: int) -> list[Json]:
            with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as own:
                made = [select(own, campaign, explain=True) for _ in range(15)]
                for one in made:
                    reward(own, one["decision_id"], MEANS[one["arm_id"]] + client / 1_000)
                return made + [select(own, campaign, explain=True) for _ in range(5)]

        with ThreadPoolExecutor(16) as pool:
            made = [one for part in pool.map(decide, range(16)) for one in part]
        by_id = {one["decision_id"]: one for one in made}
        listed = ok(api.get(f"/campaigns/{campaign}/decisions", params={"limit": 1_000}))["items"][::-1]
        assert [one["arm_id"] for one in listed[:3]] == ["b"] * 3
        allowance = 0.1 * sum(one["estimate"] for one in listed[:3])
        left = assert_consistent([by_id[one["decision_id"]] for one in listed[3:]], 0.1, allowance)
        assert report(api, campaign)["baseline"]["allowance"] == pytest.approx(left)


@pytest.mark.parametrize("make", [shared, disjoint], ids=["shared", "disjoint"])
def test_with_features_the_baseline_is_estimated_at_the_request(api: httpx.Client, make: type) -> None:
    """What the baseline would have been worth there is what a decision is compared with."""
    campaign = create(api, make(algorithm=DIALS | {"name": "linucb-cr"}))
    fields: Json = {} if make is shared else {"context": [1.0, 0.5]}
    made = [select(api, campaign, explain=True, **fields) for _ in range(5)]
    for one in made:
        reward(api, one["decision_id"], MEANS[one["arm_id"]])
    made += [select(api, campaign, explain=True, **fields) for _ in range(20)]
    assert_consistent(made, 0.1)
    assert {one["reason"] for one in made} >= {"baseline"}


def test_it_begins_and_ends_with_a_patch_and_moves_with_the_campaign(api: httpx.Client) -> None:
    """A change keeps what was earned; without a baseline in between it is gone; an import takes it along."""
    campaign = create(api, multi_armed(algorithm={"warmup": 1, "floor": 0}))

    def change(baseline: Json | None) -> None:
        changed = ok(api.patch(f"/campaigns/{campaign}", json={"algorithm": {"baseline": baseline}}))
        assert changed["algorithm"]["baseline"] == baseline

    play(api, campaign, 6)
    change(BASELINE)
    play(api, campaign, 10)
    before = report(api, campaign)["baseline"]["allowance"]
    assert before > 0.0
    change({"arm_id": "c", "tolerance": 0.5})
    assert report(api, campaign)["baseline"]["allowance"] == before
    exported = api.get(f"/campaigns/{campaign}/export").content
    assert api.delete(f"/campaigns/{campaign}", params={"confirm": campaign}).status_code == 204
    ok(api.post("/import", content=exported, headers={"Content-Type": "application/x-ndjson"}), 201)
    assert report(api, campaign)["baseline"]["allowance"] == before
    change(None)
    assert report(api, campaign)["baseline"] is None
    play(api, campaign, 1)
    change(BASELINE)
    assert report(api, campaign)["baseline"]["allowance"] == 0.0
    ok(api.post(f"/campaigns/{campaign}/arms", json={"arm_id": "d"}), 201)
    change({"arm_id": "d", "tolerance": 0.1})


BAD: list[tuple[object, str]] = [
    ({"arm_id": "z"}, "algorithm.baseline.arm_id"),
    ({"arm_id": ""}, "algorithm.baseline.arm_id"),
    ({"arm_id": 1}, "algorithm.baseline.arm_id"),
    ({}, "algorithm.baseline.arm_id"),
    ({"tolerance": 0.1}, "algorithm.baseline.arm_id"),
    ({"arm_id": "b", "tolerance": 0}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "tolerance": 0.0009}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "tolerance": -0.1}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "tolerance": 1.01}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "tolerance": "0.1"}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "tolerance": None}, "algorithm.baseline.tolerance"),
    ({"arm_id": "b", "share": 0.1}, "algorithm.baseline.share"),
    ("b", "algorithm.baseline"),
    (0.1, "algorithm.baseline"),
    ([], "algorithm.baseline"),
]


@pytest.mark.parametrize(("value", "field"), BAD)
def test_a_baseline_that_cannot_be_is_refused(api: httpx.Client, value: object, field: str) -> None:
    """A word in the answer for each, and nothing is changed."""
    campaign = create(api, multi_armed(algorithm=DIALS))
    before = read(api, campaign), model(api, campaign)
    problem(api.patch(f"/campaigns/{campaign}", json={"algorithm": {"baseline": value}}), 422, field)
    problem(api.post("/campaigns", json=multi_armed(algorithm={"baseline": value})), 422, field)
    assert (read(api, campaign), model(api, campaign)) == before


@pytest.mark.parametrize("bonus", ["self-scaled", "self-normalized"])
def test_bonuses_without_a_lower_end_are_refused(api: httpx.Client, bonus: str) -> None:
    """No arm but the baseline would ever be played."""
    algorithm = {"bonus": bonus, "name": "linucb-cr", "baseline": BASELINE}
    risk = {"measure": "expectile", "level": 0.2}
    problem(api.post("/campaigns", json=multi_armed(risk=risk, algorithm=algorithm)), 422, "algorithm.baseline")
