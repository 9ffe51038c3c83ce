"""What a ledger holds against a replay of its log."""

from dataclasses import asdict

from prudent.ledger.commands import Describe
from prudent.ledger.verification import verify
from tests.ledger.conftest import Worker


def faults(worker: Worker) -> list[str]:
    return [fault for verdict in verify(worker.read) for fault in verdict.faults]


def assert_live_equals_replay(worker: Worker) -> None:
    verdicts = list(verify(worker.read, lambda name: asdict(worker.one(Describe(name)))))
    assert [(one.campaign_id, one.live, one.faults) for one in verdicts] == [
        (one.campaign_id, "equal", []) for one in verdicts
    ]
    assert verdicts
