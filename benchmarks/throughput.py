"""Throughput of the service as a share of a FastAPI no-op's: `python -m benchmarks.throughput`.

A number of requests a second says as much about the machine as about the service; the ratio to a no-op on the
same machine, at the same time, with the same bodies, travels better. Rounds are interleaved (service, no-op,
service, ...), so that a machine that gets slower does so for all; medians are over rounds. Nothing is asserted.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from benchmarks.load import SETTLE_SECONDS, Job, Kind, Outcome, run_job, shared_out
from tests.servers import HOST, Postgres, Server, migrate

CAMPAIGN_ID = "throughput"
KINDS: tuple[Kind, ...] = ("select", "reward", "pair")
BODIES = 64
BATCH_ITEMS_MAX = 1_000
SYNCS = 50
POOL_MARGIN = 1.3
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "orjson", "sqlalchemy", "numpy")


@dataclass(frozen=True)
class Target:
    """Something to put under load: an address and a prefix of its paths."""

    name: str
    port: int
    prefix: str = ""


@dataclass(frozen=True)
class Measurement:
    """One target, kind and concurrency in one round."""

    target: str
    kind: Kind
    concurrency: int
    round: int
    rate: float
    p50_ms: float
    p99_ms: float
    failures: dict[int, int]


class Payload:
    """The bodies of the requests: K arms of d features each, random from a fixed seed."""

    def __init__(self, arms: int, dimension: int) -> None:
        self.arms = arms
        self.dimension = dimension
        features = np.random.default_rng(20).normal(0, 1, (BODIES, arms, dimension))
        features /= np.linalg.norm(features, axis=2, keepdims=True)
        self.selects = tuple(self._select(one) for one in features)
        # Cheap to send, and as costly to reward as any other decision.
        self._single = self._select(features[0, :1])

    def _select(self, features: np.ndarray[Any, np.dtype[np.float64]]) -> bytes:
        arms = [{"arm_id": f"arm-{k}", "features": row.tolist()} for k, row in enumerate(features)]
        return orjson.dumps({"campaign_id": CAMPAIGN_ID, "arms": arms})

    @property
    def campaign(self) -> dict[str, Any]:
        """The campaign to create."""
        return {
            "campaign_id": CAMPAIGN_ID,
            "risk": {"measure": "expectile", "level": 0.25},
            "model": {"type": "shared", "dimension": self.dimension},
        }

    def decisions(self, client: httpx.Client, count: int) -> tuple[str, ...]:
        """Make `count` decisions in batches; returns their ids."""
        ids: list[str] = []
        while len(ids) < count:
            items = b",".join([self._single] * min(BATCH_ITEMS_MAX, count - len(ids)))
            reply = client.post("/select/batch", content=b'{"items":[%s]}' % items, headers=JSON)
            reply.raise_for_status()
            ids += [item["decision_id"] for item in reply.json()["items"]]
        return tuple(ids)


JSON = {"Content-Type": "application/json"}


class Benchmark:
    """The servers under load, the processes that load them, and what has been measured."""

    def __init__(self, options: argparse.Namespace, payload: Payload, stack: ExitStack) -> None:
        self.options = options
        self.payload = payload
        self.measurements: list[Measurement] = []
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="prudent-benchmark-")))
        self.database = stack.enter_context(database(options.database, directory))
        service = stack.enter_context(
            serving(Server(self.database, directory / "service.log", workers=options.workers))
        )
        # A large batch of decisions may wait for a while; nothing here is timed.
        self.client = stack.enter_context(httpx.Client(base_url=service.url, timeout=120, trust_env=False))
        select_bytes, reward_bytes = self._prepare_campaign()
        noop = Server(
            "none",
            directory / "noop.log",
            command=(sys.executable, "-m", "benchmarks.noop"),
            arguments=["--select-bytes", str(select_bytes), "--reward-bytes", str(reward_bytes)],
        )
        stack.enter_context(serving(noop))
        self.service = Target("service", service.port)
        self.targets = [
            self.service,
            Target("no-op", noop.port),
            Target("parsing no-op", noop.port, "/parsing"),
        ]
        # Spawned, not forked: a child of this process must not share its sockets.
        self.pool = stack.enter_context(ProcessPoolExecutor(options.clients, get_context("spawn")))

    def _prepare_campaign(self) -> tuple[int, int]:
        """Create the campaign; returns the sizes of a reply to select and one to reward."""
        self.client.post("/campaigns", json=self.payload.campaign).raise_for_status()
        selected = self.client.post("/select", content=self.payload.selects[0], headers=JSON)
        selected.raise_for_status()
        decision_id = selected.json()["decision_id"]
        rewarded = self.client.post("/reward", json={"decision_id": decision_id, "reward": 0.5})
        rewarded.raise_for_status()
        return len(selected.content), len(rewarded.content)

    def run(self, console: Console) -> None:
        """All rounds; the order of the targets rotates, so that none always comes first."""
        for number in range(self.options.rounds):
            turn = number % len(self.targets)
            for concurrency in self.options.concurrency:
                for kind in KINDS:
                    for target in self.targets[turn:] + self.targets[:turn]:
                        self.measurements.append(self.measure(target, kind, concurrency, number))
            console.print(f"round {number + 1} of {self.options.rounds} done", style="dim")

    def measure(self, target: Target, kind: Kind, concurrency: int, number: int) -> Measurement:
        """Load one target for a while."""
        decision_ids: tuple[str, ...] = ()
        if kind == "reward":
            decision_ids = self._decision_ids(target, concurrency)
        job = Job(
            host=HOST,
            port=target.port,
            kind=kind,
            connections=concurrency,
            seconds=self.options.seconds,
            selects=self.payload.selects,
            decision_ids=decision_ids,
            reuse=target != self.service,
            prefix=target.prefix,
        )
        outcomes = list(self.pool.map(run_job, shared_out(job, self.options.clients)))
        return summed_up(outcomes, target, kind, concurrency, number)

    def _decision_ids(self, target: Target, concurrency: int) -> tuple[str, ...]:
        """Enough decisions to reward for the whole of a run, judging by the rates seen so far."""
        if target != self.service:
            return ("0" * 36,)
        seen = [
            measured.rate
            for measured in self.measurements
            if measured.target == target.name and measured.concurrency == concurrency
        ]
        seconds = self.options.seconds + SETTLE_SECONDS
        return self.payload.decisions(self.client, int(POOL_MARGIN * max(seen, default=2_000) * seconds) + 1_000)


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """A server while it runs."""
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.kill()


@contextmanager
def database(name: str, directory: Path) -> Iterator[str]:
    """URL of a database of this benchmark's own."""
    if name == "sqlite":
        yield f"sqlite:///{directory}/prudent.db"
        return
    postgres = Postgres()
    try:
        postgres.start()
        url = postgres.create_database()
        migrate(url)
        yield url
    finally:
        postgres.remove()


