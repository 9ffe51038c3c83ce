"""Over HTTP, on both databases: the zero and the unit of rewards change no choice. `make soak` plays 2,000 rounds."""

import os
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

from tests.conftest import MakeServer

ROUNDS = int(os.environ.get("SOAK_SCALED", "24"))
ARMS, DIMENSION = 4, 2
MODELS: list[dict[str, Any]] = [
    {"type": "multi-armed"},
    {"type": "disjoint", "dimension": DIMENSION},
    {"type": "shared", "dimension": DIMENSION},
]
MEAN, EXPECTILE = {"measure": "mean"}, {"measure": "expectile", "level": 0.2}
ALGORITHMS = [
    ("linucb", MEAN),
    ("linucb-cr", EXPECTILE),
    ("linucb-onepass-cr", EXPECTILE),
    ("linucb-ogd-cr", EXPECTILE),
    ("linucb-cr", {"measure": "cvar", "level": 0.25}),
]
CAMPAIGNS = {
    f"{model['type']}.{place}": {"model": model, "risk": risk, "algorithm": {"name": name}}
    for model in MODELS
    for place, (name, risk) in enumerate(ALGORITHMS)
}


@pytest.fixture
def http(make_server: MakeServer, database_url: str) -> Iterator[httpx.Client]:
    """A client of a server of its own, once on each database."""
    url = make_server(database_url).url
    with httpx.Client(base_url=url, timeout=60, trust_env=False, verify=False) as opened:  # noqa: S501 (plain HTTP)
        yield opened


def play(http: httpx.Client, scale: float, offset: float) -> NDArray[np.int64]:
    """(campaigns, rounds): the arms that were chosen. The campaigns are deleted: the next play has the same ids."""
    draw = np.random.default_rng(7)
    for name, body in CAMPAIGNS.items():
        arms = [{"arm_id": str(arm)} for arm in range(ARMS)]
        assert http.post("/campaigns", json={"campaign_id": name, "arms": arms, **body}).status_code == 201
    chosen = np.empty((len(CAMPAIGNS), ROUNDS), dtype=np.int64)
    for t in range(ROUNDS):
        features = draw.normal(size=(ARMS, DIMENSION))
        rewards = np.array([1.0, 1.3, 0.5, 1.1]) + features[:, 0] + draw.normal(size=ARMS)
        given: dict[str, dict[str, Any]] = {
            "multi-armed": {},
            "disjoint": {"context": features[0].tolist()},
            "shared": {"arms": [{"arm_id": str(arm), "features": row.tolist()} for arm, row in enumerate(features)]},
        }
        selects = [
            {"campaign_id": name, "decision_id": f"{t}.{name}", **given[body["model"]["type"]]}
            for name, body in CAMPAIGNS.items()
        ]
        replies = http.post("/select/batch", json={"items": selects}).raise_for_status().json()["items"]
        assert {reply["status"] for reply in replies} == {200}
        chosen[:, t] = [int(reply["arm_id"]) for reply in replies]
        learned = [
            {"decision_id": reply["decision_id"], "reward": float(scale * rewards[arm] + offset)}
            for reply, arm in zip(replies, chosen[:, t], strict=True)
        ]
        replies = http.post("/reward/batch", json={"items": learned}).raise_for_status().json()["items"]
        assert {reply["status"] for reply in replies} == {200}
    for name in CAMPAIGNS:
        http.delete(f"/campaigns/{name}", params={"confirm": name}).raise_for_status()
    return chosen


def test_the_zero_and_the_unit_of_rewards_change_no_choice(http: httpx.Client) -> None:
    """What the core does must survive rows, sums and batches: prices in cents and in thousands are the same prices."""
    expected = play(http, 1.0, 0.0)
    assert min(len(set(row)) for row in expected) > 1
    for scale, offset in ((1.0, 20.0), (1.0, -1000.0), (1.0, 1e6), (500.0, 0.0)):
        differing = {
            name: int(np.flatnonzero(found != wanted)[0])
            for name, found, wanted in zip(CAMPAIGNS, play(http, scale, offset), expected, strict=True)
            if (found != wanted).any()
        }
        assert not differing, f"times {scale}, plus {offset}: the first round that differs, by campaign"
