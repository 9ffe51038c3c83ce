"""What reports and exports cost those who wait for decisions: on the primary, on a standby, and by another server.

Open loop, so that a stall is felt by all pairs that were due in it. One client asks for a report, an export and a page
of decisions of a long campaign, over and over. Rounds alternate; medians over the rounds, and ratios of one round's.
The standby and the other server leave the processors to the rest, as if they were on machines of their own.
"""

import argparse
import asyncio
import statistics
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import psutil
import uvloop

from benchmarks.machine import machine
from benchmarks.open_loop import pairs
from benchmarks.payload import Payload
from benchmarks.running import client_of, serving, workplace
from tests.commands import migrate
from tests.servers import Server
from tests.trust.clusters import Pair

ARMS, DIMENSION = 10, 20
READS = ("report", "export", "decisions?limit=1000")
PAUSE_SECONDS = 0.2
CASES = {
    "nothing": ("standby", None),
    "reads of the standby, by another server": ("standby", "reports"),
    "reads of the standby, by the same server": ("standby", "standby"),
    "reads of the primary, by the same server": ("primary", "primary"),
}
"""Which server is asked for decisions, and which for reports."""


async def _read(url: str, done: asyncio.Event) -> int:
    """Ask for what takes long until it is done; how many answers came."""
    answers = 0
    async with httpx.AsyncClient(base_url=url, timeout=120, trust_env=False) as http:
        while not done.is_set():
            for what in READS:
                reply = await http.get(f"/campaigns/long/{what}")
                if reply.status_code != httpx.codes.OK:
                    raise RuntimeError(f"{what}: {reply.status_code} {reply.text}")
                answers += 1
                await asyncio.sleep(PAUSE_SECONDS)
    return answers


async def _run(asked: Server, read: Server | None, payload: Payload, options: argparse.Namespace) -> tuple[float, int]:
    """The 99% quantile of the pairs' milliseconds, and how many long answers came meanwhile."""
    done = asyncio.Event()
    reading = None if read is None else asyncio.create_task(_read(read.url, done))
    latencies, failures = await pairs(asked.port, payload, options.seconds, options.rate)
    done.set()
    answers = 0 if reading is None else await reading
    if failures:
        raise RuntimeError(f"{failures} pairs failed")
    return float(np.percentile(latencies, 99)), answers


def _step_back(process: psutil.Process) -> None:
    for one in (process, *process.children(recursive=True)):
        one.nice(19)


def measure(options: argparse.Namespace, directory: Path) -> None:
    """Serve, fill, ask, and print the table."""
    pair = Pair(synchronous=False)
    try:
        url = pair.primary.create_database()
        migrate(url)
        pair.wait_for_standby()
        standby = {"PRUDENT_READ_DATABASE_URL": pair.standby.url(url.rpartition("/")[2])}
        with ExitStack() as stack:
            servers = {
                name: stack.enter_context(serving(Server(url, directory / f"{name}.log", environment=environment)))
                for name, environment in (("primary", {}), ("standby", standby), ("reports", standby))
            }
            short, long = Payload(ARMS, DIMENSION, ("short",)), Payload(ARMS, DIMENSION, ("long",))
            with client_of(servers["primary"]) as client:
                short.create(client)
                long.create(client)
                ids = long.decisions(client, options.decisions)
                for first in range(0, len(ids), 1_000):
                    items = [{"decision_id": one, "reward": 0.5} for one in ids[first : first + 1_000]]
                    client.post("/reward/batch", json={"items": items}).raise_for_status()
            pair.wait_for_standby()
            for process in (pair.standby.process, servers["reports"].process):
                assert process is not None
                _step_back(psutil.Process(process.pid))
            found: dict[str, list[tuple[float, int]]] = {name: [] for name in CASES}
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                for _ in range(options.rounds):
                    for name, (asked, read) in CASES.items():
                        reader = None if read is None else servers[read]
                        found[name].append(runner.run(_run(servers[asked], reader, short, options)))
        _show(found)
    finally:
        pair.remove()


def _show(found: dict[str, list[tuple[float, int]]]) -> None:
    sys.stdout.write("| beside | p99 ms | over that beside nothing | long answers |\n|---|---:|---:|---:|\n")
    alone = next(iter(found.values()))
    for name, runs in found.items():
        ratio = statistics.median(one[0] / other[0] for one, other in zip(runs, alone, strict=True))
        p99 = statistics.median(one[0] for one in runs)
        sys.stdout.write(f"| {name} | {p99:.1f} | {ratio:.2f} | {sum(one[1] for one in runs)} |\n")


def main() -> None:
    """`python -m benchmarks.standby`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.standby", description=__doc__)
    parser.add_argument("--decisions", type=int, default=20_000, help="in the campaign that is reported on")
    parser.add_argument("--rate", type=float, default=100.0, help="pairs a second")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each run")
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    with workplace() as directory:
        measure(options, directory)


if __name__ == "__main__":
    main()