def summed_up(outcomes: Sequence[Outcome], target: Target, kind: Kind, concurrency: int, number: int) -> Measurement:
    """What several client processes saw at the same time, as one."""
    latencies = np.concatenate([np.asarray(outcome.latencies_ms, dtype=np.float64) for outcome in outcomes])
    p50, p99 = np.percentile(latencies, [50, 99]) if latencies.size else (np.nan, np.nan)
    failures: dict[int, int] = {}
    for outcome in outcomes:
        for status, count in outcome.failures.items():
            failures[status] = failures.get(status, 0) + count
    rate = sum(outcome.rate for outcome in outcomes)
    return Measurement(target.name, kind, concurrency, number, rate, float(p50), float(p99), failures)


def summary(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Per kind and concurrency: medians over the rounds, and the median of each round's ratio to the no-ops."""
    rows: list[dict[str, Any]] = []
    for kind, concurrency in dict.fromkeys((one.kind, one.concurrency) for one in measurements):
        chosen = [one for one in measurements if (one.kind, one.concurrency) == (kind, concurrency)]
        by_target = {name: [one for one in chosen if one.target == name] for name in (m.target for m in chosen)}
        row: dict[str, Any] = {"kind": kind, "concurrency": concurrency}
        for name, rounds in by_target.items():
            row[name] = {
                "rate": statistics.median(one.rate for one in rounds),
                "p50_ms": statistics.median(one.p50_ms for one in rounds),
                "p99_ms": statistics.median(one.p99_ms for one in rounds),
                "failures": sum(sum(one.failures.values()) for one in rounds),
            }
            if name != "service":
                pairs = zip(by_target["service"], rounds, strict=True)
                row[name]["ratio"] = statistics.median(ours.rate / floor.rate for ours, floor in pairs)
        rows.append(row)
    return rows


def machine(directory: Path) -> dict[str, Any]:
    """The machine and the software that the figures belong to."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "sync_ms": round(sync_ms(directory), 3),
    }


def sync_ms(directory: Path) -> float:
    """Median time to write 4 KiB and sync it to the disk: the least that a commit takes."""
    took: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(SYNCS):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took)


def table(rows: Sequence[dict[str, Any]], title: str) -> Table:
    """The summary for a person."""
    caption = "operations a second; ratio: the service's over the no-op's, and over that of the parsing no-op"
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    shown.add_column("")
    for heading in ("conns", "service", "p50 ms", "p99 ms", "failed", "no-op", "ratio", "parsing", "ratio"):
        shown.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        ours, floor, parsing = row["service"], row["no-op"], row["parsing no-op"]
        shown.add_row(
            row["kind"],
            str(row["concurrency"]),
            f"{ours['rate']:,.0f}",
            f"{ours['p50_ms']:.2f}",
            f"{ours['p99_ms']:.2f}",
            str(ours["failures"]),
            f"{floor['rate']:,.0f}",
            f"{floor['ratio']:.2f}",
            f"{parsing['rate']:,.0f}",
            f"{parsing['ratio']:.2f}",
        )
    return shown


def parsed_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arms", type=int, default=10, help="arms a request, K (default 10)")
    parser.add_argument("--dimension", type=int, default=20, help="features an arm, d (default 20)")
    parser.add_argument("--concurrency", type=int, nargs="+", default=[1, 16, 64], help="open connections")
    parser.add_argument("--seconds", type=float, default=2.0, help="measured time of each run (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--clients", type=int, default=1, help="processes that make the load (default 1)")
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--workers", type=int, default=1, help="processes of the service (PostgreSQL only)")
    parser.add_argument("--json", type=Path, help="also write everything measured to this file")
    options = parser.parse_args(arguments)
    if options.database == "sqlite" and options.workers != 1:
        parser.error("SQLite allows one serving process a file: use --database postgres with --workers")
    return options


def main() -> None:
    """Measure, and report."""
    options = parsed_options()
    payload = Payload(options.arms, options.dimension)
    console = Console()
    described = machine(Path(tempfile.gettempdir()))
    console.print_json(json.dumps(described))
    with ExitStack() as stack:
        benchmark = Benchmark(options, payload, stack)
        benchmark.run(console)
    rows = summary(benchmark.measurements)
    workers = "1 worker" if options.workers == 1 else f"{options.workers} workers"
    title = f"K={options.arms}, d={options.dimension}, {options.database}, {workers}; medians of {options.rounds}"
    console.print(table(rows, title))
    if options.json is not None:
        settings = {name: value for name, value in vars(options).items() if name != "json"}
        measured = [asdict(one) for one in benchmark.measurements]
        report = {"machine": described, "settings": settings, "summary": rows, "measurements": measured}
        options.json.write_bytes(orjson.dumps(report, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))


if __name__ == "__main__":
    main()
