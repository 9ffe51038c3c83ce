"""The same seeds choose the same arms: after a restart, after a crash, on either database, on two workers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from tests.conftest import MakeServer
from tests.servers import Server

pytestmark = pytest.mark.slow

ROUNDS = 160
ALGORITHMS = ["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"]
MODELS: dict[str, dict[str, Any]] = {
    "shared": {"type": "shared", "dimension": 3, "intercept": True},
    "disjoint": {"type": "disjoint", "dimension": 3},
    "multi-armed": {"type": "multi-armed"},
}
NAMES = [f"{algorithm}.{model}" for algorithm in ALGORITHMS for model in MODELS]


def create(http: httpx.Client) -> None:
    for name in NAMES:
        algorithm, model = name.split(".")
        body = {
            "campaign_id": name,
            "risk": {"measure": "mean"} if algorithm == "linucb" else {"measure": "expectile", "level": 0.1},
            "model": MODELS[model],
            "arms": [{"arm_id": arm} for arm in "abcd"],
            "algorithm": {"name": algorithm},
            "seed": 5,
        }
        http.post("/campaigns", json=body).raise_for_status()


def play(http: httpx.Client, rounds: range) -> list[list[str]]:
    """The arms chosen in each round, one a campaign. Features and rewards depend on round and campaign alone."""
    chosen = []
    for t in rounds:
        draw = np.random.default_rng([17, t])
        items = []
        for name in NAMES:
            features = np.round(draw.standard_normal((4, 3)) / 2, 6).tolist()
            request: dict[str, Any] = {"campaign_id": name, "decision_id": f"{t:06d}.{name}"}
            if name.endswith("shared"):
                request["arms"] = [{"arm_id": arm, "features": x} for arm, x in zip("abcd", features, strict=True)]
            elif name.endswith("disjoint"):
                request["context"] = features[0]
            items.append(request)
        replies = http.post("/select/batch", json={"items": items}).raise_for_status().json()["items"]
        noise = draw.standard_normal(len(NAMES))
        rewards = [
            {"decision_id": reply["decision_id"], "reward": float(noise[n]) * (1 + "abcd".index(reply["arm_id"]))}
            for n, reply in enumerate(replies)
        ]
        http.post("/reward/batch", json={"items": rewards}).raise_for_status()
        chosen.append([reply["arm_id"] for reply in replies])
    return chosen


def run(server: Server, interrupt: Callable[[Server], None] | None = None) -> list[list[str]]:
    chosen = []
    for first, rounds in ((True, range(ROUNDS // 2)), (False, range(ROUNDS // 2, ROUNDS))):
        with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
            if first:
                create(http)
            chosen += play(http, rounds)
        if first and interrupt is not None:
            interrupt(server)
    return chosen


def crash(server: Server) -> None:
    server.kill()
    server.start()


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> list[list[str]]:
    """The arms of an undisturbed run on SQLite."""
    directory: Path = tmp_path_factory.mktemp("uninterrupted")
    server = Server(f"sqlite:///{directory}/prudent.db", directory / "server.log")
    server.start()
    try:
        return run(server)
    finally:
        server.stop()


def test_the_run_is_worth_comparing(uninterrupted: list[list[str]]) -> None:
    """If one arm were always chosen, the other tests here could not fail."""
    for column in zip(*uninterrupted, strict=True):
        assert len(set(column)) == 4


@pytest.mark.parametrize("interrupt", [Server.restart, crash], ids=["restart", "crash"])
def test_an_interruption_changes_no_later_arm(
    make_server: MakeServer, sqlite_database: str, uninterrupted: list[list[str]], interrupt: Callable[[Server], None]
) -> None:
    """State after a restart must be the state before it; snapshots every 50 observations take part.

    Servers are fresh: each start has its own seed of Python's hashes.
    """
    server = make_server(sqlite_database, environment={"PRUDENT_SNAPSHOT_OBSERVATIONS": "50"}, fresh=True)
    assert run(server, interrupt) == uninterrupted


def test_two_postgres_workers_choose_the_same_arms(
    make_server: MakeServer, postgres_database: str, uninterrupted: list[list[str]]
) -> None:
    """Neither the database nor the number of workers may change a decision."""
    assert run(make_server(postgres_database, workers=2, fresh=True), Server.restart) == uninterrupted
