"""What a report counts, read page by page from real tables."""

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.reporting import collection
from prudent.reporting.collection import Collection, collect
from prudent.reporting.report import report
from prudent.store import campaigns, decisions, log
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from prudent.store.tables import DecisionRow, LogRow
from tests.databases import migrate

CONFIGURATION = resolve(
    CampaignConfiguration.model_validate(
        {
            "campaign_id": "counted",
            "risk": {"measure": "mean"},
            "model": {"type": "shared", "dimension": 1},
            "arms": [{"arm_id": "a"}, {"arm_id": "b"}],
        }
    )
)


class Tables:
    """A database with one campaign, whose rows the tests write themselves."""

    def __init__(self, database_url: str) -> None:
        url = parse_database_url(database_url)
        self.write: Engine = create_write_engine(url)
        self.read: Engine = create_read_engine(url)
        migrate(self.write)
        self.opened = 0
        text = CONFIGURATION.model_dump_json()
        with self.write.begin() as connection:
            values = {"configuration": text, "creation": text, "status": "active", "revision": 1, "created_at": 0}
            self.key = campaigns.insert_campaign(connection, {"campaign_id": "counted", **values})
            arms = [campaigns.ArmRow(self.key, n, name, "active", None, 0) for n, name in enumerate("ab")]
            campaigns.insert_arms(connection, arms)

    def decide(self, made: list[tuple[str, str, int]]) -> None:
        """Decisions (id, arm, when)."""
        rows = [
            DecisionRow(id_, self.key, arm, b"", 0, 0, 0, "index", arm, None, 1, 0, None, None, when, None)
            for id_, arm, when in made
        ]
        with self.write.begin() as connection:
            decisions.insert_decisions(connection, rows)

    def learn(self, rewarded: list[tuple[str | None, str, float]]) -> None:
        """Log rows (decision id, arm, reward)."""
        with self.write.begin() as connection:
            head = campaigns.read_standings(connection, [self.key])[self.key].head
            rows = [
                LogRow(self.key, head + n, "observation", id_, None, arm, b"", value, "reward", None, 0)
                for n, (id_, arm, value) in enumerate(rewarded, 1)
            ]
            log.append(connection, rows)
            campaigns.set_heads(connection, {self.key: head + len(rows)})

    def collect(self) -> Collection:
        def connect() -> object:
            self.opened += 1
            return self.read.connect()

        found = collect(connect, "counted", lambda: 0)  # type: ignore[arg-type]  # a Connection
        assert found is not None
        return found


@pytest.fixture
def tables(database_url: str) -> Iterator[Tables]:
    made = Tables(database_url)
    yield made
    made.write.dispose()
    made.read.dispose()


def test_pages(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report of more than one page would count a decision twice or not at all, most easily among equal times."""
    monkeypatch.setattr(collection, "PAGE_ROWS", 7)
    tables.decide([(f"d{n:03}", "ab"[n % 2], n // 10) for n in range(100)])
    tables.learn([(f"d{n:03}", "ab"[n % 2], n) for n in range(0, 100, 3)])
    found = tables.collect().tallies.by_arm
    assert [found[name].plays for name in "ab"] == [50, 50]
    assert [found[name].pending for name in "ab"] == [33, 33]
    for name in "ab":
        assert list(found[name].rewards) == [n for n in range(0, 100, 3) if "ab"[n % 2] == name]
    # a connection a page: 15 of decisions, 5 of the log, the first and the last look
    assert tables.opened == 22


def test_picture_of_one_moment(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rewards that arrive while a report is read would be in one of its numbers and not in the other."""
    tables.decide([("d1", "a", 1), ("d2", "a", 2)])
    tables.learn([("d1", "a", 1.0)])
    original = collection.reports.read_rewards

    def read_rewards(*arguments: object) -> object:
        page = original(*arguments)  # type: ignore[arg-type]
        monkeypatch.setattr(collection.reports, "read_rewards", original)
        tables.learn([("d2", "a", 2.0)])
        tables.decide([("d3", "a", 3)])
        return page

    monkeypatch.setattr(collection.reports, "read_rewards", read_rewards)
    tally = tables.collect().tallies.by_arm["a"]
    assert (len(tally.rewards), tally.plays, tally.pending) == (1, 2, 1)
    tally = tables.collect().tallies.by_arm["a"]
    assert (len(tally.rewards), tally.plays, tally.pending) == (2, 3, 1)


def test_arms_without_number(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that bring a new arm each would fill the memory of whoever reports on them."""
    monkeypatch.setattr(collection, "UNREGISTERED_MAX", 3)
    tables.decide([(f"d{n}", f"new-{n}", n) for n in range(8)])
    tables.learn([(f"d{n}", f"new-{n}", 1.0) for n in (7, 5)])
    found = report(tables.read.connect, "counted", lambda: 0, None)
    assert found is not None
    assert [arm.arm_id for arm in found.arms] == ["a", "b", "new-7", "new-5", "new-0"]
    assert (found.plays, found.unlisted) == (8, {"plays": 5, "rewards": 0})


def test_campaign_that_goes(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> None:
    """A campaign that is deleted while it is read would be reported with what is left of its rows."""
    tables.learn([(None, "a", 1.0)])
    original = collection.reports.read_rewards

    def read_rewards(*arguments: object) -> object:
        with tables.write.begin() as connection:
            campaigns.update_campaign(connection, tables.key, {"campaign_id": None, "status": "deleted"})
        return original(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(collection.reports, "read_rewards", read_rewards)
    assert collect(tables.read.connect, "counted", lambda: 0) is None
