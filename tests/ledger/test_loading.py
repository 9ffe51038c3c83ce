"""States that are loaded while other workers change what they are loaded from."""

from collections.abc import Callable

import numpy as np
from sqlalchemy import text

from prudent.ledger.commands import AddArm, DeleteCampaign, Reward, Select
from prudent.ledger.loading import load_behind
from prudent.ledger.verification import verify
from prudent.store import campaigns
from tests.ledger.conftest import Worker
from tests.ledger.statements import before_each
from tests.ledger.test_amendments import play


def test_an_arm_that_is_added_meanwhile_is_learned(make_worker: Callable[..., Worker]) -> None:
    """The campaign would be out of service for half a minute: its log names an arm that it seems not to have."""
    loader, writer = make_worker(), make_worker()
    loader.stop()
    writer.create("c")
    play(writer, "c", [1.0, 2.0, 3.0])
    added = 0

    def add() -> None:
        nonlocal added
        added += 1
        writer.administer(AddArm("c", f"new-{added}", None))
        writer.one(Select("c", f"one-{added}", chosen_arm_id=f"new-{added}"))
        writer.one(Reward(f"one-{added}", float(added)))

    for _ in before_each(loader.read, add):
        state = load_behind(loader.read, 1, None)
        assert state is not None
        ahead, anew = load_behind(writer.read, 1, state), load_behind(writer.read, 1, None)
        assert ahead is not None
        assert anew is not None
        assert ahead.sequence == anew.sequence == 3 + added
        np.testing.assert_array_equal(ahead.policy.parameters(), anew.policy.parameters())
    assert added > 3


def deleted_meanwhile(make_worker: Callable[..., Worker], read: Callable[[Worker, int], None]) -> None:
    """Read a campaign, each time a new one, that is deleted and purged before one of the statements."""
    reader, writer = make_worker(), make_worker()
    reader.stop()
    key = 0

    def delete() -> None:
        writer.administer(DeleteCampaign("c"))
        for _ in range(9):
            with writer.write.begin() as connection:
                if campaigns.purge_slice(connection, key, 2):
                    return

    for _ in before_each(reader.read, delete):
        writer.create("c")
        play(writer, "c", [1.0, 2.0, 3.0], first=100 * key)
        with writer.read.connect() as connection:
            key = connection.execute(text("SELECT max(key) FROM campaigns")).scalar_one()
        read(reader, key)
    assert key > 3


def test_a_campaign_that_is_deleted_meanwhile_is_gone(make_worker: Callable[..., Worker]) -> None:
    """The log would say that the database is another one, and the answer would be 503 in place of 404."""

    def load(reader: Worker, key: int) -> None:
        state = load_behind(reader.read, key, None)
        assert state is None or state.sequence == 3

    deleted_meanwhile(make_worker, load)


def test_a_campaign_that_is_deleted_while_it_is_verified_is_no_fault(make_worker: Callable[..., Worker]) -> None:
    """Operators would be called because somebody has deleted a campaign."""

    def check(reader: Worker, _key: int) -> None:
        assert [fault for one in verify(reader.read, deep=True) for fault in one.faults] == []

    deleted_meanwhile(make_worker, check)
