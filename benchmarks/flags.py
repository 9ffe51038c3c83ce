"""What evaluating a feature flag costs beside a select: `python -m benchmarks.flags`.

One disjoint campaign with five named features and three arms, one server and one SQLite database. Selects: of new
subjects. Evaluations: of new subjects over OFREP, with the same features and five attributes that are none; as the
provider of JavaScript sends them. Again: evaluations, and selects, of a subject that has a decision.

Processor time of the service (user and system) for a request, the forms in turn in each round, medians over the
rounds, and medians of the rounds' ratios. A run has a number of requests, not of seconds, so that a busy machine makes
it longer and hardly more costly. Nothing is asserted.
"""

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import orjson
import psutil
from rich.progress import Progress

from benchmarks.coverage_tables import table
from benchmarks.load import encode, exchange
from benchmarks.running import client_of, database, processor_seconds, service, serving, workplace
from tests.servers import HOST

CONNECTIONS = 16
NAMES = [f"feature_{place}" for place in range(5)]
OTHERS = {"userAgent": "Mozilla/5.0", "path": "/basket", "locale": "pt-PT", "beta": False, "build": 1_204}
CAMPAIGN = {
    "campaign_id": "flag",
    "risk": {"measure": "mean"},
    "model": {"type": "disjoint", "features": [{"name": name} for name in NAMES]},
    "algorithm": {"name": "linucb"},
    "arms": [{"arm_id": name, "value": {"layout": name}} for name in "abc"],
    "assignment": {"sticky_seconds": 366 * 86_400},
}
FORMS = ("select", "evaluation", "select again", "evaluation again")


class Requests(NamedTuple):
    """A path, and the bodies that are sent to it."""

    path: str
    bodies: Iterator[bytes]


def requests_of(form: str, number: int, count: int) -> Requests:
    """So many requests of a form in a round."""
    drawn = np.random.default_rng(number).normal(0.0, 1.0, (count, len(NAMES))).tolist()
    contexts = [dict(zip(NAMES, row, strict=True)) for row in drawn]
    subjects = [f"{number}-{form}-{0 if 'again' in form else place}" for place in range(count)]
    if form.startswith("select"):
        pairs = zip(subjects, contexts, strict=True)
        bodies = [{"campaign_id": "flag", "subject": subject, "context": context} for subject, context in pairs]
        return Requests("/select", map(orjson.dumps, bodies))
    pairs = zip(subjects, contexts, strict=True)
    evaluations = [{"context": {"targetingKey": subject, **context, **OTHERS}} for subject, context in pairs]
    return Requests("/ofrep/v1/evaluate/flags/flag", map(orjson.dumps, evaluations))


async def send_all(port: int, requests: Requests) -> None:
    """Send them over connections that stay open. Raises LoadError for what it does not read."""
    address = f"{HOST}:{port}"

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        for body in requests.bodies:  # shared: each connection takes the next one
            await exchange(reader, writer, encode(requests.path, address, body))
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--requests", type=int, default=3_000, help="of each run")
    options = parser.parse_args()
    spent: dict[str, list[float]] = {form: [] for form in FORMS}
    with ExitStack() as stack:
        directory = stack.enter_context(workplace())
        server = service(stack.enter_context(database("sqlite", directory)), directory)
        stack.enter_context(serving(server))
        client, progress = stack.enter_context(client_of(server)), stack.enter_context(Progress())
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        client.post("/campaigns", json=CAMPAIGN).raise_for_status()
        task = progress.add_task("", total=(options.rounds + 1) * len(FORMS))
        for number in range(options.rounds + 1):
            for form in FORMS if number % 2 else reversed(FORMS):
                progress.update(task, description=form)
                requests = requests_of(form, number, options.requests)
                began = processor_seconds(process)
                asyncio.run(send_all(server.port, requests))
                if number:  # the first round warms up
                    spent[form].append(1e6 * (processor_seconds(process) - began) / options.requests)
                progress.advance(task)
    rows: list[list[object]] = []
    for evaluation, select in (("evaluation", "select"), ("evaluation again", "select again")):
        ratio = statistics.median(one / other for one, other in zip(spent[evaluation], spent[select], strict=True))
        medians = (statistics.median(spent[form]) for form in (evaluation, select))
        rows.append([evaluation, *(f"{one:.0f}" for one in medians), f"{ratio:.2f}"])
    sys.stdout.write(table(["", "us", "select, us", "ratio"], rows))


if __name__ == "__main__":
    main()
