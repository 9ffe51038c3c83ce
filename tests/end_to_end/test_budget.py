"""An exploration budget as its users see it: no hundred decisions in a row explore more, whoever asks."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import numpy as np

from tests.api.contract import Json, create, multi_armed, ok, problem
from tests.conftest import MakeServer

CLIENTS, ROUNDS = 64, 10


def decisions_of(api: httpx.Client, campaign: str) -> list[Json]:
    """All decisions, the oldest first."""
    found: list[Json] = []
    cursor: Json = {}
    while True:
        page = ok(api.get(f"/campaigns/{campaign}/decisions", params={"limit": 1_000} | cursor))
        found += page["items"]
        if page["next_cursor"] is None:
            return found[::-1]
        cursor = {"cursor": page["next_cursor"]}


def test_at_most_ten_of_a_hundred_explore(make_server: MakeServer, database_url: str) -> None:
    """64 clients at once, rewards that come late, two workers."""
    server = make_server(database_url, workers=2)
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as api:
        algorithm = {"warmup": 3, "budget": 0.1, "uniform_share": 0.6}
        campaign = create(api, multi_armed(algorithm=algorithm))
        draw = random.Random(5)  # noqa: S311  # no secret
        delays = [[draw.random() * 0.1 for _ in range(ROUNDS)] for _ in range(CLIENTS)]
        together = threading.Barrier(CLIENTS)

        def play(client: int) -> None:
            with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as own:
                together.wait()
                for delay in delays[client]:
                    made = ok(own.post("/select", json={"campaign_id": campaign}))
                    time.sleep(delay)
                    ok(own.post("/reward", json={"decision_id": made["decision_id"], "reward": delay}))

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(play, range(CLIENTS)))
        made = decisions_of(api, campaign)
    assert len(made) == CLIENTS * ROUNDS
    explored = [one["arm_id"] != one["greedy_arm_id"] for one in made]
    counts = np.convolve(explored, np.ones(100), "valid")
    assert counts.max() == 10
    assert len({one["created_at"] for one in made}) == len(made)
    assert all(one["propensity"] in {1.0, 0.5, 1 / 3} for one in made if one["reason"] == "greedy")
    assert all(0.0 < one["propensity"] < 1.0 for one in made if one["reason"] == "uniform")


def test_a_budget_begins_and_ends_with_a_patch(make_server: MakeServer, database_url: str) -> None:
    """It is for the week in which mistakes are dear."""
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as api:
        campaign = create(api, multi_armed(algorithm={"warmup": 0, "uniform_share": 1.0, "floor": 0}))

        items = [{"arm_id": arm, "reward": reward} for arm, reward in (("a", 2.0), ("b", 1.0), ("c", 0.0))]
        ok(
            api.post(f"/campaigns/{campaign}/observations", json={"items": items * 10})
        )  # of equal arms none is explored

        def explored() -> int:
            items = [{"campaign_id": campaign, "explain": True}] * 100
            made = ok(api.post("/select/batch", json={"items": items}))["items"]
            for one in made:  # what is explained is what was decided by
                chances = {arm["arm_id"]: arm["propensity"] for arm in one["arms"]}
                assert chances[one["arm_id"]] == one["propensity"]
                assert abs(sum(chances.values()) - 1.0) < 1e-12
            return sum(one["exploring"] for one in made)

        assert explored() > 40
        ok(api.patch(f"/campaigns/{campaign}", json={"algorithm": {"budget": 0.05}}))
        spent = [explored() for _ in range(4)]
        assert max(spent) <= 5
        assert sum(spent) >= 10  # and it is used again once the last hundred have not spent it
        ok(api.patch(f"/campaigns/{campaign}", json={"algorithm": {"budget": None}}))
        assert explored() > 40
        for value in (0, 0.009, 1.1, -0.1, "0.1", True):
            problem(api.patch(f"/campaigns/{campaign}", json={"algorithm": {"budget": value}}), 422, "algorithm.budget")
            problem(api.post("/campaigns", json=multi_armed(algorithm={"budget": value})), 422, "algorithm.budget")
        assert ok(api.get(f"/campaigns/{campaign}"))["algorithm"]["budget"] is None
