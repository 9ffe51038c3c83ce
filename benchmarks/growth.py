"""How throughput, memory and start-up grow: with observations, arms, dimension and campaigns."""

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import psutil
from rich.box import SIMPLE_HEAD
from rich.progress import Progress
from rich.table import Table

from benchmarks.payload import JSON, Payload
from benchmarks.rounds import Budget, Case, Group, Row, measure
from benchmarks.running import Target, client_of, database, service, serving
from benchmarks.seeding import append_observations
from tests.commands import migrate
from tests.servers import Server

ALGORITHMS: dict[str, dict[str, Any]] = {
    "linucb": {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb"}},
    "linucb-onepass-cr": {"algorithm": {"name": "linucb-onepass-cr"}},
    "linucb-ogd-cr": {"algorithm": {"name": "linucb-ogd-cr"}},
    "linucb-cr": {"algorithm": {"name": "linucb-cr"}},
}
EXPECTILE = {"risk": {"measure": "expectile", "level": 0.1}}
SIZES, FULL_SIZES = (1_000, 10_000, 100_000), (1_000, 10_000, 100_000, 1_000_000)
ARM_COUNTS, DIMENSIONS = (2, 10, 50, 200), (3, 20, 100)
CAMPAIGNS, FULL_CAMPAIGNS = (1, 100, 1_000), (1, 100, 10_000)
ANSWER_SECONDS_MAX = 600.0


def observations(budget: Budget, directory: Path, progress: Progress, *, full: bool) -> tuple[list[Row], list[Row]]:
    """(c), (g): selects and pairs of campaigns with logs of several lengths; and how long their first decision takes.

    All campaigns are in one database, served by one process.
    """
    sizes = FULL_SIZES if full else SIZES
    arms, dimension = 10, 20
    with database("sqlite", directory) as url:
        path = directory / "prudent.db"
        migrate(url)
        payloads = {}
        with serving(service(url, directory)) as server, client_of(server) as client:
            for name, settings in ALGORITHMS.items():
                for size in sizes:
                    payloads[name, size] = Payload(arms, dimension, (f"{name}-{size}",))
                    payloads[name, size].create(client, EXPECTILE | settings)
        task = progress.add_task("writing the logs", total=len(sizes))
        for size in sizes:
            append_observations(path, [f"{name}-{size}" for name in ALGORITHMS], size, dimension)
            progress.advance(task)
        progress.remove_task(task)
        starts = []
        server = service(url, directory)
        with serving(server), client_of(server) as client:
            starts += [_start(client, payloads[name, sizes[-1]], name, sizes[-1], "the log") for name in ALGORITHMS]
        with serving(server), client_of(server) as client:
            starts += [_start(client, payloads[name, sizes[-1]], name, sizes[-1], "a snapshot") for name in ALGORITHMS]
            groups = [
                Group(
                    name,
                    tuple(
                        Case(f"{size:,} observations", Target("", server.port), kind, 64, payloads[name, size].selects)
                        for size in reversed(sizes)
                    ),
                )
                for name in ALGORITHMS
                for kind in ("select", "pair")
            ]
            return measure(groups, budget, progress), starts


def _start(client: httpx.Client, payload: Payload, name: str, size: int, source: str) -> Row:
    """Seconds until the first decision of a campaign, after the server is ready."""
    began = time.perf_counter()
    while True:
        reply = client.post("/select", content=payload.selects[0], headers=JSON)
        seconds = time.perf_counter() - began
        if reply.status_code == httpx.codes.OK:
            return {"name": name, "observations": size, "from": source, "seconds": seconds, "rate": size / seconds}
        if reply.status_code != httpx.codes.SERVICE_UNAVAILABLE or seconds > ANSWER_SECONDS_MAX:
            reply.raise_for_status()


def start_table(rows: list[Row]) -> Table:
    """The starts for a person."""
    title = "(g) Cold start: seconds from ready to the first decision"
    caption = "linucb-cr has no snapshots: it is always made from its log."
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD)
    for heading in ("", "observations", "from", "seconds", "observations a second"):
        shown.add_column(heading, justify="right" if heading in {"seconds", "observations a second"} else "left")
    for row in rows:
        rate = f"{row['rate']:,.0f}" if row["from"] == "the log" or row["name"] == "linucb-cr" else ""
        shown.add_row(row["name"], f"{row['observations']:,}", row["from"], f"{row['seconds']:.2f}", rate)
    return shown


def shapes(budget: Budget, directory: Path, progress: Progress) -> list[Row]:
    """(c): pairs with more arms and with more features; ratios to the smallest."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(service(stack.enter_context(database("sqlite", directory)), directory)))
        client = stack.enter_context(client_of(server))
        groups = []
        for label, pairs in (
            ("arms, d=20", [(arms, 20) for arms in ARM_COUNTS]),
            ("dimension, K=10", [(10, dimension) for dimension in DIMENSIONS]),
        ):
            cases = []
            for arms, dimension in reversed(pairs):
                payload = Payload(arms, dimension, (f"k{arms}-d{dimension}",))
                payload.create(client)
                cases.append(Case(f"K={arms}, d={dimension}", Target("", server.port), "pair", 64, payload.selects))
            groups.append(Group(label, tuple(cases)))
        return measure(groups, budget, progress)


def campaigns(budget: Budget, directory: Path, progress: Progress, *, full: bool) -> list[Row]:
    """(c): pairs spread over many campaigns, and the memory of the process once all are loaded."""
    counts = FULL_CAMPAIGNS if full else CAMPAIGNS
    with ExitStack() as stack:
        server = stack.enter_context(serving(service(stack.enter_context(database("sqlite", directory)), directory)))
        client = stack.enter_context(client_of(server))
        memory: dict[str, float] = {}
        cases = []
        for count in counts:
            payload = Payload(10, 20, tuple(f"of-{count}-{number}" for number in range(count)))
            payload.create(client)
            _touch(client, payload)
            name = f"{count:,} campaigns"
            memory[name] = _megabytes(server)
            cases.append(Case(name, Target("", server.port), "pair", 64, payload.selects))
        rows = measure([Group("campaigns", tuple(reversed(cases)))], budget, progress)
        largest = _megabytes(server)
    for row in rows:
        row["megabytes"] = largest if row["name"] == f"{counts[-1]:,} campaigns" else memory[row["name"]]
    return rows


def _touch(client: httpx.Client, payload: Payload) -> None:
    """One pair of each campaign, so that its state is held."""
    for first in range(0, len(payload.campaign_ids), 500):
        items = b",".join(payload.selects[first : min(first + 500, len(payload.campaign_ids))])
        chosen = client.post("/select/batch", content=b'{"items":[%s]}' % items, headers=JSON)
        chosen.raise_for_status()
        rewards = [{"decision_id": item["decision_id"], "reward": 0.5} for item in chosen.json()["items"]]
        client.post("/reward/batch", json={"items": rewards}).raise_for_status()


def _megabytes(server: Server) -> float:
    """Resident memory of the serving process."""
    assert server.process is not None
    return float(psutil.Process(server.process.pid).memory_info().rss) / 1e6
