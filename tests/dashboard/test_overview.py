"""What a page reads has a bound, is remembered for a moment, and is shown as people write it."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from sqlalchemy import Engine

from prudent.core.measures import Expectile
from prudent.dashboard import arms, charts, formatting
from prudent.dashboard.overview import Overview, read_overview, trailing_shares
from prudent.dashboard.queries import CACHED_MAX, COSTLY, SECONDS_MAX, Cache
from prudent.store import reports
from prudent.store.engines import create_read_engine, parse_database_url
from prudent.store.log import Counts
from prudent.store.reports import PlayRow
from tests.conftest import MakeServer

ARMS = [{"arm_id": "a"}, {"arm_id": "b"}]
CAMPAIGN = {
    "campaign_id": "c",
    "risk": {"measure": "expectile", "level": 0.1},
    "model": {"type": "multi-armed"},
    "arms": ARMS,
}
OBSERVATIONS, DECISIONS = 2_000, 300


@pytest.fixture
def engine(make_server: MakeServer, database_url: str) -> Iterator[Engine]:
    """Reads of a database with a campaign of some length."""
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        http.post("/campaigns", json=CAMPAIGN).raise_for_status()
        for start in range(0, OBSERVATIONS, 1_000):
            items = [{"arm_id": "ab"[n % 2], "reward": n} for n in range(start, start + 1_000)]
            http.post("/campaigns/c/observations", json={"items": items}).raise_for_status()
        selects = [{"campaign_id": "c", "decision_id": f"d{n:03d}"} for n in range(DECISIONS)]
        http.post("/select/batch", json={"items": selects}).raise_for_status()
        rewards = [{"decision_id": f"d{n:03d}", "reward": 1} for n in range(0, DECISIONS, 3)]
        http.post("/reward/batch", json={"items": rewards}).raise_for_status()
    opened = create_read_engine(parse_database_url(database_url))
    yield opened
    opened.dispose()


def look(engine: Engine) -> Overview:
    """The campaign, as the page reads it."""
    with engine.connect() as connection:
        found = read_overview(connection, "c")
    assert found is not None
    return found


def test_all_of_a_short_campaign_is_read(engine: Engine) -> None:
    """Numbers that leave something out would not be those of the report."""
    campaign = look(engine)
    assert campaign.decisions == len(campaign.plays) == DECISIONS
    assert campaign.waiting == DECISIONS * 2 // 3
    assert campaign.rewards_read == campaign.row.head == OBSERVATIONS + DECISIONS // 3
    assert [one.decision_id for one, _ in campaign.recent] == [
        f"d{n:03d}" for n in range(DECISIONS - 1, DECISIONS - 101, -1)
    ]
    assert campaign.all_plays_read
    assert campaign.sequences.tolist() == list(range(1, campaign.row.head + 1))
    assert campaign.rewards_in_order[:3].tolist() == [0.0, 1.0, 2.0]
    per_arm = arms.arm_reports(campaign)
    assert sum(one.plays for one in per_arm) == DECISIONS
    assert charts.shares(campaign) is not None
    assert charts.rewards(campaign, arms.arm_lines(campaign, per_arm, None), Expectile(0.25)) is not None


def test_only_rewards_count_as_rewards(make_server: MakeServer, database_url: str) -> None:
    """One reward that was corrected twice would be three rewards, and three that wait."""
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        http.post("/campaigns", json=CAMPAIGN).raise_for_status()
        for name in ("d", "e"):
            http.post("/select", json={"campaign_id": "c", "decision_id": name}).raise_for_status()
        http.post("/reward", json={"decision_id": "d", "reward": 1}).raise_for_status()
        http.patch("/campaigns/c", json={"algorithm": {"forgetting": {"half_life": 100}}}).raise_for_status()
        http.patch("/campaigns/c", json={"status": "paused"}).raise_for_status()
        http.post("/reward", json={"decision_id": "e", "reward": 1}).raise_for_status()
        for value in (2, None):
            correction = {"reward": value, "reason": "mistyped"}
            http.post("/decisions/d/correction", json=correction).raise_for_status()
        listed = http.get("/").text
    opened = create_read_engine(parse_database_url(database_url))
    campaign = look(opened)
    opened.dispose()
    assert campaign.row.head == 5
    assert (campaign.counts, campaign.unlearned) == (Counts(2, 2), Counts(1, 2))
    assert "<dt>rewards</dt><dd>2</dd>" in listed


def test_a_long_campaign_is_read_from_all_over_its_log(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A million rewards would hold the server up, or the chart would show the first of them alone."""
    monkeypatch.setattr(reports, "REWARDS_MAX", 200)
    monkeypatch.setattr(reports, "REWARD_BLOCKS", 20)
    monkeypatch.setattr("prudent.dashboard.overview.PLAYS_MAX", 50)
    with engine.connect() as connection:
        key, head = look(engine).row.key, OBSERVATIONS
        sample = reports.sample_rewards(connection, key, 1, head)
        assert len(reports.newest_plays(connection, key, 50)) == 50
    assert len(sample) == 200
    sequences = [row.sequence for row in sample]
    assert sequences == sorted(set(sequences))
    assert sequences[0] == 1
    assert max(np.diff(sequences)) <= head / 20
    assert sequences[-1] > head - head / 20


