"""Metrics of several workers: one answer for all of them, that no death of a worker can take back."""

import asyncio
import json
import os
import re
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import psycopg
from starlette.types import Message, Receive, Scope, Send

from prudent.api.server.middleware import CountRequests, Requests
from prudent.observability.metrics import Metrics
from tests.conftest import MakeServer
from tests.servers import Server

CLIENTS = 6
ROUNDS = 25
WAIT_SECONDS_MAX = 60.0
COUNTERS = ("_total", "_count", "_sum", "_bucket")

Samples = dict[str, float]


def fresh(url: str) -> httpx.Client:
    """A client with no connection yet: whichever worker takes the next one answers."""
    return httpx.Client(base_url=url, timeout=30, trust_env=False, verify=False)  # noqa: S501 (plain HTTP)


def scrape(url: str) -> Samples:
    """What Prometheus would read: whichever worker is asked answers for all."""
    while True:
        try:
            with fresh(url) as client:
                reply = client.get("/metrics")
            break
        except httpx.TransportError:  # the worker that had the connection was killed
            continue
    assert reply.status_code == 200, reply.text
    lines = [line for line in reply.text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def counters(samples: Samples) -> Samples:
    return {name: value for name, value in samples.items() if name.partition("{")[0].endswith(COUNTERS)}


def requests_to(samples: Samples, route: str, status: int) -> float:
    return samples.get(f'prudent_requests_total{{method="POST",route="{route}",status="{status}"}}', 0.0)


@dataclass
class Watch:
    """Scrapes again and again; what ever went back is in `fallen`."""

    url: str
    fallen: list[str] = field(default_factory=list)
    scrapes: int = 0

    def run(self, over: threading.Event) -> None:
        seen: Samples = {}
        while not over.is_set():
            now = counters(scrape(self.url))
            self.scrapes += 1
            self.fallen += [
                f"{name} {value} -> {now.get(name)}" for name, value in seen.items() if now.get(name, -1) < value
            ]
            seen = now
            time.sleep(0.02)


@contextmanager
def watching(url: str) -> Iterator[Watch]:
    watch, over = Watch(url), threading.Event()
    thread = threading.Thread(target=watch.run, args=(over,))
    thread.start()
    try:
        yield watch
    finally:
        over.set()
        thread.join()


def ask(url: str, path: str, body: dict[str, object], own: Counter[str]) -> None:
    """POST until it is answered, each time over a new connection, and count attempts and answers."""
    while True:
        own[f"{path} attempts"] += 1
        try:
            with fresh(url) as client:
                reply = client.post(path, json=body)
        except httpx.TransportError:
            continue
        own[f"{path} {reply.status_code}"] += 1
        if reply.status_code != 503:
            return


def play(url: str, client: str) -> Counter[str]:
    """What one client does: decisions, rewards, a repeat of each reward, and rewards for nothing."""
    own: Counter[str] = Counter()
    for number in range(ROUNDS):
        decision = f"{client}-{number}"
        ask(url, "/select", {"campaign_id": "counted", "decision_id": decision}, own)
        for _ in range(2):
            ask(url, "/reward", {"decision_id": decision, "reward": 0.5}, own)
        ask(url, "/reward", {"decision_id": f"{decision}-unknown", "reward": 0.5}, own)
    return own


def play_all(url: str, stage: str) -> Counter[str]:
    with ThreadPoolExecutor(CLIENTS) as pool:
        done = pool.map(lambda number: play(url, f"{stage}-{number}"), range(CLIENTS))
        return sum(done, Counter())


def workers_of(server: Server) -> set[int]:
    """Process ids of the workers that have answered a request, from the log."""
    lines = [json.loads(line) for line in server.log_path.read_text(encoding="utf-8").splitlines()]
    return {line["process"] for line in lines if line["event"] == "request"}


def wait_for_workers(url: str, count: int) -> Samples:
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        samples = scrape(url)
        if samples["prudent_workers"] == count:
            return samples
        assert time.monotonic() < deadline, samples["prudent_workers"]
        time.sleep(0.1)


def without_scrapes(samples: Samples) -> Samples:
    """Counters of what clients asked for. Scrapes count themselves, and chores commit now and then."""
    own = ("prudent_requests_total", "prudent_request_seconds", "prudent_decisions", "prudent_rewards")
    found = counters(samples)
    return {name: found[name] for name in found if name.startswith(own) and '"/metrics"' not in name}


def test_two_workers_are_counted_as_one(make_server: MakeServer, postgres_database: str, tmp_path: Path) -> None:
    """An operator would see a fraction of the traffic, or a counter that jumps with whoever answers."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    environment = {"PRUDENT_LOG_LEVEL": "debug", "TMPDIR": str(folder)}
    server = make_server(postgres_database, workers=2, environment=environment)
    arms = [{"arm_id": name} for name in "abc"]
    campaign = {"campaign_id": "counted", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": arms}
    with fresh(server.url) as client:
        client.post("/campaigns", json=campaign).raise_for_status()
    wait_for_workers(server.url, 2)

    with watching(server.url) as watch:
        own = play_all(server.url, "calm")
        assert_exact(scrape(server.url), own)
        first = workers_of(server)
        assert len(first) == 2

        before = without_scrapes(scrape(server.url))
        os.kill(min(first), signal.SIGKILL)  # while it has nothing to do: nothing may be lost
        alone = wait_for_workers(server.url, 1)
        assert without_scrapes(alone) == before
        assert without_scrapes(wait_for_workers(server.url, 2)) == before

        killed = threading.Timer(0.3, os.kill, (max(first), signal.SIGKILL))
        killed.start()
        own += play_all(server.url, "storm")
        killed.join()
        assert_within(wait_for_workers(server.url, 2), own)
    assert not watch.fallen
    assert watch.scrapes > 10

    (shared,) = folder.glob("prudent-metrics-*")
    assert len(list(shared.glob("*.db"))) <= 4 * 3  # three slots, and one more if a scrape was looking at a free one
    assert server.stop() == 0
    assert not list(folder.iterdir())


def assert_exact(samples: Samples, own: Counter[str]) -> None:
    """Every answer that a client has is counted, and nothing else."""
    for path, status in (("/select", 200), ("/reward", 200), ("/reward", 404)):
        assert requests_to(samples, path, status) == own[f"{path} {status}"]
    asked = CLIENTS * ROUNDS
    assert samples["prudent_decisions_total"] == samples["prudent_rewards_total"] == asked
    assert samples["prudent_observations_total"] == asked
    assert samples['prudent_request_seconds_count{route="/select"}'] == own["/select 200"] + own["/select 503"]


def assert_within(samples: Samples, own: Counter[str]) -> None:
    """A killed worker may have counted an answer that nobody got, or recorded what it did not live to count."""
    for path, status in (("/select", 200), ("/reward", 200), ("/reward", 404)):
        assert own[f"{path} {status}"] <= requests_to(samples, path, status) <= own[f"{path} attempts"]
    asked = 2 * CLIENTS * ROUNDS
    for name in ("prudent_decisions_total", "prudent_rewards_total"):
        assert asked - CLIENTS <= samples[name] <= asked


def test_an_answer_is_counted_before_it_is_complete() -> None:
    """Who compares its own count with the service's would be told that they differ."""
    metrics = Metrics()
    counted: list[float | None] = []

    async def answer(_scope: Scope, _receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"part", "more_body": True})
        await send({"type": "http.response.body", "body": b"rest"})

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        labels = {"route": "other", "method": "GET", "status": "200"}
        counted.append(metrics.registry.get_sample_value("prudent_requests_total", labels))

    asyncio.run(
        CountRequests(answer, Requests(metrics))({"type": "http", "method": "GET", "headers": []}, receive, send)
    )
    assert counted == [None, None, 1.0]


