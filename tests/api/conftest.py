"""One server a database for all tests of the API: campaigns have ids of their own, so that none meets another."""

from collections.abc import Iterator

import httpx
import pytest

from tests.api.contract import Json, create, disjoint, ok, select, shared
from tests.conftest import migrate_empty
from tests.servers import Postgres, Server


@pytest.fixture(scope="session")
def postgres_server(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service on PostgreSQL, for the tests of the API; unlike SQLite's, its ledger is a process of its own."""
    url = postgres.create_database()
    migrate_empty(url)
    shared = Server(url, tmp_path_factory.mktemp("postgres-server") / "server.log", workers=2)
    shared.start()
    yield shared
    shared.stop()
    postgres.drop_database(url)


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def api_server(request: pytest.FixtureRequest) -> Server:
    """The shared server on either database."""
    found: Server = request.getfixturevalue("server" if request.param == "sqlite" else "postgres_server")
    return found


@pytest.fixture(scope="session")
def api(api_server: Server) -> Iterator[httpx.Client]:
    """A client of the service, once on SQLite and once on PostgreSQL."""
    with httpx.Client(base_url=api_server.url, timeout=30, trust_env=False, verify=False) as opened:  # noqa: S501 (plain HTTP)
        yield opened


@pytest.fixture(scope="module")
def target(api: httpx.Client) -> Iterator[Json]:
    """A shared and a disjoint campaign, each with a decision that waits for its reward."""
    one, other = create(api, shared()), create(api, disjoint(reward={"maximum": 100}))
    yield {
        "shared": one,
        "disjoint": other,
        "decision": select(api, one)["decision_id"],
        "other_decision": select(api, other, context=[1, 2])["decision_id"],
    }
    ok(api.post("/select", json={"campaign_id": one}))  # still in service, and nothing of it was used up
