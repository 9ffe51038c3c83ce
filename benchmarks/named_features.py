"""What features by name cost the service: `python -m benchmarks.named_features`.

Pairs of a select and its reward on one server and one SQLite database. Plain: a campaign without names, and arrays of
20 numbers. Arrays and names: a campaign with 20 names, as it is by default (centers and scales learned), and either
form of the same values. Disjoint: ten arms and one context. Shared: ten arms with 20 features each.

Processor time of the service (user and system) for a pair, the forms in turn in each round, medians over the rounds,
and the medians of the rounds' ratios. A run has a number of pairs, not of seconds, so that a busy machine makes it
longer and hardly more costly. Nothing is asserted.
"""

import argparse
import asyncio
import itertools
import statistics
import sys
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import orjson
import psutil
from rich.progress import Progress

from benchmarks.coverage_tables import table
from benchmarks.load import encode, exchange
from benchmarks.payload import BODIES
from benchmarks.running import client_of, database, processor_seconds, service, serving, workplace
from tests.servers import HOST

ARMS, DIMENSION, CONNECTIONS = 10, 20, 16
NAMES = [f"feature_{place}" for place in range(DIMENSION)]
FORMS = ("plain", "arrays", "names")


class Case(NamedTuple):
    """A campaign, and the bodies of its selects."""

    campaign_id: str
    creation: dict[str, Any]
    selects: tuple[bytes, ...]


def case(model: str, form: str) -> Case:
    """The campaign of a model whose features come in a form; the values are the same in each."""
    campaign_id = f"{model}-{form}"
    drawn = np.random.default_rng(20).normal(0.0, 1.0, (BODIES, ARMS, DIMENSION)).tolist()

    def given(row: list[float]) -> Any:
        return dict(zip(NAMES, row, strict=True)) if form == "names" else row

    schema = {"dimension": DIMENSION} if form == "plain" else {"features": [{"name": name} for name in NAMES]}
    ids = [f"arm-{place}" for place in range(ARMS)]
    creation: dict[str, Any] = {
        "campaign_id": campaign_id,
        "risk": {"measure": "mean"},
        "model": {"type": model, **schema},
        "algorithm": {"name": "linucb"},
        "arms": [{"arm_id": one} for one in ids] if model == "disjoint" else [],
    }
    bodies = []
    for rows in drawn:
        if model == "disjoint":
            asked: dict[str, Any] = {"context": given(rows[0])}
        else:
            asked = {"arms": [{"arm_id": one, "features": given(row)} for one, row in zip(ids, rows, strict=True)]}
        bodies.append(orjson.dumps({"campaign_id": campaign_id, **asked}))
    return Case(campaign_id, creation, tuple(bodies))


async def play(port: int, selects: tuple[bytes, ...], pairs: int) -> None:
    """Make so many pairs over connections that stay open. Raises LoadError for what it does not read."""
    address = f"{HOST}:{port}"
    bodies = itertools.islice(itertools.cycle(selects), pairs)

    async def connection() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        for body in bodies:  # shared: each connection takes the next one
            decision = orjson.loads(await exchange(reader, writer, encode("/select", address, body)))
            reward = orjson.dumps({"decision_id": decision["decision_id"], "reward": 0.5})
            await exchange(reader, writer, encode("/reward", address, reward))
        writer.close()

    await asyncio.gather(*(connection() for _ in range(CONNECTIONS)))


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=2_000, help="of each run")
    options = parser.parse_args()
    cases = {(model, form): case(model, form) for model in ("disjoint", "shared") for form in FORMS}
    spent: dict[tuple[str, str], list[float]] = {key: [] for key in cases}
    with ExitStack() as stack:
        directory = stack.enter_context(workplace())
        server = service(stack.enter_context(database("sqlite", directory)), directory)
        stack.enter_context(serving(server))
        client, progress = stack.enter_context(client_of(server)), stack.enter_context(Progress())
        assert server.process is not None
        process = psutil.Process(server.process.pid)
        for one in cases.values():
            client.post("/campaigns", json=one.creation).raise_for_status()
        task = progress.add_task("", total=(options.rounds + 1) * len(cases))
        for number in range(options.rounds + 1):
            keys = list(cases)
            for key in keys if number % 2 else reversed(keys):
                progress.update(task, description=", ".join(key))
                began = processor_seconds(process)
                asyncio.run(play(server.port, cases[key].selects, options.pairs))
                if number:  # the first round warms up, and freezes what is learned of the scales
                    spent[key].append(1e6 * (processor_seconds(process) - began) / options.pairs)
                progress.advance(task)
    rows: list[list[object]] = []
    for model in ("disjoint", "shared"):
        plain, arrays, names = (spent[model, form] for form in FORMS)
        ratios = [
            statistics.median(name / other for name, other in zip(names, others, strict=True))
            for others in (arrays, plain)
        ]
        medians = (statistics.median(one) for one in (plain, arrays, names))
        rows.append([model, *(f"{one:.0f}" for one in medians), *(f"{one:.2f}" for one in ratios)])
    head = ["model", "plain, us a pair", "arrays, us", "names, us", "names / arrays", "names / plain"]
    sys.stdout.write(table(head, rows))


if __name__ == "__main__":
    main()
