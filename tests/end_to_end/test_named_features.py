"""Campaigns with named features as an application uses them, over restarts of the service."""

import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.contract import Json, assert_close, model, ok
from tests.conftest import MakeServer

ROUNDS, AT_ONCE = 300, 10
FEATURES: list[Json] = [
    {"name": "country", "kind": "category", "capacity": 6},
    {"name": "plan", "kind": "category", "capacity": 12},
    {"name": "device", "kind": "category", "capacity": 20},
    {"name": "age", "missing": "indicator"},
    {"name": "income"},
]


def case(number: int) -> tuple[Json, list[float]]:
    """A context, and what each of the arms is worth in it. There are more devices than are learned."""
    draw = random.Random(number)  # noqa: S311  # a simulation
    country, plan, device = (draw.randrange(size) for size in (6, 12, 24))
    age, income = draw.uniform(18, 80), draw.uniform(20_000, 100_000)
    context: Json = {"country": f"c{country}", "plan": f"p{plan}", "device": f"d{device}", "income": income}
    if number % 7:
        context["age"] = age
    return context, [country / 6, plan / 12, device / 24, age / 80, income / 100_000, 0.5]


def play(http: httpx.Client, start: int, end: int) -> list[Json]:
    """Decide and reward these rounds; the decisions."""
    decisions: list[Json] = []
    for first in range(start, end, AT_ONCE):
        cases = [case(number) for number in range(first, first + AT_ONCE)]
        asked: list[dict[str, Any]] = [
            {"campaign_id": "shop", "decision_id": f"visit-{first + place}", "context": context}
            for place, (context, _) in enumerate(cases)
        ]
        made = ok(http.post("/select/batch", json={"items": asked}))["items"]
        rewards = [
            {"decision_id": one["decision_id"], "reward": worths[int(one["arm_id"])]}
            for one, (_, worths) in zip(made, cases, strict=True)
        ]
        answers = ok(http.post("/reward/batch", json={"items": rewards}))["items"]
        assert {one["status"] for one in (*made, *answers)} == {200}
        decisions += made
    return decisions


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_restart_in_between_changes_nothing(make_server: MakeServer, tmp_path: Path, is_killed: bool) -> None:
    """Categories and scales that were learned before it would be learned anew, at other positions: another model."""
    creation = {
        "campaign_id": "shop",
        "seed": 5,
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "features": FEATURES},
        "arms": [{"arm_id": str(arm)} for arm in range(6)],
    }
    found = []
    # within the 96 rows that scales are learned from, and after them
    for name, ends in (("steady", [ROUNDS]), ("restarted", [50, 200, ROUNDS])):
        server = make_server(f"sqlite:///{tmp_path}/{name}.db")
        decisions, start = [], 0
        for end in ends:
            if start and is_killed:
                server.kill()
            elif start:
                server.stop()
            if start:
                server.start()
            with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
                if not start:
                    ok(http.post("/campaigns", json=creation), 201)
                decisions += play(http, start, end)
                learned = model(http, "shop")
            start = end
        found.append((decisions, learned))
    (steady, before), (restarted, after) = found
    # the exact minimiser's last digits depend on when it was asked
    assert_close(steady, restarted)
    assert before["features"] == after["features"]
    assert_close([arm["theta"] for arm in before["arms"]], [arm["theta"] for arm in after["arms"]])
    assert len(next(one for one in after["features"] if one["name"] == "device")["categories"]) == 20
