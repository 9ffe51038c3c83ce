"""Ledgers on real databases, without HTTP in between."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from sqlalchemy import Engine

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.clock import Clock, steady_clock
from prudent.ledger import compaction, ledger
from prudent.ledger.commands import Author, CreateCampaign
from prudent.ledger.ledger import Ledger
from prudent.observability.metrics import Metrics
from prudent.settings import Limits
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from tests.databases import migrate
from tests.ledger.statements import Listener, watch


class Worker:
    """A ledger with its engines, as one serving process has them."""

    def __init__(self, database_url: str, limits: Limits, clock: Clock) -> None:
        url = parse_database_url(database_url)
        self.write, self.read = create_write_engine(url), create_read_engine(url)
        self.on_statement: list[Listener] = []
        watch(self.write, self.on_statement)
        self.metrics = Metrics()
        self.ledger = Ledger(self.write, self.read, limits=limits, metrics=self.metrics, clock=clock)

    def stop(self) -> None:
        if self.ledger.is_alive:
            self.ledger.stop()
        self.write.dispose()
        self.read.dispose()

    def run(self, *commands: Any) -> list[Any]:
        """Submit together; outcomes, errors in their place."""
        return asyncio.run(self.ledger.submit_all(commands))

    def one(self, command: Any) -> Any:
        """Submit alone; its result or its error raised."""
        return asyncio.run(self.ledger.submit(command))

    def administer(self, command: Any, author: Author | None = None) -> Any:
        return asyncio.run(self.ledger.administer(command, author))

    def create(self, campaign_id: str, **changes: Any) -> None:
        self.administer(CreateCampaign(campaign(campaign_id, **changes)))


def campaign(campaign_id: str, **changes: Any) -> CampaignConfiguration:
    body = {
        "campaign_id": campaign_id,
        "risk": {"measure": "mean"},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
        "algorithm": {"name": "linucb"},
    }
    return resolve(CampaignConfiguration.model_validate(body | changes))


@pytest.fixture
def migrated_url(database_url: str) -> str:
    engine: Engine = create_write_engine(parse_database_url(database_url))
    migrate(engine)
    engine.dispose()
    return database_url


@pytest.fixture
def make_worker(migrated_url: str) -> Iterator[Callable[..., Worker]]:
    workers: list[Worker] = []

    def make(limits: Limits = Limits(), clock: Clock = steady_clock()) -> Worker:  # noqa: B008  # frozen
        worker = Worker(migrated_url, limits, clock)
        worker.ledger.start()
        workers.append(worker)
        return worker

    yield make
    for worker in workers:
        worker.stop()


@pytest.fixture
def worker(make_worker: Callable[..., Worker]) -> Worker:
    return make_worker()


@pytest.fixture
def small_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have old rows be replaced at once, a few at a time."""
    monkeypatch.setattr(ledger, "MAINTENANCE_SECONDS", 0.05)
    monkeypatch.setattr(compaction, "ROWS", 40)
