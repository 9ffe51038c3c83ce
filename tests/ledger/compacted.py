"""Campaigns whose oldest rows are replaced, and what must be true of them."""

from typing import Any

from sqlalchemy import text

from prudent.clock import steady_clock
from prudent.ledger.compaction import Compaction
from prudent.ledger.maintenance import Maintenance
from prudent.ledger.state import States
from prudent.ledger.verification import verify
from prudent.settings import Limits
from tests.aging import age_log
from tests.ledger.conftest import Worker
from tests.ledger.replays import assert_live_equals_replay

KEPT = {"retention_days": 5, "log_retention_days": 10}
KINDS: dict[str, dict[str, Any]] = {
    "ridge": {"algorithm": {"name": "linucb"}},
    "exact, then one pass": {
        "risk": {"measure": "expectile", "level": 0.2},
        "algorithm": {"name": "linucb-cr", "exact_until": 100},
    },
    "stages": {"risk": {"measure": "cvar", "level": 0.25}, "algorithm": {"name": "linucb-onepass-cr"}},
    "gradient": {"risk": {"measure": "expectile", "level": 0.2}, "algorithm": {"name": "linucb-ogd-cr"}},
    "forgetting": {"algorithm": {"name": "linucb", "forgetting": {"half_life": 50}}},
}


def age(worker: Worker, name: str, until: int) -> None:
    """Have rows of a log, and their decisions, come 30 days earlier. No worker may run."""
    age_log(worker.write, name, until, 30)


def tidy(worker: Worker) -> None:
    """One round of what deletes old decisions and old rows. The worker does not run."""
    clock = steady_clock()
    Maintenance(worker.write, worker.read, States(2**20), clock=clock, limits=Limits()).run()
    Compaction(worker.write, worker.read, clock).run()


def beginning(worker: Worker, name: str) -> int:
    """How many rows of a log were replaced."""
    return next(one.replaced for one in verify(worker.read) if one.campaign_id == name)


def rows_of(worker: Worker, name: str) -> int:
    with worker.read.connect() as connection:
        statement = "SELECT count(*) FROM observations JOIN campaigns USING (key) WHERE campaign_id = :name"
        return int(connection.execute(text(statement), {"name": name}).scalar_one())


def assert_sound(worker: Worker) -> None:
    assert_live_equals_replay(worker)
    assert [(one.digest, one.faults) for one in verify(worker.read, deep=True)] == [
        ("unbroken", []) for _ in verify(worker.read)
    ]


def log_head(worker: Worker, name: str) -> int:
    with worker.read.connect() as connection:
        statement = "SELECT head FROM heads JOIN campaigns USING (key) WHERE campaign_id = :name"
        return int(connection.execute(text(statement), {"name": name}).scalar_one())
