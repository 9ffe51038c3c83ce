"""Old rows of a log give way to a snapshot, and nothing that is learned or said afterwards is another."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from sqlalchemy import event, text
from structlog.testing import capture_logs

from prudent.campaigns import AlgorithmChange, build_policy, stored
from prudent.core.snapshot import FORMAT_VERSION
from prudent.errors import InvalidCommandError, NotFoundError
from prudent.ledger import compaction
from prudent.ledger.amendments import begin
from prudent.ledger.commands import ChangeCampaign, Correct, Observe, RestartCampaign, Reward, Select, WarmStart
from prudent.ledger.loading import Held, report_losses
from prudent.ledger.verification import verify
from prudent.settings import Limits
from prudent.store import log, retention
from tests.fixtures.make_snapshots import DIRECTORY
from tests.fixtures.make_snapshots import KINDS as EVERY_KIND
from tests.ledger.compacted import KEPT, KINDS, age, assert_sound, beginning, rows_of, tidy
from tests.ledger.conftest import Worker
from tests.ledger.test_amendments import learned, play
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("small_rounds")


@pytest.mark.parametrize("kind", KINDS)
def test_it_learns_on_as_if_all_rows_were_there(make_worker: Callable[..., Worker], kind: str) -> None:
    """A campaign would choose otherwise because its disk was small."""
    rng = np.random.default_rng(3)
    rewards = rng.normal(size=300).round(3).tolist()
    worker = make_worker()
    worker.create("short", **KINDS[kind], **KEPT)
    worker.create("whole", **KINDS[kind])
    for name in ("short", "whole"):
        play(worker, name, rewards[:200])
    worker.stop()
    age(worker, "short", 150)
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 150)
    assert rows_of(worker, "short") == 51
    for name in ("short", "whole"):
        play(worker, name, rewards[200:250], first=200)
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)
    worker.stop()
    worker = make_worker(Limits(snapshot_observations=20))  # from the log
    for name in ("short", "whole"):
        play(worker, name, rewards[250:], first=250)
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)
    worker.stop()
    worker = make_worker()  # from its last snapshot
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)


def test_rewards_that_were_replaced_count_as_rewards(make_worker: Callable[..., Worker]) -> None:
    """The dashboard would show fewer rewards each day, or one too few."""
    worker = make_worker()
    worker.create("short", **KINDS["ridge"], **KEPT)
    play(worker, "short", [1.0, 2.0, 3.0, 4.0])
    worker.stop()
    age(worker, "short", 3)
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 3)
    with worker.read.connect() as connection:
        key = connection.execute(text("SELECT key FROM campaigns WHERE campaign_id = 'short'")).scalar_one()
        assert log.count_rewards(connection, key, 0, 4) == log.Counts(4, 0)


def test_what_was_amended_stays_amended(make_worker: Callable[..., Worker]) -> None:
    """A corrected reward would count as the wrong one again, or a setting be forgotten with its row."""
    changes = {"risk": {"measure": "expectile", "level": 0.2}, "algorithm": {"name": "linucb-cr", "exact_until": 500}}
    rewards = np.random.default_rng(5).normal(size=200).round(3).tolist()
    worker = make_worker()
    worker.create("short", **changes, **KEPT)
    worker.create("whole", **changes)
    for name in ("short", "whole"):
        play(worker, name, rewards[:100])
        worker.administer(Correct(f"{name}-10", 9.0, "typing error"))
        worker.administer(ChangeCampaign(name, algorithm=AlgorithmChange(exact_until=60)))
        play(worker, name, rewards[100:150], first=100)
        worker.administer(Correct(f"{name}-20", None, "a test"))
    worker.stop()
    age(worker, "short", 140)
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 140)
    for name in ("short", "whole"):
        play(worker, name, rewards[150:], first=150)
        worker.administer(Correct(f"{name}-199", 2.0, "typing error"))
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)


def test_what_has_gone_cannot_be_asked_for(make_worker: Callable[..., Worker]) -> None:
    """A late reward would be learned twice, or an old one corrected that is not there to be found."""
    worker = make_worker()
    for name in ("short", "whole"):
        worker.create(name, **(KEPT if name == "short" else {}))
        play(worker, name, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    worker.stop()
    age(worker, "short", 4)
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 4)
    for late in (
        Reward("short-0", 1.0),
        Reward("short-0", 1.0, campaign_id="short"),
        Reward("short-0", 7.0, campaign_id="short"),
    ):
        with pytest.raises(NotFoundError, match="no such decision"):
            worker.one(late)
    with pytest.raises(NotFoundError, match="no such decision"):
        worker.administer(Correct("short-0", 7.0, "late", campaign_id="short"))
    assert worker.one(Reward("short-5", 6.0)).duplicate
    for first in (1, 4):
        with pytest.raises(InvalidCommandError, match="must be at least 5") as refused:
            worker.administer(RestartCampaign("short", first))
        assert refused.value.field == "from"
    for name in ("short", "whole"):
        worker.administer(RestartCampaign(name, 5))
        play(worker, name, [7.0], first=6)
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)


def test_a_worker_that_lags_behind_goes_on(make_worker: Callable[..., Worker]) -> None:
    """It would take the shorter log for that of another database, and forget everything."""
    rewards = np.random.default_rng(6).normal(size=130).round(3).tolist()
    one = make_worker()
    one.create("short", **KEPT)
    one.create("whole")
    for name in ("short", "whole"):
        play(one, name, rewards[:100])
    one.stop()
    age(one, "short", 100)
    lagging = make_worker()
    lagging.administer(ChangeCampaign("short", log_retention_days=0))
    assert np.isfinite(learned(lagging, "short")).all()  # held, at a row that will go
    lagging.administer(ChangeCampaign("short", log_retention_days=10))
    wait_for(lambda: beginning(lagging, "short") == 100)
    other = make_worker()
    for name in ("short", "whole"):
        play(other, name, rewards[100:], first=100)
    for worker in (lagging, other):
        np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
        assert_sound(worker)
    # as after a failover, once everything was forgotten
    assert lagging.metrics.registry.get_sample_value("prudent_batch_reruns_total") == 0


def test_what_only_the_log_says_stays(make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch) -> None:
    """An exact estimator would lose what it is computed from; a paused campaign what it has not learned yet."""
    monkeypatch.setattr(compaction, "REST_SECONDS", 0.0)
    worker = make_worker()
    exact = {"risk": {"measure": "expectile", "level": 0.2}, "algorithm": {"name": "linucb-cr", "exact_until": 30}}
    for name, changes in (("exact", exact), ("paused", {}), ("kept", {}), ("damaged", {})):
        worker.create(name, **changes, **KEPT)
        play(worker, name, [float(n % 5) for n in range(20)])
    worker.administer(ChangeCampaign("paused", status="paused"))
    worker.administer(ChangeCampaign("kept", log_retention_days=0))
    worker.stop()
    for name in ("exact", "paused", "kept", "damaged"):
        age(worker, name, 20)
    with worker.write.begin() as connection:
        connection.execute(text("UPDATE observations SET reward = 7 WHERE decision_id = 'damaged-3'"))
    worker = make_worker()
    worker.create("other", **KEPT)
    play(worker, "other", [1.0, 2.0])
    worker.stop()
    age(worker, "other", 1)
    worker = make_worker()
    wait_for(lambda: beginning(worker, "other") == 1)
    assert [rows_of(worker, name) for name in ("exact", "paused", "kept", "damaged")] == [20] * 4
    worker.administer(ChangeCampaign("paused", status="active"))
    play(worker, "exact", [1.0] * 12, first=20)
    wait_for(lambda: beginning(worker, "paused") == 20)
    assert beginning(worker, "exact") == 0  # the twelve rows are not old


def test_observations_from_elsewhere_are_as_old_as_what_follows(make_worker: Callable[..., Worker]) -> None:
    """They say when they were made. One of last year, sent again a minute later, would be learned twice."""
    worker = make_worker()
    worker.create("short", **KEPT)
    worker.create("whole")
    made = [WarmStart("a", float(n), observation_id=f"o{n}", observed_at=1_000 + n) for n in range(5)]
    for name in ("short", "whole"):
        worker.one(Observe(name, made))
        play(worker, name, [1.0, 2.0, 3.0])
        worker.one(Observe(name, [WarmStart("b", 0.5, observation_id="last", observed_at=1_000)]))
    worker.stop()
    worker = make_worker()
    time.sleep(0.5)  # some rounds
    receipt = worker.one(Observe("short", made))
    assert (receipt.accepted, receipt.duplicates) == (0, 5)
    worker.stop()
    age(worker, "short", 7)  # the first observations, and two of the rewards
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 7)
    time.sleep(0.5)
    assert beginning(worker, "short") == 7
    np.testing.assert_array_equal(learned(worker, "short"), learned(worker, "whole"))
    assert_sound(worker)


def test_rows_that_come_while_old_ones_are_looked_for_are_young(make_worker: Callable[..., Worker]) -> None:
    """Between two queries a log can grow: rewards of this second would be replaced, and sent again be learned twice."""
    worker = make_worker()
    worker.create("short", **KEPT)
    other = make_worker()
    came = []

    def play_first(*_: Any) -> None:
        if not came:
            came.append(True)
            return
        if len(came) == 1:
            came.append(True)
            play(other, "short", [1.0, 2.0])

    with worker.read.connect() as connection:
        event.listen(connection, "before_cursor_execute", play_first)
        assert retention.find_old_rows(connection, 1, 0, 0, 10**18) == 0
    assert len(came) == 2
    with worker.read.connect() as connection:
        assert retention.find_old_rows(connection, 1, 0, 2, 10**18) == 2
        assert retention.find_old_rows(connection, 1, 0, 2, 1) == 0


def test_an_amendment_on_the_way_is_not_lost(
    make_worker: Callable[..., Worker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A correction that comes while the snapshot is computed would be of a row that has just gone."""
    worker = make_worker()
    worker.create("short", retention_days=10, log_retention_days=10)
    worker.create("whole")
    for name in ("short", "whole"):
        play(worker, name, [1.0, 2.0, 3.0, 4.0])
    worker.stop()
    age(worker, "short", 3)
    begin_with, came = log.begin_with, []

    def correct_first(row: log.LogRow, state: dict[str, Any]) -> log.LogRow:
        if not came:
            came.append(other.administer(Correct("short-1", 9.0, "just now", campaign_id="short")))
        return begin_with(row, state)

    other = make_worker()
    other.administer(ChangeCampaign("short", log_retention_days=0))
    monkeypatch.setattr(compaction.log, "begin_with", correct_first)
    other.administer(ChangeCampaign("short", log_retention_days=10))
    other.administer(Correct("whole-1", 9.0, "just now"))
    wait_for(lambda: beginning(other, "short") == 3)
    assert came
    np.testing.assert_array_equal(learned(other, "short"), learned(other, "whole"))
    assert_sound(other)


