"""A PostgreSQL server that these tests may restart, stop and misconfigure."""

from collections.abc import Iterator

import pytest
import structlog

from tests.ledger.conftest import make_worker, migrated_url, worker  # noqa: F401  # fixtures
from tests.servers import Postgres


@pytest.fixture(scope="session")
def lone_postgres() -> Iterator[Postgres]:
    """Nobody else's; each test leaves it running."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def lone_database(lone_postgres: Postgres) -> Iterator[str]:
    """URL of a new, empty database there."""
    url = lone_postgres.create_database()
    yield url
    lone_postgres.drop_database(url)


@pytest.fixture(autouse=True, scope="session")
def _plain_logs() -> Iterator[None]:
    """Tracebacks as text: the coloured ones of a development console take half a second each."""
    processors = [structlog.processors.add_log_level, structlog.processors.format_exc_info]
    structlog.configure(processors=[*processors, structlog.processors.KeyValueRenderer()])
    yield
    structlog.reset_defaults()
