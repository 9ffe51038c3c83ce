"""Select, reward and pairs beside a no-op, a naive service, more workers, and in batches.

A number of requests a second says as much about the machine as about the service; the ratio to a no-op on the same
machine, at the same time, with the same bodies, travels better.
"""

from collections.abc import Callable
from contextlib import ExitStack
from itertools import product
from pathlib import Path
from typing import Literal

import httpx
from rich.progress import Progress

from benchmarks.payload import Payload
from benchmarks.rounds import Budget, Case, Group, Row, any_decisions, measure
from benchmarks.running import Load, Target, client_of, database, naive, noop, service, serving

SHAPES = ((2, 3), (10, 20), (50, 100))
MAIN_SHAPE = (10, 20)
CONNECTIONS = (1, 16, 64)
KINDS: tuple[Load, ...] = ("pair", "select", "reward")
BATCH_ITEMS = 100
WORKERS = (1, 2)
DATABASES: tuple[Literal["sqlite", "postgres"], ...] = ("sqlite", "postgres")


def floor(budget: Budget, directory: Path, progress: Progress, *, full: bool) -> list[Row]:
    """(a), (b): beside the no-op, the framework's default no-op path, and the naive service, on SQLite."""
    with ExitStack() as stack:
        server = stack.enter_context(serving(service(stack.enter_context(database("sqlite", directory)), directory)))
        client = stack.enter_context(client_of(server))
        payloads = [Payload(arms, dimension, (f"k{arms}-d{dimension}",)) for arms, dimension in SHAPES]
        for payload in payloads:
            payload.create(client)
        bottom = stack.enter_context(serving(noop(directory, payloads[1].reply_sizes(client))))
        slow = stack.enter_context(serving(naive(directory)))
        with client_of(slow) as naive_client:
            for payload in payloads:
                payload.create(naive_client)
        targets = {
            "service": Target("service", server.port),
            "no-op": Target("no-op", bottom.port),
            "default no-op": Target("default no-op", bottom.port, "/parsing"),
            "naive": Target("naive", slow.port),
        }
        groups = []
        for payload in payloads:
            is_main = (payload.arms, payload.dimension) == MAIN_SHAPE
            for kind in KINDS if full or is_main else KINDS[:1]:
                for connections in CONNECTIONS if full or is_main else (1, 64):
                    chosen = [name for name in targets if name != "naive" or kind == "pair"]
                    groups.append(_group(payload, [targets[name] for name in chosen], kind, connections, client))
        return measure(groups, budget, progress)


def _group(payload: Payload, targets: list[Target], kind: Load, connections: int, client: httpx.Client) -> Group:
    """The first target is the service."""
    cases = []
    for target in targets:
        decide = _decider(payload, client) if target is targets[0] else any_decisions
        cases.append(Case(target.name, target, kind, connections, payload.selects, decide))
    return Group(f"K={payload.arms}, d={payload.dimension}", tuple(cases))


def _decider(payload: Payload, client: httpx.Client) -> Callable[[int], tuple[str, ...]]:
    return lambda count: payload.decisions(client, count)


def workers(budget: Budget, directory: Path, progress: Progress) -> list[Row]:
    """(d): one worker and two on each database, one hot campaign, beside a no-op with as many workers."""
    payload = Payload(*MAIN_SHAPE)
    rows: list[Row] = []
    with ExitStack() as stack:
        groups = []
        for name, count in product(DATABASES, WORKERS):
            place = directory / f"{name}-{count}"
            place.mkdir()
            url = stack.enter_context(database(name, place))
            server = stack.enter_context(serving(service(url, place, count)))
            with client_of(server) as client:
                payload.create(client)
                bottom = stack.enter_context(serving(noop(place, payload.reply_sizes(client), count)))
            targets = (
                Target("service", server.port),
                Target("no-op", bottom.port),
                Target("default no-op", bottom.port, "/parsing"),
            )
            cases = tuple(Case(target.name, target, "pair", 64, payload.selects) for target in targets)
            groups.append(Group(f"{name}, {count} worker{'s' if count > 1 else ''}", cases))
        rows += measure(groups, budget, progress)
    return rows


def batches(budget: Budget, directory: Path, progress: Progress) -> list[Row]:
    """(f): pairs by the batch endpoints and one by one; a batch counts as its items."""
    payload = Payload(*MAIN_SHAPE)
    with (
        database("sqlite", directory) as url,
        serving(service(url, directory)) as server,
        client_of(server) as client,
    ):
        payload.create(client)
        target = Target("service", server.port)
        cases = (
            Case(f"batches of {BATCH_ITEMS}", target, "batch", 4, payload.batch(BATCH_ITEMS)),
            Case("one by one", target, "pair", 64, payload.selects),
        )
        rows = measure([Group("pairs", cases)], budget, progress)
    batch, single = rows
    batch["rate"] *= BATCH_ITEMS
    if single["ratio"] is not None:
        single["ratio"] *= BATCH_ITEMS
    single["p99_ratio"] = None
    return rows
