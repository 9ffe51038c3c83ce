"""The erasure of a subject: its decisions, and what the log has learned of them, as if they had never been.

The rows of the log keep their places, and the digests from which those of the next rows follow; everything else in them
is overwritten. A row at the end of the log tells that there was an erasure, so every worker folds the log anew.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

from sqlalchemy import Connection

from prudent.campaigns import stored
from prudent.ledger.commands import EraseDecisions
from prudent.ledger.correcting import append_row
from prudent.ledger.missing import no_campaign
from prudent.ledger.outcomes import ErasureReceipt
from prudent.ledger.subjects import digest_of
from prudent.store import campaigns, decisions, log, retention
from prudent.store.campaigns import CampaignRow
from prudent.store.decisions import SUBJECT_PREFIX, Place
from prudent.store.read_pool import Connect
from prudent.store.tables import ERASURE, OBSERVATION, LogRow

PAGE_ROWS = 5_000
"""Decisions, or rows of the log, that are looked at in one transaction."""
ERASED_AT_ONCE = 500
"""Decisions that are erased in one transaction."""


def find_decisions_of(connect: Connect, campaign_id: str, subject: str) -> list[str] | None:
    """The ids of all decisions for a subject, pruned ones with a reward too; None if there is no such campaign."""
    with connect() as connection:
        campaign = campaigns.find_campaign(connection, campaign_id)
    if campaign is None:
        return None
    if campaign.subject_key is None:
        return []
    ending = f"-{digest_of(campaign.subject_key, subject)}"
    ids = chain(_ids(connect, campaign.key, decisions.read_places), _ids(connect, campaign.key, log.read_places))
    return list(dict.fromkeys(one for one in ids if one.startswith(SUBJECT_PREFIX) and one.endswith(ending)))


def _ids(connect: Connect, key: int, read: Callable[[Connection, int, Place, int], list[Place]]) -> Iterator[str]:
    """The decisions of all places that one reads of a campaign, page by page."""
    after: Place = (-1, "")
    while True:
        with connect() as connection:
            page = read(connection, key, after, PAGE_ROWS)
        yield from (decision_id for _, decision_id in page)
        if len(page) < PAGE_ROWS:
            return
        after = page[-1]


def erase(command: EraseDecisions, connection: Connection, now: int) -> ErasureReceipt:
    """Erase decisions of one campaign, and their rows of the log. What is gone already is left out."""
    found = campaigns.find_campaign(connection, command.campaign_id)
    if found is None:
        raise no_campaign(connection, command.campaign_id)
    key = found.key
    campaigns.lock_heads(connection, [key])
    kept = decisions.find_decisions(connection, [(key, decision_id) for decision_id in command.decision_ids])
    rows = log.find_rows(connection, key, command.decision_ids)
    if not kept and not rows:
        return ErasureReceipt(command.campaign_id, 0, 0)
    log.overwrite(connection, map(log.erased, rows))
    decisions.delete_decisions(connection, kept)
    pruned = [row for row in rows if row.kind == OBSERVATION and (key, row.decision_id) not in kept]
    retention.add_pruned(connection, key, -len(pruned))
    _lower_plays(connection, found, Counter(row.arm_id for row in kept.values()))
    if rows:
        log.delete_snapshot(connection, key)
    detail = f"of a subject: {len(kept)} decisions, {len(rows)} rows of the log"
    campaigns.update_campaign(connection, key, {})  # what workers hold is looked at again, also of a paused campaign
    append_row(connection, LogRow(key, 0, ERASURE, None, None, "", b"", 0.0, "reward", None, now, None, detail))
    return ErasureReceipt(command.campaign_id, len(kept), len(rows))


def _lower_plays(connection: Connection, campaign: CampaignRow, erased: Counter[str]) -> None:
    """Plays are counted in the warm-up only: an arm that has fewer left than were counted has these.

    Where old decisions are deleted nobody can count what is left: an arm whose warm-up is over has been played enough.
    """
    key, configuration = campaign.key, stored(campaign.configuration)
    for arm in campaigns.read_arms(connection, [key])[key]:
        is_over = configuration.retention_days and arm.plays >= configuration.algorithm.warmup
        if arm.arm_id not in erased or is_over:
            continue
        plays = decisions.count_plays_of(connection, key, arm.arm_id, arm.plays)
        if plays < arm.plays:
            plays += log.count_warm_starts(connection, key).get(arm.arm_id, 0)
            plays = max(plays, arm.plays - erased[arm.arm_id])  # others may have been deleted
            campaigns.update_arm(connection, key, arm.position, {"plays": min(plays, arm.plays)})
