"""A PostgreSQL server that these tests may restart, stop and misconfigure."""

from collections.abc import Iterator

import pytest

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
