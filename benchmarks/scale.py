"""What partitions cost or bring: pairs of selects and rewards on PostgreSQL, on partitioned tables and on plain ones.

Two databases of one server, and a service on each, under load in turn: a ratio is that of one round. Nothing is
asserted.
"""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from benchmarks.machine import machine
from benchmarks.payload import Payload
from benchmarks.rounds import Budget, Case, Group, measure, table
from benchmarks.running import Target, client_of, service, serving, workplace
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.schema import migrate
from tests.servers import Postgres

ARMS, DIMENSION = 10, 20
CONNECTIONS = 32


def compare(options: argparse.Namespace, directory: Path) -> None:
    """Serve both, put them under load, and print the table."""
    payload = Payload(ARMS, DIMENSION, tuple(f"c{number}" for number in range(options.campaigns)))
    postgres = Postgres()
    try:
        postgres.start()
        with ExitStack() as stack:
            cases = []
            for name, partitions in ((f"{options.partitions} partitions", options.partitions), ("plain tables", None)):
                url = postgres.create_database()
                engine = create_write_engine(parse_database_url(url))
                migrate(engine, partitions=partitions)
                engine.dispose()
                folder = directory / name
                folder.mkdir()
                server = stack.enter_context(serving(service(url, folder)))
                payload.create(stack.enter_context(client_of(server)))
                cases.append(Case(name, Target(name, server.port), "pair", CONNECTIONS, payload.selects))
            with Progress(console=Console(stderr=True), transient=True) as progress:
                rows = measure([Group("scale", tuple(cases))], Budget(options.rounds, options.seconds), progress)
    finally:
        postgres.remove()
    console = Console(width=100)
    console.print(table(rows, "Pairs a second", "ratio: that of the partitioned tables over this one, by round"))
    ratios = sorted(one["rate"] / other["rate"] for one, other in zip(*(row["rounds"] for row in rows), strict=True))
    console.print(f"ratios by round: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")


def main() -> None:
    """`python -m benchmarks.scale`."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--campaigns", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each run")
    options = parser.parse_args()
    sys.stdout.write(f"{machine()}\n")
    with workplace() as directory:
        compare(options, directory)


if __name__ == "__main__":
    main()