def test_rows_that_go_while_a_log_is_verified_are_no_fault(make_worker: Callable[..., Worker]) -> None:
    """Operators would be called because the service has tidied up."""
    worker = make_worker()
    worker.create("short", **KEPT)
    play(worker, "short", [1.0] * 60)
    worker.stop()
    statements = 0

    def compact_first(*_: Any) -> None:
        nonlocal statements
        statements -= 1
        if statements == 0:
            tidy(worker)

    event.listen(worker.read, "before_cursor_execute", compact_first)
    for before in range(1, 60):  # the statement of the verification before which rows go
        age(worker, "short", before + 1)
        statements = before
        (verdict,) = verify(worker.read, deep=True)
        if statements > 0:
            break
        assert (verdict.faults, verdict.digest) == ([], "unbroken"), before
    statements = 0
    assert beginning(worker, "short") == before > 10


def test_a_fault_is_told_although_rows_go_while_a_log_is_verified(make_worker: Callable[..., Worker]) -> None:
    """Whoever verifies it again for ever tells nobody."""
    worker = make_worker()
    worker.create("short", **KEPT)
    play(worker, "short", [1.0] * 9)
    worker.stop()
    with worker.write.begin() as connection:
        connection.execute(text("DELETE FROM observations WHERE sequence = 5"))

    def change(*_: Any) -> None:
        with worker.write.begin() as connection:
            connection.execute(text("UPDATE campaigns SET revision = revision + 1"))

    for changes in (False, True):
        if changes:
            event.listen(worker.read, "before_cursor_execute", change)
        (verdict,) = verify(worker.read)
        assert "the log should be 1 to 9, but has 8 rows" in verdict.faults[0]
        assert ("verify it again" in verdict.faults[-1]) == changes


