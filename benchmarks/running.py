"""Servers under test, and one run of load against them."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Literal

import httpx
import numpy as np
import orjson
import psutil

from benchmarks.load import Job, Kind, run_job
from tests.commands import migrate
from tests.servers import HOST, Postgres, Server

WRK = shutil.which("wrk")
SCRIPT = Path(__file__).with_name("pairs.lua")
DRAIN_SECONDS_MAX = 60
CLIENT_SECONDS_MAX = 120

Load = Kind | Literal["batch"]


class NoClientError(Exception):
    """The Python client does not make this load, and wrk is not installed."""


class BrokenLoadError(Exception):
    """wrk did not run."""


@dataclass(frozen=True)
class Target:
    """Something to put under load: an address and a prefix of its paths."""

    name: str
    port: int
    prefix: str = ""


@dataclass(frozen=True)
class Run:
    """What came of one run: operations a second (a pair is one), latencies (of a request with wrk), failures."""

    rate: float
    p50_ms: float
    p99_ms: float
    failures: int


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """A server while it runs."""
    server.start()
    try:
        yield server
        server.stop()
    finally:
        server.kill()


def service(database_url: str, directory: Path, workers: int = 1) -> Server:
    """The service."""
    return Server(database_url, directory / "service.log", workers=workers)


def noop(directory: Path, reply_sizes: tuple[int, int], workers: int = 1) -> Server:
    """The floor, with replies of the service's sizes."""
    sizes = [str(size) for size in reply_sizes]
    return Server(
        "none",
        directory / "noop.log",
        workers=workers,
        command=(sys.executable, "-m", "benchmarks.noop"),
        arguments=["--select-bytes", sizes[0], "--reward-bytes", sizes[1]],
    )


def naive(directory: Path) -> Server:
    """The naive service, on a database file of its own."""
    url = f"sqlite+aiosqlite:///{directory}/naive.db"
    return Server(url, directory / "naive.log", command=(sys.executable, "-m", "benchmarks.naive"))


@contextmanager
def database(name: Literal["sqlite", "postgres"], directory: Path) -> Iterator[str]:
    """URL of an empty database of this benchmark's own."""
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


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder for databases and logs."""
    with tempfile.TemporaryDirectory(prefix="prudent-benchmark-") as name:
        yield Path(name)


def client_of(server: Server) -> httpx.Client:
    """A client for what is not timed: it may wait for a large batch."""
    return httpx.Client(base_url=server.url, timeout=CLIENT_SECONDS_MAX, trust_env=False)


def run(
    target: Target,
    kind: Load,
    connections: int,
    seconds: float,
    selects: tuple[bytes, ...],
    decision_ids: tuple[str, ...] = (),
) -> Run:
    """Load one target for a while: with wrk, or else with the Python client in a process of its own.

    decision_ids: what kind `reward` rewards, once each. Raises NoClientError for a batch without wrk.
    """
    if WRK is not None:
        return _run_wrk(target, kind, connections, seconds, selects, decision_ids)
    if kind == "batch":
        raise NoClientError("batches need wrk")
    job = Job(HOST, target.port, kind, connections, seconds, selects, decision_ids, prefix=target.prefix)
    # Spawned, not forked: a child of this process must not share its sockets.
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        outcome = pool.submit(run_job, job).result()
    p50, p99 = np.percentile(outcome.latencies_ms, [50, 99]) if outcome.latencies_ms else (np.nan, np.nan)
    return Run(outcome.rate, float(p50), float(p99), sum(outcome.failures.values()))


def _run_wrk(
    target: Target,
    kind: Load,
    connections: int,
    seconds: float,
    selects: tuple[bytes, ...],
    decision_ids: tuple[str, ...],
) -> Run:
    with tempfile.TemporaryDirectory(prefix="prudent-wrk-") as name:
        bodies, ids = Path(name) / "bodies", Path(name) / "ids"
        bodies.write_bytes(b"\n".join(selects) + b"\n")
        ids.write_text("".join(f"{one}\n" for one in decision_ids), encoding="ascii")
        command = [
            str(WRK),
            "-t1",
            f"-c{connections}",
            f"-d{max(1, round(seconds))}s",
            "--timeout",
            f"{DRAIN_SECONDS_MAX}s",
        ]
        command += ["-s", str(SCRIPT), f"http://{HOST}:{target.port}", "--", kind, target.prefix or "", str(bodies)]
        done = subprocess.run(
            [*command, str(ids)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds + DRAIN_SECONDS_MAX,
            check=False,
        )
    if done.returncode != 0 or not done.stdout:
        raise BrokenLoadError(f"wrk: {(done.stderr or done.stdout).decode(errors='replace').strip()}")
    found = orjson.loads(done.stdout.splitlines()[-1])
    failures = found["failed"] + found["broken"]
    return Run(found["completed"] / found["seconds"], found["p50_ms"], found["p99_ms"], failures)


def processor_seconds(process: psutil.Process) -> float:
    """Of a process and its children, user and system."""
    return sum(sum(one.cpu_times()[:2]) for one in (process, *process.children(recursive=True)))
