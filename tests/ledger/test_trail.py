"""The trail: who changed what, in the transaction that changed it."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from prudent.campaigns import AlgorithmChange
from prudent.errors import ConflictError, InvalidCommandError, NotFoundError
from prudent.ledger.commands import (
    AddArm,
    Author,
    ChangeArm,
    ChangeCampaign,
    Correct,
    CreateCampaign,
    CreateKey,
    DeleteCampaign,
    EraseDecisions,
    RestartCampaign,
    RevokeKey,
    Reward,
    Select,
)
from prudent.ledger.erasing import find_decisions_of
from prudent.store import trail
from prudent.store.trail import TrailRow
from tests.ledger.conftest import Worker, campaign

ANN = Author("ann", "API")
BY_HAND = Author("bob", "dashboard")


def rows(worker: Worker) -> list[TrailRow]:
    """The trail, oldest first."""
    with worker.read.connect() as connection:
        return trail.latest(connection, 100)[::-1]


def told(worker: Worker) -> list[tuple[str, str | None, Any]]:
    """What was done, to what, and how."""
    return [(row.action, row.subject, None if row.detail is None else orjson.loads(row.detail)) for row in rows(worker)]


def test_every_change_has_its_author_and_what_was_changed(make_worker: Callable[..., Worker]) -> None:
    """After an arm vanished at night, nobody could say who had retired it, or what it was before."""
    worker = make_worker()
    changes = [
        CreateCampaign(campaign("c")),
        ChangeCampaign("c", "new words", "paused", AlgorithmChange(exploration=0.5)),
        AddArm("c", "new", None, "v"),
        ChangeArm("c", "a", "retired"),
        ChangeArm("c", "new", None, "w", changes_value=True),
        DeleteCampaign("c"),
        CreateKey("eve", "reader", "", b"d" * 32, "dddd"),
        RevokeKey("eve"),
    ]
    for one in changes:
        worker.administer(one, ANN)
    assert told(worker) == [
        ("campaign created", None, None),
        (
            "campaign changed",
            None,
            {
                "status": ["active", "paused"],
                "description": ["", "new words"],
                "algorithm.exploration": [1.0, 0.5],
            },
        ),
        ("arm added", "new", None),
        ("arm changed", "a", {"status": ["active", "retired"]}),
        ("arm changed", "new", {"value": ["v", "w"]}),
        ("campaign deleted", None, None),
        ("key created", "eve", {"role": "reader"}),
        ("key revoked", "eve", None),
    ]
    found = rows(worker)
    assert {(row.author, row.via) for row in found} == {("ann", "API")}
    assert [row.campaign_id for row in found] == ["c"] * 6 + [None] * 2
    assert len({row.key for row in found[:6]}) == 1
    with worker.read.connect() as connection:
        assert len(trail.latest_of_campaign(connection, found[0].key or 0, 3)) == 3


def test_what_changes_nothing_leaves_no_trace(make_worker: Callable[..., Worker]) -> None:
    """Programs that repeat their requests would bury what people did."""
    worker = make_worker()
    worker.administer(CreateCampaign(campaign("c")))  # of nobody, as the demo is
    for one in (CreateCampaign(campaign("c")), ChangeCampaign("c", status="active"), ChangeArm("c", "a", "active")):
        worker.administer(one, ANN)
    for wrong, error in (
        (ChangeArm("c", "none", "paused"), NotFoundError),
        (AddArm("c", "a", None, "other"), ConflictError),
        (RevokeKey("nobody"), NotFoundError),
        (CreateKey("a b", "reader", "", b"x", "x"), InvalidCommandError),
    ):
        with pytest.raises(error):
            worker.administer(wrong, ANN)
    assert rows(worker) == []


def test_a_name_can_be_used_again_once_its_key_is_revoked(make_worker: Callable[..., Worker]) -> None:
    """Two valid keys of one name could not be told apart in the trail."""
    worker = make_worker()
    worker.administer(CreateKey("app", "writer", "", b"1" * 32, "1111"), ANN)
    with pytest.raises(ConflictError):
        worker.administer(CreateKey("app", "reader", "", b"2" * 32, "2222"), ANN)
    worker.administer(RevokeKey("app"), ANN)
    worker.administer(CreateKey("app", "reader", "", b"2" * 32, "2222"), ANN)
    assert [action for action, _, _ in told(worker)] == ["key created", "key revoked", "key created"]


def test_a_reward_by_hand_and_its_correction_are_noted_without_their_values(make_worker: Callable[..., Worker]) -> None:
    """A reward that somebody made up would look like a program's; what is erased would stay in the trail."""
    worker = make_worker()
    worker.create("c", assignment={"sticky_seconds": 86_400})
    ids = [worker.one(Select("c", subject=name)).row.decision_id for name in ("u", "v", "w")]
    worker.one(Reward(ids[0], 1.0))
    worker.one(Reward(ids[1], 2.0, author=BY_HAND))
    worker.one(Reward(ids[1], 2.0, author=BY_HAND))  # a repeat
    worker.administer(Correct(ids[0], 0.5, "a slip"), ANN)
    worker.administer(Correct(ids[0], 0.5, "a slip"), ANN)
    worker.administer(RestartCampaign("c", 1), ANN)
    assert told(worker) == [
        ("reward sent by hand", ids[1], None),
        ("reward corrected", ids[0], None),
        ("campaign restarted", None, {"from": 1}),
    ]
    assert rows(worker)[0].author == "bob"
    assert "0.5" not in repr(rows(worker))
    erased = find_decisions_of(worker.read.connect, "c", "v")
    worker.administer(EraseDecisions("c", erased or []), ANN)
    worker.administer(EraseDecisions("c", erased or []), ANN)
    assert told(worker)[0] == ("reward sent by hand", None, None)
    assert told(worker)[1][1] == ids[0]
    assert told(worker)[3:] == [("subject erased", None, {"decisions": 1})]