def test_shares_are_of_the_decisions_before() -> None:
    """The curve would begin late, or never show a change."""
    plays = [PlayRow(n, str(n), "ab"[n >= 30], None, None, None) for n in range(100)][::-1]
    places, shares = trailing_shares(plays, ["a", "b"], 200)
    assert places == list(range(100))
    assert shares[0].tolist() == [1.0, 0.0]
    assert shares[29].tolist() == [1.0, 0.0]
    assert shares[34].tolist() == [0.5, 0.5]  # of the newest ten
    assert shares[99].tolist() == [0.0, 1.0]
    assert len(trailing_shares(plays, ["a"], 7)[0]) == 7


class Maker:
    """Something that takes a time to make, on a clock of its own."""

    def __init__(self, seconds: float) -> None:
        self.now, self.seconds, self.made = 0.0, seconds, 0
        self.kept = Cache(lambda: self.now)

    async def make(self) -> int:
        await asyncio.sleep(0)
        self.now += self.seconds
        self.made += 1
        return self.made

    def get(self, *stamps: Any, name: str = "name") -> list[int]:
        async def run() -> list[int]:
            return list(await asyncio.gather(*(self.kept.get(name, stamp, self.make) for stamp in stamps)))

        return asyncio.run(run())


def test_what_has_not_changed_is_not_read_again() -> None:
    """A hundred open pages would cost a hundred times as much as one."""
    maker = Maker(seconds=1.0)
    assert maker.get(*["same"] * 100) == [1] * 100
    maker.now += 1e6
    assert maker.get("same") == [1]
    maker.now += COSTLY - 1
    assert maker.get("other") == [2]


def test_what_is_costly_is_read_less_often_and_never_old() -> None:
    """A large campaign would be read without a pause; or its page would stand still."""
    maker = Maker(seconds=1.0)
    assert maker.get("one") == [1]
    maker.now += COSTLY - 0.5
    assert maker.get("two") == [1]
    maker.now += 1
    assert maker.get("two") == [2]
    slow = Maker(seconds=1_000.0)
    assert slow.get("one") == [1]
    slow.now += SECONDS_MAX
    assert slow.get("two") == [2]
    for number in range(2 * CACHED_MAX):
        slow.get("stamp", name=str(number))
    assert slow.get("two") == [3 + 2 * CACHED_MAX]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "\N{EN DASH}"),
        (float("nan"), "\N{EN DASH}"),
        (0.0, "0"),
        (0.1, "0.100"),
        (-1.0, "\N{MINUS SIGN}1.00"),
        (1234.5, "1,234"),
        (1234567.0, "1,234,567"),
        (1.5e9, "1.50e+09"),
        (0.00012345, "0.000123"),
        (2e-7, "2.00e\N{MINUS SIGN}07"),
    ],
)
def test_numbers_as_people_write_them(value: float | None, text: str) -> None:
    """0.30000000000000004 decisions."""
    assert formatting.number(value) == text


@pytest.mark.parametrize(
    ("largest", "value", "text"),
    [
        (0.0, 0.5, "0.500"),
        (1.0, -0.5, "\N{MINUS SIGN}0.500"),
        (1e9, 123456789.4, "123,456,789"),
        (1e-4, 2.5e-5, "0.0000250"),
        (1e-11, 2.5e-12, "2.50e\N{MINUS SIGN}12"),
        (1.0, None, "\N{EN DASH}"),
    ],
)
def test_a_column_shows_digits_whatever_the_unit(largest: float, value: float | None, text: str) -> None:
    """Rewards counted in a very small unit would all be shown as 0.00000000."""
    assert formatting.fixed(value, formatting.decimals_for(largest)) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(None, "\N{EN DASH}"), (0.0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1.0, "100%")],
)
def test_shares_as_people_write_them(share: float | None, text: str) -> None:
    """An arm that is still tried now and then would be said to be at 0%."""
    assert formatting.percent(share) == text
