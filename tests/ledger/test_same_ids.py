"""How a decision is found by its id: in memory, by the campaign's key in the id, else in all campaigns."""

from collections.abc import Callable

import pytest

from prudent.clock import DecisionIds
from prudent.errors import ConflictError, NotFoundError
from prudent.identifiers import KEY_MAX, key_in
from prudent.ledger.commands import Activate, DeleteCampaign, Expire, Reward, Select
from prudent.ledger.outcomes import Decision
from tests.ledger.conftest import Worker
from tests.ledger.replays import faults
from tests.ledger.test_importing import begin, decisions, finish, observations
from tests.ledger.test_recent import is_look_up


def look_ups(worker: Worker) -> list[str]:
    """The statements that look for decisions, from now on: by the key of a campaign, or in all campaigns."""
    seen: list[str] = []

    def note(_cursor: object, statement: str) -> None:
        if is_look_up(statement):
            seen.append("by key" if "given" in statement or "json_extract" in statement else "anywhere")

    worker.on_statement.append(note)
    return seen


def test_an_id_of_ours_ends_with_the_key() -> None:
    """Each reward that comes late would be looked for in every partition, and on every node."""
    made = DecisionIds(lambda: 1_700_000_000_000_000, lambda count: b"\xff" * count)
    assert made(7) == "018bcfe5-6800-8000-bfff-ffff00000007"
    ids = [made(key) for key in (KEY_MAX, 1, 7)]
    assert ids == sorted(ids)
    assert [key_in(made(key)) for key in (1, 0x1234_5678, KEY_MAX)] == [1, 0x1234_5678, KEY_MAX]
    older = made(KEY_MAX + 1)
    assert (older[14], key_in(older), key_in(made())) == ("7", None, None)
    for other in ("visit-1", "s-0000020787-ec14bf23d8306c661e2c782ca25c17df", made(7).upper(), made(7) + "0"):
        assert key_in(other) is None


def test_a_late_reward_is_looked_for_in_its_campaign_only(make_worker: Callable[..., Worker]) -> None:
    """With many partitions a look into all of them costs more than everything else."""
    first = make_worker()
    first.create("c")
    ours, theirs, named = first.run(Select("c"), Select("c", "theirs"), Select("c", "named"))
    assert key_in(ours.row.decision_id) == ours.row.key
    first.stop()
    worker = make_worker()
    seen = look_ups(worker)
    assert worker.one(Reward(ours.row.decision_id, 1.0)).sequence == 1
    assert seen == ["by key"]
    assert worker.one(Reward(named.row.decision_id, 1.0, campaign_id="c")).sequence == 2
    assert seen == ["by key", "by key"]
    assert worker.one(Reward(theirs.row.decision_id, 1.0)).sequence == 3
    assert seen == ["by key", "by key", "anywhere"]


def test_an_id_that_looks_like_one_of_ours_is_found_all_the_same(worker: Worker) -> None:
    """A campaign that was exported and imported has another key than its ids say, and clients may send any id."""
    new_id = DecisionIds(lambda: 0)
    worker.create("c")
    worker.create("d")
    for key in (2, 99):
        decision_id = new_id(key)
        worker.one(Select("c", decision_id, is_deferred=True))
        assert worker.one(Reward(decision_id, 1.0)).campaign_id == "c"
    assert isinstance(worker.run(Reward(new_id(2), 1.0))[0], NotFoundError)
    assert isinstance(worker.run(Reward(new_id(99), 1.0))[0], NotFoundError)
    assert not faults(worker)


def test_an_id_of_a_campaign_that_was_deleted_and_brought_back_is_found(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until the old rows are removed, the rewards of all decisions that were made here would be refused."""
    monkeypatch.setattr(worker.ledger._maintenance, "_purge", lambda: None)
    worker.create("moved")
    ours = worker.one(Select("moved")).row
    worker.administer(DeleteCampaign("moved"))
    key = begin(worker)
    worker.administer(observations(key, range(1, 4)))
    brought = decisions(key, range(1, 4))
    again = brought.rows[2]._replace(decision_id=ours.decision_id)
    worker.administer(type(brought)(key, 4, [*brought.rows[:2], again]))
    worker.administer(finish(key, 3))
    receipt = worker.one(Reward(ours.decision_id, 1.0))
    assert (receipt.campaign_id, receipt.sequence) == ("moved", 4)


@pytest.mark.parametrize("earlier", ["remembered", "deferred", "rewarded", "of another start"])
def test_what_is_remembered_hides_no_other_campaign(make_worker: Callable[..., Worker], earlier: str) -> None:
    """A reward would be learned by the campaign that happened to decide last."""
    worker = make_worker()
    for name in ("c", "d"):
        worker.create(name, reward={"timeout_seconds": 3600.0, "default": 0.0})
    worker.one(Select("c", "x", is_deferred=earlier == "deferred"))
    if earlier == "rewarded":
        worker.one(Reward("x", 1.0))
    if earlier == "of another start":
        worker.stop()
        worker = make_worker()
    assert worker.one(Select("d", "x")).row.decision_id == "x"
    for command in (Reward("x", 1.0), Activate("x")):
        with pytest.raises(ConflictError, match="several campaigns") as refused:
            worker.one(command)
        assert refused.value.field == "campaign_id"
    assert worker.one(Reward("x", 0.5, campaign_id="d")).campaign_id == "d"
    assert worker.one(Reward("x", 1.0, campaign_id="c")).duplicate == (earlier == "rewarded")
    assert not faults(worker)


def test_the_same_id_in_one_batch(worker: Worker) -> None:
    """Selects of two campaigns share a batch by chance, and a reward may be in the same."""
    for name in ("c", "d"):
        worker.create(name, reward={"timeout_seconds": 3600.0, "default": 0.0})
    outcomes = worker.run(
        Select("c", "x", is_deferred=True),
        Reward("x", 0.25),
        Select("d", "x"),
        Reward("x", 0.5),
        Reward("x", 1.0, campaign_id="d"),
        Expire("c", "x"),
    )
    assert [type(one) for one in outcomes[:4:2]] == [Decision, Decision]
    assert outcomes[1].campaign_id == "c"
    assert isinstance(outcomes[3], ConflictError)
    assert outcomes[4].campaign_id == "d"
    assert isinstance(worker.run(Reward("x", 0.5))[0], ConflictError)
    assert not faults(worker)