def test_pending_decisions(make_server: MakeServer, sqlite_database: str) -> None:
    """An operator could not see that rewards have stopped coming."""
    server = make_server(sqlite_database)
    with fresh(server.url) as client:
        campaign = {
            "campaign_id": "slow",
            "risk": {"measure": "mean"},
            "model": {"type": "multi-armed"},
            "arms": [{"arm_id": "a"}],
            "reward": {"timeout_seconds": 3600},
        }
        client.post("/campaigns", json=campaign).raise_for_status()
        for name in ("one", "two", "three"):
            client.post("/select", json={"campaign_id": "slow", "decision_id": name}).raise_for_status()
        client.post("/reward", json={"decision_id": "two", "reward": 1}).raise_for_status()
    samples = scrape(server.url)
    assert samples["prudent_pending_decisions"] == 2
    assert samples["prudent_workers"] == 1


def test_the_solver_and_the_commits_are_counted(make_server: MakeServer, sqlite_database: str) -> None:
    """A board would show a solver that never works, or a database that never commits."""
    server = make_server(sqlite_database)
    with fresh(server.url) as client:
        campaign = {
            "campaign_id": "fitted",
            "risk": {"measure": "expectile", "level": 0.2},
            "model": {"type": "shared", "dimension": 2},
            "arms": [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1]}],
            "algorithm": {"warmup": 0, "parameter_bound": 0.1, "exploration_rule": "optimistic"},
        }
        client.post("/campaigns", json=campaign).raise_for_status()
        for number in range(4):
            client.post("/select", json={"campaign_id": "fitted", "decision_id": f"d{number}"}).raise_for_status()
            client.post("/reward", json={"decision_id": f"d{number}", "reward": 5}).raise_for_status()
        model = client.get("/campaigns/fitted/model").json()["convergence"]
    samples = scrape(server.url)
    assert samples["prudent_fits_total"] == model["fits"] > 0
    assert samples["prudent_bound_active_fits_total"] == model["bound_active_fits"] > 0
    assert samples["prudent_uncertified_fits_total"] == model["uncertified_fits"]
    assert samples['prudent_commits_total{outcome="committed"}'] >= 9
    assert samples['prudent_commits_total{outcome="unknown"}'] == 0


def test_metrics_answer_while_the_database_is_away(make_server: MakeServer, postgres_database: str) -> None:
    """They are wanted most when something is wrong."""
    url = postgres_database
    server = make_server(url, environment={"PRUDENT_AUTH": "off"})
    assert "prudent_pending_decisions" in scrape(server.url)
    name = url.rpartition("/")[2]
    with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" WITH ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", (name,))
    samples = scrape(server.url)
    assert "prudent_pending_decisions" not in samples
    assert samples["prudent_workers"] == 1
    assert not [one for one in samples if re.search("psycopg|password", one)]