def test_what_was_replaced_is_not_reported_as_lost(make_worker: Callable[..., Worker]) -> None:
    """After each restart of the database, operators would look for rewards that nobody has lost."""
    worker = make_worker()
    worker.create("short", **KEPT)
    play(worker, "short", [1.0, 2.0, 3.0])
    worker.stop()
    age(worker, "short", 3)
    with worker.read.connect() as connection:
        last = log.fold_row(log.read_rows(connection, 1, 2, 3, 1)[0])
    worker = make_worker()
    wait_for(lambda: beginning(worker, "short") == 3)
    worker.ledger.stop()  # whose threads use the connections that are given up
    with capture_logs() as written:
        report_losses(worker.read, Held("before", [(1, "short", last)], []))
        report_losses(worker.read, Held("before", [(1, "short", last._replace(sequence=4))], []))
    assert [one["rewards_lost"] for one in written if "rewards_lost" in one] == [0, 1]


@pytest.mark.parametrize("file", sorted(DIRECTORY.glob("*.ndjson")), ids=lambda file: file.stem)
def test_a_snapshot_of_any_version_can_be_read(file: Path) -> None:
    """After an upgrade, a campaign whose log begins with one could not be loaded any more, and nothing else is left."""
    found = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    assert {one["kind"] for one in found} == set(EVERY_KIND)
    for one in found:
        creation = stored(orjson.dumps(one["creation"]).decode())
        policy = build_policy(creation, creation, arms=2)
        begin(policy, one["snapshot"])
        policy.refresh()
        np.testing.assert_allclose(policy.parameters(), one["parameters"], rtol=1e-9, err_msg=one["kind"])
    assert (DIRECTORY / f"{FORMAT_VERSION}.ndjson").exists()


