"""Faults that services like this one have had, and that no other test here covers; see `test_cases.py`."""

import asyncio
import contextlib
import math
import sqlite3
import subprocess
import sys
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import create_engine, event, inspect

from prudent.ledger.commands import Describe, Observe, Reward, Select, WarmStart
from prudent.ledger.outcomes import RewardReceipt
from prudent.ledger.verification import verify
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.schema import migrate
from prudent.store.tables import metadata
from tests.conftest import MakeServer
from tests.ledger.conftest import Worker
from tests.servers import ROOT, clean_environment
from tests.trust.load import Load, Record, create_campaigns


def test_bonus_of_arms_without_rewards(worker: Worker) -> None:
    """B05. Arms that were never rewarded would keep the bonus of the first round, and never or always be tried."""
    algorithm = {"name": "linucb", "warmup": 0, "noise_scale": 1.0, "parameter_bound": 1.0, "regularization": 4.0}
    worker.create("c", algorithm=algorithm, arms=[{"arm_id": arm} for arm in "abc"])
    for number in range(100):
        worker.one(Observe("c", [WarmStart("a", float(number % 3))]))
        scored = {one.arm_id: one for one in worker.one(Select("c", explain=True)).arms}
        radius = {arm.arm_id: arm.radius for arm in worker.one(Describe("c")).arms}
        for arm, rewards in (("a", number + 1), ("b", 0), ("c", 0)):
            # one feature, constant 1: the radius and the ridge's bias in the metric of V = 4 + rewards
            expected = (radius[arm] + math.sqrt(4.0) * 1.0) / math.sqrt(4.0 + rewards)
            assert scored[arm].bonus == pytest.approx(expected, rel=1e-9), (number, arm)


@pytest.mark.parametrize("size", [0.0, 5e-324, 1e-300, 1e-155, 1e6])
@pytest.mark.parametrize("algorithm", ["linucb", "linucb-cr", "linucb-ogd-cr", "linucb-onepass-cr"])
def test_features_of_any_size_give_finite_scores(worker: Worker, algorithm: str, size: float) -> None:
    """B14. Numbers so small that their squares vanish, or so large, would end as NaN in the state."""
    risk = {"measure": "mean"} if algorithm == "linucb" else {"measure": "expectile", "level": 0.1}
    worker.create("c", model={"type": "disjoint", "dimension": 2}, algorithm={"name": algorithm}, risk=risk)
    for number in range(6):
        context = np.array([size, -size / 3])
        decision = worker.one(Select("c", f"d{number}", context=context, explain=True))
        assert all(math.isfinite(value) for one in decision.arms for value in (one.estimate, one.bonus, one.index))
        worker.one(Reward(f"d{number}", float(number)))
    assert not [fault for one in verify(worker.read) for fault in one.faults]


def test_collinear_features(worker: Worker) -> None:
    """N06. The day of the week as seven columns beside an intercept would be a singular matrix."""
    for name, algorithm in (("mean", "linucb"), ("expectile", "linucb-cr")):
        risk = {"measure": "mean"} if name == "mean" else {"measure": "expectile", "level": 0.1}
        model = {"type": "disjoint", "dimension": 7, "intercept": True}
        worker.create(name, model=model, algorithm={"name": algorithm}, risk=risk)
        for day in (0, 1, 2, 0):
            worker.one(Observe(name, [WarmStart("a", float(day), context=np.eye(7)[day])]))
        thetas = [arm.theta for arm in worker.one(Describe(name)).arms]
        assert [len(theta) for theta in thetas] == [8, 8]
        assert np.isfinite(thetas).all()
    assert not [fault for one in verify(worker.read) for fault in one.faults]


def test_rewards_that_a_feature_determines(worker: Worker) -> None:
    """N11. With next to no regularisation the fit would run off to infinity, and nobody be told."""
    worker.create(
        "c",
        model={"type": "disjoint", "dimension": 1, "intercept": True},
        risk={"measure": "entropic", "gamma": -5.0},
        reward={"minimum": 0.0, "maximum": 1.0},
        algorithm={"name": "linucb-cr", "regularization": 1e-9},
    )
    history = [WarmStart("a", float(x > 0), context=np.array([x])) for x in (-1.0, 1.0) * 20]
    worker.one(Observe("c", history))
    report = worker.one(Describe("c"))
    assert np.abs(report.arms[0].theta).max() < 10
    assert report.convergence["certified"] in (True, False)


