"""How much a database grows by a decision with its reward, and how much of it stays once the decision is deleted.

`python -m docs.measurements.bytes_per_pair`

Two servers of its own, one on SQLite and one on PostgreSQL, a shared model of dimension 20 and two arms, 20,000
decisions and their rewards in batches of 500. What an empty campaign takes is subtracted. The estimator is
linucb-ogd-cr: what is stored of a pair does not depend on it.
"""

import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np
import psycopg

from tests.commands import migrate
from tests.servers import Postgres, Server

DIMENSION = 20
PAIRS = 20_000
BATCH = 500
ARMS = ("left", "right")


class Size(NamedTuple):
    """Bytes of all tables and indexes, and of those of the log."""

    all: float
    log: float


def sqlite_bytes(path: Path) -> Size:
    """Of the file once the write-ahead log is part of it."""
    log = (
        "SELECT sum(pgsize) FROM dbstat WHERE name IN (SELECT name FROM sqlite_schema WHERE tbl_name = 'observations')"
    )
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (of_the_log,) = connection.execute(log).fetchone()
    connection.close()
    return Size(path.stat().st_size, of_the_log)


def postgres_bytes(url: str) -> Size:
    """Of the tables that grow."""
    with psycopg.connect(url) as connection:
        sizes = [
            int(connection.execute("SELECT pg_total_relation_size(%s::regclass)", [name]).fetchone()[0])  # type: ignore[index]
            for name in ("observations", "decisions", "campaigns", "heads", "arms", "snapshots")
        ]
    return Size(sum(sizes), sizes[0])


def send(client: httpx.Client, path: str, body: object) -> httpx.Response:
    """POST; raises for an answer that is no success."""
    return client.post(path, json=body).raise_for_status()


def grow(url: str, size: Callable[[], Size], *, ids_by_client: bool) -> Size:
    """Bytes a pair."""
    draw = np.random.default_rng(3)
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as client:
        risk, model = {"measure": "expectile", "level": 0.1}, {"type": "shared", "dimension": DIMENSION}
        algorithm = {"name": "linucb-ogd-cr", "warmup": 0}
        send(client, "/campaigns", {"campaign_id": "size", "risk": risk, "model": model, "algorithm": algorithm})
        empty = size()
        for start in range(0, PAIRS, BATCH):
            selects = []
            for number in range(start, start + BATCH):
                features = draw.standard_normal((len(ARMS), DIMENSION)) / DIMENSION**0.5
                arms = [{"arm_id": arm, "features": row.tolist()} for arm, row in zip(ARMS, features, strict=True)]
                name = {"decision_id": f"order-{number:07d}"} if ids_by_client else {}
                selects.append({"campaign_id": "size", "arms": arms, **name})
            answers = send(client, "/select/batch", {"items": selects}).json()["items"]
            rewards = [{"decision_id": one["decision_id"], "reward": draw.standard_normal()} for one in answers]
            send(client, "/reward/batch", {"items": rewards})
    full = size()
    return Size((full.all - empty.all) / PAIRS, (full.log - empty.log) / PAIRS)


@contextmanager
def served(url: str, log: Path) -> Iterator[str]:
    """A server of our own on a database, ended afterwards."""
    server = Server(url, log)
    server.start()
    try:
        yield server.url
        server.stop()
    finally:
        server.kill()


def main() -> None:
    """Print a table."""
    postgres = Postgres()
    try:
        postgres.start()
        with tempfile.TemporaryDirectory() as folder:
            for by_client in (False, True):
                ids = "client's, 13 characters" if by_client else "server's, 36 characters"
                file = Path(folder, f"{by_client}.db")
                with served(f"sqlite:///{file}", Path(folder, "log")) as url:
                    one = grow(url, partial(sqlite_bytes, file), ids_by_client=by_client)
                database = postgres.create_database()
                migrate(database)
                with served(database, Path(folder, "log")) as url:
                    two = grow(url, partial(postgres_bytes, database), ids_by_client=by_client)
                sys.stdout.write(
                    f"ids: {ids:<24} SQLite {one.all:5.0f}, of it the log {one.log:4.0f}   "
                    f"PostgreSQL {two.all:5.0f}, of it the log {two.log:4.0f} bytes a pair\n"
                )
    finally:
        postgres.remove()


if __name__ == "__main__":
    main()
