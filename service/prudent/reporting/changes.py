"""What the alarm found: which arm's rewards have changed, since when, by how much, and what can be done about it."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection

from prudent.errors import CommandError, UnavailableError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Describe
from prudent.ledger.outcomes import ArmChange, ModelReport
from prudent.store import log

LOOKED_AT = 100
"""Rows of the log, from one on that may have gone, for one that says when it was observed."""


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """A change of an arm's rewards, with when its first row and that of the alarm were observed; microseconds."""

    arm_id: str | None
    since: int
    since_at: int
    raised: int
    raised_at: int
    size: float
    spread: float
    stands: bool
    sentence: str


async def model_of(ledger: LedgerAccess, campaign_id: str) -> ModelReport | None:
    """What the campaign's model says of itself; None where it cannot be asked."""
    try:
        model: ModelReport = await ledger.submit(Describe(campaign_id))
    except (CommandError, UnavailableError):
        return None  # the report says so
    return model


def describe_changes(connection: Connection, key: int, changes: Sequence[ArmChange]) -> list[ChangeReport]:
    """The changes with their times and in words, the latest first."""
    found = []
    for change in sorted(changes, key=lambda one: -one.raised):
        since_at, raised_at = (_observed_at(connection, key, row) for row in (change.since, change.raised))
        found.append(
            ChangeReport(
                arm_id=change.arm_id,
                since=change.since,
                since_at=since_at,
                raised=change.raised,
                raised_at=raised_at,
                size=change.size,
                spread=change.spread,
                stands=change.stands,
                sentence=_sentence(change, since_at),
            )
        )
    return found


def _observed_at(connection: Connection, key: int, sequence: int) -> int:
    """When a row was observed or, of one that was erased or replaced by a snapshot, the next one that says it."""
    rows = log.read_rows(connection, key, sequence - 1, log.SEQUENCE_MAX, LOOKED_AT)
    # none of a campaign that is deleted, whose rows are purged in slices
    return next((row.observed_at for row in rows if row.observed_at), 0)


def _sentence(change: ArmChange, since_at: int) -> str:
    arm = change.arm_id or "arms that are not registered"
    verb = "fallen" if change.size < 0.0 else "risen"
    when = datetime.fromtimestamp(since_at // 1_000_000, UTC).strftime("%Y-%m-%d %H:%M")
    found = (
        f"The rewards of {arm} have {verb} by {abs(change.size):.3g}, {abs(change.size) / change.spread:.1f} of their "
        f"standard deviations, since row {change.since} of the log ({when} UTC)."
    )
    if not change.stands:
        return f"{found} By now the model has learned more since then than before."
    return (
        f"{found} The model has still learned more before that than since. If the world has changed for good, restart "
        f"the campaign from row {change.since}; if it keeps changing, set algorithm.forgetting."
    )
