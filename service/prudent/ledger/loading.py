"""From the database to a campaign's state: its row and arms, a snapshot for a head start, then the log."""

import structlog
from sqlalchemy import Connection, Engine

from prudent.core.snapshot import FORMAT_VERSION, CorruptSnapshotError
from prudent.ledger.state import CampaignState
from prudent.store import campaigns, log

logger = structlog.get_logger(__name__)


def open_state(connection: Connection, key: int) -> CampaignState | None:
    """A state that has folded nothing yet; None if the campaign is gone."""
    row = campaigns.read_campaign(connection, key)
    if row is None or row.campaign_id is None:
        return None
    return CampaignState(row, campaigns.read_arms(connection, [key])[key])


def use_snapshot(connection: Connection, state: CampaignState) -> None:
    """Start from the stored snapshot, if it is valid for this state and within its log."""
    snapshot = log.find_snapshot(connection, state.key)
    if (
        snapshot is None
        or snapshot.format_version != FORMAT_VERSION
        or snapshot.configuration_digest != state.fold_digest
        or snapshot.sequence > state.target
    ):
        return
    try:
        state.policy.load(snapshot.state)
    except CorruptSnapshotError as error:
        logger.warning("snapshot is corrupt, folding the log from its start", key=state.key, error=str(error))
        return
    state.sequence = state.snapshot_sequence = snapshot.sequence


def catch_up(connection: Connection, state: CampaignState) -> None:
    """Fold what the log has after the state, up to its target."""
    for row in log.read_log(connection, state.key, state.sequence, state.target):
        state.fold(row)
    state.sequence = state.target


def load_behind(read: Engine, key: int) -> CampaignState | None:
    """A state close behind its head, read page by page outside any transaction; None if the campaign is gone."""
    with read.connect() as connection:
        state = open_state(connection, key)
        if state is None:
            return None
        use_snapshot(connection, state)
    while state.sequence < state.target:
        with read.connect() as connection:
            page = log.read_page(connection, key, state.sequence, state.target)
            standing = campaigns.read_standings(connection, [key]).get(key)
        if not page or standing is None:
            return state
        for row in page:
            state.fold(row)
        state.standing = standing
    return state