def test_threads_change_no_bit(make_server: MakeServer, sqlite_database: str) -> None:
    """N18. A replay with another number of BLAS threads would differ, and a sound log look corrupt."""
    server = make_server(
        sqlite_database, environment={"OPENBLAS_NUM_THREADS": "1", "PRUDENT_SNAPSHOT_OBSERVATIONS": "40"}
    )
    draw = np.random.default_rng(18)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        body = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "shared", "dimension": 120}}
        http.post("/campaigns", json=body | {"algorithm": {"name": "linucb"}}).raise_for_status()
        items = [
            {"arm_id": f"a{n}", "features": draw.standard_normal(120).tolist(), "reward": float(draw.standard_normal())}
            for n in range(60)
        ]
        http.post("/campaigns/c/observations", json={"items": items}).raise_for_status()
    for threads in ("1", "8"):
        done = subprocess.run(
            [sys.executable, "-m", "prudent", "verify", "--database-url", sqlite_database, "--url", server.url],
            cwd=ROOT,
            env=clean_environment({"OPENBLAS_NUM_THREADS": threads, "COLUMNS": "200"}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert "equal" in done.stdout


def test_identical_rewards_while_the_commit_is_slow(worker: Worker) -> None:
    """W21. All copies would find no reward yet, because the first is not committed."""
    worker.create("c")
    worker.one(Select("c", "d"))
    event.listen(worker.write, "commit", lambda _: time.sleep(0.2))
    receipts: list[Any] = []
    threads = [threading.Thread(target=lambda: receipts.extend(worker.run(Reward("d", 0.5)))) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {type(one) for one in receipts} == {RewardReceipt}
    assert sorted(one.duplicate for one in receipts) == [False] + [True] * 49
    assert {one.sequence for one in receipts} == {1}


def constraints(engine: Any) -> dict[str, Any]:
    """Every named constraint of a database, as the database tells it."""
    found = inspect(engine)
    names = [name for name in sorted(found.get_table_names()) if name != "alembic_version"]
    listed = {}
    for name in names:
        checks = sorted((one["name"], one["sqltext"]) for one in found.get_check_constraints(name))
        keys = sorted((one["name"], tuple(one["constrained_columns"])) for one in found.get_foreign_keys(name))
        unique = sorted(str((one["name"], one["column_names"], one["unique"])) for one in found.get_indexes(name))
        listed[name] = (checks, keys, unique, found.get_pk_constraint(name)["constrained_columns"])
    return listed


def test_migrations_make_every_constraint(database_url: str, tmp_path: Any, request: pytest.FixtureRequest) -> None:
    """W25. A CHECK or an index that only new databases have would be missed by a comparison of columns."""
    migrated = create_write_engine(parse_database_url(database_url))
    migrate(migrated)
    if database_url.startswith("sqlite"):
        declared = create_engine(f"sqlite:///{tmp_path}/declared.db")
    else:
        postgres = request.getfixturevalue("lone_postgres")
        declared = create_engine(parse_database_url(postgres.create_database()))
    metadata.create_all(declared)
    assert constraints(migrated) == constraints(declared)
    assert all(name for checks, *_ in constraints(migrated).values() for name, _ in checks)
    migrated.dispose()
    declared.dispose()


def test_no_reader_holds_up_the_log(make_server: MakeServer, sqlite_database: str) -> None:
    """W43. A read transaction that is left open would let SQLite's log grow without end."""
    server, record = make_server(sqlite_database), Record()
    create_campaigns(server.url)
    asyncio.run(Load(server.url, record).run(0.3))
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        for path in ("/campaigns", "/campaigns/ridge", "/campaigns/none", "/health/ready", "/campaigns/exact/model"):
            http.get(path)
    with contextlib.closing(sqlite3.connect(sqlite_database.removeprefix("sqlite:///"))) as other:
        busy, in_log, moved = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    assert (busy, in_log, moved) == (0, 0, 0)
