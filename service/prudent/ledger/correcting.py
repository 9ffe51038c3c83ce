"""Rows of a log that amend it: the correction of a reward, and settings of the fold.

They need no state: workers that hold one find the row in the log before they next use it, and fold the log anew where
it amends what they have learned.
"""

from typing import Any

import orjson
from sqlalchemy import Connection

from prudent.campaigns import stored
from prudent.errors import ConflictError, DatabaseUnavailableError, NotFoundError
from prudent.ledger.commands import Correct
from prudent.ledger.finding import find_identity
from prudent.ledger.missing import NO_DECISION
from prudent.ledger.outcomes import CorrectionReceipt
from prudent.ledger.rewards import check_bounds
from prudent.store import campaigns, log
from prudent.store.tables import CONFIGURATION, CORRECTION, ERASURE, LogRow


def correct(command: Correct, connection: Connection, now: int) -> CorrectionReceipt:
    """Append the correction of a decision's reward. Raises CommandError; the same one again changes nothing."""
    identity = find_identity(connection, command.decision_id, command.campaign_id)
    key, _ = identity
    campaigns.lock_heads(connection, [key])
    row = campaigns.read_campaign(connection, key)
    if row is None or row.campaign_id is None:
        raise NotFoundError(NO_DECISION)
    found = log.find_observations(connection, [identity]).get(identity)
    if found is None:
        raise ConflictError("the decision has no reward yet that could be corrected: report it first")
    if command.reward is not None:
        check_bounds(stored(row.configuration).reward, command.reward)
    value = None if command.reward is None else command.reward + 0.0
    earlier = log.find_corrections(connection, found.key, [command.decision_id]).get(command.decision_id)
    last = earlier[-1] if earlier else log.fold_row(found)
    current = log.value_of(last)
    sequence = last.sequence
    if value != current:
        sequence = append_row(
            connection,
            LogRow(
                key=found.key,
                sequence=0,
                kind=ERASURE if value is None else CORRECTION,
                decision_id=command.decision_id,
                observation_id=None,
                arm_id=found.arm_id,
                features=b"",
                reward=0.0 if value is None else value,
                source="reward",
                propensity=None,
                observed_at=now,
                detail=command.reason,
            ),
        )
    return CorrectionReceipt(
        decision_id=command.decision_id,
        campaign_id=row.campaign_id,
        arm_id=found.arm_id,
        reward=value,
        previous=current,
        original=found.reward,
        sequence=sequence,
        corrects=found.sequence,
        duplicate=value == current,
    )


def append_setting(connection: Connection, key: int, setting: dict[str, Any], now: int) -> None:
    """Append a setting of the fold to a log whose head is locked: see `prudent.ledger.amendments.settings_of`."""
    detail = orjson.dumps(setting).decode()
    append_row(connection, LogRow(key, 0, CONFIGURATION, None, None, "", b"", 0.0, "reward", None, now, None, detail))


def append_row(connection: Connection, row: LogRow) -> int:
    """Append a row to a log whose head is locked; its sequence number."""
    standing = campaigns.read_standings(connection, [row.key]).get(row.key)
    if standing is None:
        raise DatabaseUnavailableError("the campaign's log cannot be found: try again")
    row = row._replace(sequence=standing.head + 1)
    row = row._replace(digest=log.digest_of(standing.digest, row))
    log.append(connection, [row])
    campaigns.set_heads(connection, {row.key: row.sequence})
    return row.sequence
