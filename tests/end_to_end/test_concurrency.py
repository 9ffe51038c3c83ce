"""Many clients at once, over HTTP: nothing lost, doubled or skipped. `make soak` runs the same for longer."""

import asyncio
import itertools
import json
import os
import time
from collections import Counter, defaultdict

import httpx
import pytest

from tests.commands import prudent
from tests.conftest import MakeServer
from tests.servers import Server

SECONDS = float(os.environ.get("SOAK_SECONDS", "2"))
CLIENTS = 64


class Tally:
    """What the clients were told."""

    def __init__(self) -> None:
        self.sequences: dict[str, list[int]] = defaultdict(list)
        self.decisions: set[str] = set()
        self.statuses: Counter[int] = Counter()


async def one_client(http: httpx.AsyncClient, campaign_id: str, until: float, tally: Tally) -> None:
    reward = 0.0
    while time.monotonic() < until:
        reply = await http.post("/select", json={"campaign_id": campaign_id})
        tally.statuses[reply.status_code] += 1
        decision_id = reply.json()["decision_id"]
        tally.decisions.add(decision_id)
        reward = (reward + 0.37) % 1
        reply = await http.post("/reward", json={"decision_id": decision_id, "reward": reward})
        tally.statuses[reply.status_code] += 1
        tally.sequences[campaign_id].append(reply.json()["sequence"])


async def load(url: str, campaign_ids: list[str]) -> Tally:
    tally = Tally()
    until = time.monotonic() + SECONDS
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=url, limits=limits, timeout=30, trust_env=False) as http:
        names = [campaign_ids[number % len(campaign_ids)] for number in range(CLIENTS)]
        await asyncio.gather(*(one_client(http, name, until, tally) for name in names))
    return tally


def verify(server: Server, database_url: str) -> str:
    done = prudent("verify", "--database-url", database_url, "--url", server.url)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("campaigns", [1, 8])
def test_clients_at_once_lose_double_and_skip_nothing(
    make_server: MakeServer, database_url: str, campaigns: int
) -> None:
    """Every acknowledged reward has a sequence of its own, from 1 on without a gap; state equals the replay."""
    server = make_server(database_url, workers=2)
    names = [f"c{number}" for number in range(campaigns)]
    algorithms = ["linucb-cr", "linucb-ogd-cr"]
    for number, name in enumerate(names):
        body = {
            "campaign_id": name,
            "risk": {"measure": "expectile", "level": 0.1},
            "model": {"type": "multi-armed"},
            "arms": [{"arm_id": arm} for arm in "abc"],
            "algorithm": {"name": algorithms[number % 2]},
        }
        httpx.post(f"{server.url}/campaigns", json=body, trust_env=False).raise_for_status()
    tally = asyncio.run(load(server.url, names))
    assert set(tally.statuses) == {200}, tally.statuses
    total = sum(len(sequences) for sequences in tally.sequences.values())
    assert total >= CLIENTS
    assert len(tally.decisions) == total
    for name, sequences in tally.sequences.items():
        assert sorted(sequences) == list(range(1, len(sequences) + 1)), name
    assert f"{campaigns} campaigns, 0 with faults" in verify(server, database_url)


def test_a_deleted_and_recreated_campaign_starts_at_one_on_every_server(
    make_server: MakeServer, postgres_database: str
) -> None:
    """A server that still holds the old campaign's state must not lend it to the new one."""
    servers = [make_server(postgres_database) for _ in range(2)]
    body = {
        "campaign_id": "c",
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "a"}],
    }
    asyncio.run(recreate([server.url for server in servers], body))
    assert "1 campaigns, 0 with faults" in verify(servers[0], postgres_database)


async def recreate(urls: list[str], body: dict[str, object]) -> None:
    turns = itertools.cycle(urls)
    async with httpx.AsyncClient(timeout=30, trust_env=False) as http:
        for generation in range(3):
            assert (await http.post(f"{next(turns)}/campaigns", json=body)).status_code == 201
            replies = await asyncio.gather(
                *(
                    http.post(f"{next(turns)}/select", json={"campaign_id": "c", "decision_id": f"d{n}"})
                    for n in range(20)
                )
            )
            assert {reply.status_code for reply in replies} == {200}
            rewards = await asyncio.gather(
                *(
                    http.post(f"{next(turns)}/reward", json={"decision_id": f"d{n}", "reward": generation})
                    for n in range(20)
                )
            )
            assert sorted(json.loads(reply.content)["sequence"] for reply in rewards) == list(range(1, 21))
            if generation < 2:
                assert (await http.delete(f"{next(turns)}/campaigns/c?confirm=c")).status_code == 204
                assert (await http.post(f"{next(turns)}/select", json={"campaign_id": "c"})).status_code == 404
