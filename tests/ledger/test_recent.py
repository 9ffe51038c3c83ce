"""Decisions remembered until their rewards come: bounded, and never believed after their campaign's end."""

from collections.abc import Callable

import pytest

from prudent.errors import NotFoundError
from prudent.ledger.commands import DeleteCampaign, Reward, Select
from prudent.ledger.outcomes import Decision, RewardReceipt
from prudent.store.decisions import ROW_BYTES, RecentDecisions
from prudent.store.tables import DecisionRow

from .conftest import Worker


def row(decision_id: str, features: bytes = b"", explanation: str | None = None) -> DecisionRow:
    numbers = (0.0, 0.0, 0.0)
    return DecisionRow(decision_id, 1, "a", features, *numbers, "index", "a", None, 1.0, 0, None, explanation, 0, None)


def test_the_oldest_go_when_there_is_no_room() -> None:
    """Decisions that are never rewarded would fill the memory."""
    recent = RecentDecisions(3 * ROW_BYTES)
    recent.keep([row("a"), row("b"), row("c")])
    recent.keep([row("a"), row("d")])
    assert sorted(recent.find(["a", "b", "c", "d"])) == ["a", "c", "d"]
    recent.forget(["a", "unknown"])
    recent.keep([row("e", bytes(ROW_BYTES))])
    assert sorted(recent.find("acde")) == ["d", "e"]
    assert len(recent) == 2


def test_explanations_take_room() -> None:
    """One may be a hundred times as long as the rest of its decision: the bound would hold a hundredth of it."""
    recent = RecentDecisions(3 * ROW_BYTES)
    recent.keep([row("a"), row("b", explanation="x" * 2 * ROW_BYTES)])
    assert sorted(recent.find("ab")) == ["b"]
    recent.forget("b")
    recent.keep([row("c"), row("d"), row("e")])
    assert len(recent) == 3


def statements(worker: Worker) -> list[str]:
    seen: list[str] = []
    worker.on_statement.append(lambda _cursor, statement: seen.append(statement))
    return seen


def is_look_up(statement: str) -> bool:
    return statement.startswith("SELECT") and "decisions.explanation" in statement


def test_a_reward_does_not_read_its_decision_back(worker: Worker) -> None:
    """It is half of a reward's time; and a rewarded decision must make room."""
    worker.create("c")
    chosen = worker.one(Select("c"))
    seen = statements(worker)
    assert isinstance(worker.one(Reward(chosen.row.decision_id, 1.0)), RewardReceipt)
    assert not [one for one in seen if is_look_up(one)]
    assert len(worker.ledger._recent) == 0
    assert worker.one(Reward(chosen.row.decision_id, 1.0)).duplicate
    assert [one for one in seen if is_look_up(one)]


def test_a_decision_is_forgotten_with_its_campaign(make_worker: Callable[..., Worker]) -> None:
    """Its id may be given to another campaign, on another worker: that decision's reward must be learned."""
    worker = make_worker()
    other = make_worker() if worker.write.dialect.name == "postgresql" else worker
    worker.create("c")
    worker.run(Select("c", "mine"), Select("c", "gone"))
    other.administer(DeleteCampaign("c"))
    with pytest.raises(NotFoundError):
        worker.one(Reward("gone", 1.0))
    other.create("d")
    assert isinstance(other.one(Select("d", "mine")), Decision)
    receipt = worker.one(Reward("mine", 1.0))
    assert (receipt.campaign_id, receipt.sequence) == ("d", 1)
