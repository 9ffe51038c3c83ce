"""Reports, the dashboard and exports read a standby; everything else goes on on the primary."""

import asyncio
from collections.abc import Iterator

import httpx
import pytest
from sqlalchemy import Connection, text

from prudent.store.engines import create_read_engine, parse_database_url
from prudent.store.read_pool import Reader
from prudent.store.replica import Replica
from tests.conftest import MakeServer, migrate_empty
from tests.end_to_end.test_metrics import scrape
from tests.servers import ServerError
from tests.trust.clusters import Pair, ask

ROW = "(campaign_id, configuration, creation, status, revision, created_at) VALUES ('c', '', '', 'active', 1, 0)"
LAG = "Prudent-Replica-Lag"
READS = ("/campaigns/c/report", "/campaigns/c/decisions", "/campaigns/c/export", "/campaigns/c/export?format=csv")


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    made = Pair(synchronous=False)
    yield made
    made.remove()


@pytest.fixture
def database(pair: Pair) -> Iterator[tuple[str, str]]:
    """URLs of one database on the primary and on the standby."""
    url = pair.primary.create_database()
    migrate_empty(url)
    pair.wait_for_standby()
    yield url, pair.standby.url(url.rpartition("/")[2])
    pair.primary.drop_database(url)


def use(client: httpx.Client) -> None:
    body = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    body["arms"] = [{"arm_id": "a"}]
    client.post("/campaigns", json=body).raise_for_status()
    for number in range(3):
        client.post("/select", json={"campaign_id": "c", "decision_id": f"d{number}"}).raise_for_status()
        client.post("/reward", json={"decision_id": f"d{number}", "reward": 1}).raise_for_status()


def test_long_reads_are_the_standbys(make_server: MakeServer, pair: Pair, database: tuple[str, str]) -> None:
    """A report over a million rows would take the primary's processor and cache from those who wait for a decision."""
    primary, standby = database
    server = make_server(primary, environment={"PRUDENT_READ_DATABASE_URL": standby})
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        use(client)
        pair.wait_for_standby()
        ask(pair.standby.url(), "SELECT pg_wal_replay_pause()")
        try:
            client.post("/select", json={"campaign_id": "c", "decision_id": "later"}).raise_for_status()
            report = client.get("/campaigns/c/report").raise_for_status()
            assert report.json()["plays"] == 3  # the primary has four
            assert float(report.headers[LAG]) >= 0
            listed = client.get("/campaigns/c/decisions").raise_for_status().json()["items"]
            assert [one["decision_id"] for one in listed] == ["d2", "d1", "d0"]
            assert client.get("/decisions/later").json()["rewarded"] is False  # this one is read where it was written
            page = client.get("/dashboard/campaigns/c").raise_for_status().text
            assert "read from a replica" in page
            assert scrape(server.url)["prudent_replica_lag_seconds"] > 0
        finally:
            ask(pair.standby.url(), "SELECT pg_wal_replay_resume()")
        for path in READS:
            assert LAG in client.get(path).raise_for_status().headers


def test_what_was_just_written_is_waited_for(pair: Pair, database: tuple[str, str]) -> None:
    """Whoever creates a campaign on the dashboard would be led to a page that says there is none."""
    primary, standby = (create_read_engine(parse_database_url(url), may_be_standby=True) for url in database)
    near = Reader(primary)
    replica = Replica(standby, near)

    def statuses(connection: Connection) -> list[str]:
        return list(connection.execute(text("SELECT status FROM campaigns")).scalars())

    async def use_both() -> None:
        ask(pair.standby.url(), "SELECT pg_wal_replay_pause()")
        ask(database[0], f"INSERT INTO campaigns {ROW}")
        waiting = asyncio.create_task(replica.catch_up())
        try:
            done, _ = await asyncio.wait([waiting], timeout=0.5)
            assert not done
            assert await replica(statuses) == []
        finally:
            ask(pair.standby.url(), "SELECT pg_wal_replay_resume()")
        await waiting
        assert await replica(statuses) == ["active"]

    asyncio.run(use_both())
    replica.close()
    near.close()
    primary.dispose()


def test_without_a_standby_nothing_is_said_of_one(make_server: MakeServer, database: tuple[str, str]) -> None:
    """A lag of 0 would be believed."""
    server = make_server(database[0])
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        use(client)
        for path in READS:
            assert LAG not in client.get(path).raise_for_status().headers
        assert "replica" not in client.get("/dashboard/campaigns/c").raise_for_status().text
    assert "prudent_replica_lag_seconds" not in scrape(server.url)


def test_a_standby_that_is_away_takes_its_reads_with_it(make_server: MakeServer, database: tuple[str, str]) -> None:
    """A server that did not start, or decided nothing, for want of a report would be worse than no report."""
    primary, standby = database
    nowhere = standby.rpartition("/")[0].rpartition(":")[0] + ":1/none"
    server = make_server(primary, environment={"PRUDENT_READ_DATABASE_URL": nowhere})
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as client:
        use(client)
        assert client.get("/campaigns/c/report").status_code == 503
        assert client.get("/health/ready").status_code == 200
    assert "prudent_replica_lag_seconds" not in scrape(server.url)
    assert "the replica does not answer" in server.log()


def test_what_is_no_standby_of_the_database_is_refused(
    make_server: MakeServer, database: tuple[str, str], postgres_database: str, sqlite_database: str
) -> None:
    """Reports would cost the primary all the same, or be of other campaigns."""
    primary, standby = database
    migrate_empty(postgres_database)
    for url, read, message in (
        (primary, primary, "leads to a primary, not to a standby"),
        (postgres_database, standby, "leads to a standby of another server"),
        (sqlite_database, standby, "needs PostgreSQL"),
    ):
        with pytest.raises(ServerError, match=message):
            make_server(url, environment={"PRUDENT_READ_DATABASE_URL": read})
