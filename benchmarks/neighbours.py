"""What long campaigns cost another one: its latencies beside two long campaigns, two short ones, and alone.

All three kinds of company have the same database, and the long and the short campaigns the same load: what they differ
in is what a long history costs. Open loop, so that a stall is felt by all pairs that were due in it. Rounds alternate;
medians over the rounds, and ratios of one round's, since a machine is not the same from one minute to the next.
"""

import argparse
import asyncio
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import uvloop

from benchmarks.growth import ANSWER_SECONDS_MAX, EXPECTILE
from benchmarks.machine import machine
from benchmarks.open_loop import pairs
from benchmarks.payload import JSON, Payload
from benchmarks.running import client_of, database, service, serving, workplace
from benchmarks.seeding import append_observations
from tests.commands import migrate

ARMS, DIMENSION = 10, 20
WARM_SECONDS = 2.0
COMPANIES: dict[str, tuple[str, ...]] = {
    "alone": (),
    "two short ones": ("short-1", "short-2"),
    "two long ones": ("long-1", "long-2"),
}


def _load(client: httpx.Client, payload: Payload) -> float:
    """Seconds until a campaign answers for the first time."""
    began = time.perf_counter()
    while client.post("/select", content=payload.selects[0], headers=JSON).status_code != httpx.codes.OK:
        if time.perf_counter() - began > ANSWER_SECONDS_MAX:
            raise TimeoutError(f"{payload.campaign_ids[0]} was not loaded in {ANSWER_SECONDS_MAX:g} s")
        time.sleep(0.05)
    return time.perf_counter() - began


async def _watched(port: int, payloads: Sequence[Payload], seconds: float, rate: float) -> tuple[list[float], int]:
    """Latencies of the first campaign's pairs, and how many of all failed, while all are asked at the same rate."""
    found = await asyncio.gather(*(pairs(port, payload, seconds, rate) for payload in payloads))
    return found[0][0], sum(failures for _, failures in found)


def measure(options: argparse.Namespace, directory: Path) -> None:
    """Fill, load and measure; print the table."""
    algorithm: dict[str, Any] = {"name": "linucb-cr"}
    if options.exact:
        algorithm["exact_until"] = None
    names = ["watched", *COMPANIES["two short ones"], *COMPANIES["two long ones"]]
    payloads = {name: Payload(ARMS, DIMENSION, (name,)) for name in names}
    with database("sqlite", directory) as url:
        migrate(url)
        server = service(url, directory)
        with serving(server), client_of(server) as client:
            for payload in payloads.values():
                payload.create(client, EXPECTILE | {"algorithm": algorithm})
        append_observations(directory / "prudent.db", list(COMPANIES["two long ones"]), options.observations, DIMENSION)
        with (
            serving(server),
            client_of(server) as client,
            asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
        ):
            for name, payload in payloads.items():
                sys.stdout.write(f"{name}: first decision after {_load(client, payload):.1f} s\n")
            rows: dict[str, list[tuple[float, float]]] = {name: [] for name in COMPANIES}
            failures = 0
            for number in range(-1, options.rounds):
                for name, company in COMPANIES.items():
                    asked = [payloads[one] for one in ("watched", *company)]
                    seconds = options.seconds if number >= 0 else WARM_SECONDS
                    latencies, failed = runner.run(_watched(server.port, asked, seconds, options.rate))
                    if number >= 0:
                        p50, p99 = np.percentile(latencies, [50, 99])
                        rows[name].append((float(p50), float(p99)))
                        failures += failed
    _show(rows, failures)


def _show(rows: dict[str, list[tuple[float, float]]], failures: int) -> None:
    sys.stdout.write("| beside | p50 ms | p99 ms | p99 over that beside two short ones |\n|---|---|---|---|\n")
    for name, found in rows.items():
        p50, p99 = (statistics.median(one[place] for one in found) for place in (0, 1))
        ratios = [one[1] / other[1] for one, other in zip(found, rows["two short ones"], strict=True)]
        sys.stdout.write(f"| {name} | {p50:.1f} | {p99:.1f} | {statistics.median(ratios):.2f} |\n")
    sys.stdout.write(f"failed: {failures}\n")


def main() -> None:
    """`python -m benchmarks.neighbours`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbours", description=__doc__)
    parser.add_argument("--observations", type=int, default=1_000_000, help="in each long campaign's log")
    parser.add_argument("--rate", type=float, default=50.0, help="pairs a second of each campaign")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each run")
    parser.add_argument("--exact", action="store_true", help="with exact_until null, as before it was there")
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    with workplace() as directory:
        measure(options, directory)


if __name__ == "__main__":
    main()
