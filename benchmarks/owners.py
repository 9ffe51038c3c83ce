"""What it costs that several servers serve the same campaigns: processor time a pair, of the servers and PostgreSQL.

Selects and rewards go to any of the servers, as a proxy sends them that takes its workers in turn; or both to the
campaign's own, as one does that goes by the campaign; or only selects, where rewards do not name it. Servers of one
process each, on one database. The cases are under load in turn, so a ratio is that of one round. Nothing is asserted.
"""

import argparse
import asyncio
import itertools
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import NamedTuple

import orjson
import psutil
import uvloop
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.load import LoadError, encode, exchange
from benchmarks.machine import machine
from benchmarks.payload import Payload
from benchmarks.running import client_of, processor_seconds, service, serving, workplace
from tests.commands import migrate
from tests.servers import HOST, Postgres, Server

ARMS, DIMENSION = 10, 20
SETTLE_SECONDS = 1.0


class Sent(StrEnum):
    """To which server."""

    ANY = "sent to any"
    SELECTS = "selects to the campaign's own"
    OWN = "all to the campaign's own"


class Case(NamedTuple):
    """So many servers, and how they are chosen."""

    servers: int
    sent: Sent


class Run(NamedTuple):
    """Pairs a second, microseconds of processor time a pair, and answers that were no 200."""

    rate: float
    server_us: float
    database_us: float
    refused: int


ALONE = Case(1, Sent.ANY)
CASES = (ALONE, *(Case(servers, sent) for servers in (2, 4) for sent in Sent))


class Load:
    """A closed loop of pairs; each connection is one to every server."""

    def __init__(self, ports: Sequence[int], case: Case, payload: Payload) -> None:
        self._ports, self._case = ports[: case.servers], case
        campaigns, bodies = payload.campaign_ids, payload.selects
        self._bodies: Iterator[tuple[int, bytes]] = itertools.cycle(
            (number % len(campaigns), body) for number, body in enumerate(bodies)
        )
        self.done = self.refused = 0

    async def connection(self, number: int) -> None:
        """Make pairs until cancelled."""
        streams = [await asyncio.open_connection(HOST, port) for port in self._ports]
        count, address, sent = len(streams), f"{HOST}:{self._ports[0]}", self._case.sent
        try:
            for turn in itertools.count(number):
                campaign, body = next(self._bodies)
                first = turn if sent is Sent.ANY else campaign
                second = campaign if sent is Sent.OWN else turn + 1
                try:
                    reply = await exchange(*streams[first % count], encode("/select", address, body))
                    reward = b'{"decision_id":"%s","reward":0.5}' % orjson.loads(reply)["decision_id"].encode()
                    await exchange(*streams[second % count], encode("/reward", address, reward))
                except LoadError:
                    self.refused += 1
                else:
                    self.done += 1
        finally:
            for _, writer in streams:
                writer.close()


async def _pairs(load: Load, connections: int, seconds: float, processes: Sequence[psutil.Process]) -> list[float]:
    """Pairs made in the time, the seconds that it was, and those of each process."""
    tasks = [asyncio.create_task(load.connection(number)) for number in range(connections)]
    await asyncio.sleep(SETTLE_SECONDS)
    began, before, done = time.perf_counter(), [processor_seconds(one) for one in processes], load.done
    finished, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    passed, made = time.perf_counter() - began, load.done - done
    spent = [processor_seconds(one) - past for one, past in zip(processes, before, strict=True)]
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for task in finished:
        task.result()
    return [made, passed, *spent]


def run(
    case: Case, servers: Sequence[Server], postgres: Postgres, payload: Payload, options: argparse.Namespace
) -> Run:
    """One case under load for a while."""
    assert postgres.process is not None
    running = [one.process for one in servers[: case.servers]]
    processes = [psutil.Process(one.pid) for one in (postgres.process, *running) if one is not None]
    load = Load([one.port for one in servers], case, payload)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        made, passed, database, *spent = runner.run(_pairs(load, options.connections, options.seconds, processes))
    return Run(made / passed, sum(spent) / made * 1e6, database / made * 1e6, load.refused)


def shown(runs: dict[Case, list[Run]], title: str) -> Table:
    """The cases for a person, each beside the first."""
    table = Table(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("servers", ""):
        table.add_column(heading, no_wrap=True)
    for heading in ("pairs/s", "of one's", "us a pair", "database's", "of one's", "refused"):
        table.add_column(heading, justify="right", no_wrap=True)
    for case, mine in runs.items():
        rounds = list(zip(mine, runs[ALONE], strict=True))
        costs = [(one.server_us + one.database_us) / (first.server_us + first.database_us) for one, first in rounds]
        table.add_row(
            str(case.servers),
            "" if case == ALONE else case.sent,
            f"{median(one.rate for one in mine):,.0f}",
            f"{median(one.rate / first.rate for one, first in rounds):.2f}",
            f"{median(one.server_us + one.database_us for one in mine):,.0f}",
            f"{median(one.database_us for one in mine):,.0f}",
            f"{median(costs):.2f}",
            str(sum(one.refused for one in mine)),
        )
    return table


def compare(options: argparse.Namespace, directory: Path) -> None:
    """Serve, put under load, and print a table for each number of campaigns."""
    console, postgres = Console(width=110), Postgres()
    try:
        postgres.start()
        for campaigns in options.campaigns:
            payload = Payload(ARMS, DIMENSION, tuple(f"c{number}" for number in range(campaigns)))
            url = postgres.create_database()
            migrate(url)
            with ExitStack() as stack:
                servers = []
                for number in range(max(case.servers for case in CASES)):
                    place = directory / f"{campaigns}-{number}"
                    place.mkdir()
                    servers.append(stack.enter_context(serving(service(url, place))))
                payload.create(stack.enter_context(client_of(servers[0])))
                runs = _rounds(servers, postgres, payload, options)
            console.print(shown(runs, f"campaigns: {campaigns}, connections: {options.connections}"))
    finally:
        postgres.remove()


def _rounds(
    servers: Sequence[Server], postgres: Postgres, payload: Payload, options: argparse.Namespace
) -> dict[Case, list[Run]]:
    cases = CASES if len(payload.campaign_ids) > 1 else tuple(case for case in CASES if case.sent is Sent.ANY)
    runs: dict[Case, list[Run]] = {case: [] for case in cases}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("load", total=options.rounds * len(cases))
        for number in range(options.rounds):
            begin = number % len(cases)
            for case in (*cases[begin:], *cases[:begin]):
                runs[case].append(run(case, servers, postgres, payload, options))
                progress.advance(task)
    return runs


def main() -> None:
    """`python -m benchmarks.owners`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.owners", description=__doc__)
    parser.add_argument("--campaigns", type=int, nargs="+", default=[64, 1])
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each run")
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    with workplace() as directory:
        compare(options, directory)


if __name__ == "__main__":
    main()