def test_a_database_stops_growing(make_worker: Callable[..., Worker]) -> None:
    """Shown by rows on both databases, and on SQLite by the pages of the file that are in use, but for the snapshot's.

    The snapshot grows by eight bytes a reward until the centre has been taken for good, at 65,536.
    """
    worker = make_worker(Limits(snapshot_observations=50))
    worker.create("short", retention_days=10, log_retention_days=10)
    rows, pages = [], []
    for day in range(1, 7):
        play(worker, "short", [float(n % 7) for n in range(200)], first=200 * (day - 1))
        worker.stop()
        age(worker, "short", 200 * day)
        worker = make_worker(Limits(snapshot_observations=50))
        wait_for(lambda worker=worker, day=day: beginning(worker, "short") == 200 * day)  # type: ignore[misc]
        wait_for(lambda worker=worker: _count(worker, "SELECT count(*) FROM decisions") == 0)  # type: ignore[misc]
        rows.append(rows_of(worker, "short"))
        if worker.write.dialect.name == "sqlite":
            used = "page_count - freelist_count - (SELECT length(detail) / page_size FROM observations)"
            pragmas = "pragma_page_count, pragma_freelist_count, pragma_page_size"
            pages.append(_count(worker, f"SELECT {used} FROM {pragmas}"))  # noqa: S608  # our own names
    assert rows == [1] * 6
    assert not pages or max(pages) <= pages[0] + 1
    assert worker.one(Select("short")).row.arm_id in {"a", "b"}
    assert_sound(worker)


def _count(worker: Worker, statement: str) -> int:
    with worker.read.connect() as connection:
        return int(connection.execute(text(statement)).scalar_one())
