"""The alarms of a few campaigns that an operator has named, for the metrics: read at each scrape, at a bounded cost."""

from collections.abc import Callable, Sequence

from sqlalchemy import Connection

from prudent.campaigns import stored
from prudent.ledger.access import LedgerAccess
from prudent.ledger.amendments import first_row
from prudent.reporting.changes import model_of
from prudent.reporting.collection import ArmTally
from prudent.reporting.report import describe_arm, describe_learning, describe_progress, rewards_of
from prudent.reporting.stalls import find_stalls, read_signs
from prudent.store import campaigns, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.read_pool import Reader
from prudent.store.tables import ArmRow


async def read_alarms(
    ledger: LedgerAccess, read: Reader, names: Sequence[str], clock: Callable[[], int]
) -> dict[str, set[str]]:
    """Which kinds of alarm are raised in each of these campaigns; those that do not exist are left out.

    Raises DatabaseUnavailableError.
    """
    found = {}
    for name in names:
        model = await model_of(ledger, name)
        if model is None:
            continue
        kinds = await read(_stalled, name, model.refused_rewards, clock)
        if any(change.stands for change in model.changes):
            kinds.add("change")
        found[name] = kinds
    return found


def _stalled(connection: Connection, name: str, refused: int, clock: Callable[[], int]) -> set[str]:
    row = campaigns.find_campaign(connection, name)
    if row is None:
        return set()
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    signs, now = read_signs(connection, row, arms), campaigns.read_clock(connection) or clock()
    separated = _separated(connection, row, arms)
    return {one.kind for one in find_stalls(row, signs, separated=separated, refused=refused, now=now)}


def _separated(connection: Connection, row: CampaignRow, arms: Sequence[ArmRow]) -> bool | None:
    """Whether the leader is separated, by the rewards that the dashboard looks at."""
    configuration = stored(row.configuration)
    if configuration.model.type != "multi-armed":
        return None
    tallies = {arm.arm_id: ArmTally() for arm in arms}
    for one in reports.sample_rewards(connection, row.key, first_row(connection, row), row.head):
        if one.reward is not None and one.arm_id in tallies:
            tallies[one.arm_id].rewards.append(one.reward)
    measure = configuration.measure()
    active = {arm.arm_id: tallies[arm.arm_id] for arm in arms if arm.status == "active"}
    rivals = [describe_arm(arm_id, "active", tally, 0, measure) for arm_id, tally in active.items() if tally.rewards]
    rewards = {arm_id: rewards_of(tally) for arm_id, tally in tallies.items()}
    return describe_learning(rivals, rewards, measure, describe_progress([], row), None).separated
