"""The counts of a report: one pass over a campaign's log and one over its decisions, page by page.

Every page is a transaction of its own, so a long report blocks nothing. It describes the campaign at the head that was
read at the start: later rewards are left out, and their decisions count as pending.

Memory: 9 bytes per reward and about 1 KB per arm, plus what `prudent.core.measures` needs for one arm at a time. In a
shared model selects may name any number of unregistered arms; those beyond `UNREGISTERED_MAX` are counted together.
"""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from prudent.campaigns import CampaignConfiguration, stored
from prudent.ledger.amendments import first_row
from prudent.reporting.stalls import Signs, read_signs
from prudent.store import campaigns, decisions, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.read_pool import Connect
from prudent.store.reports import ChoiceRow
from prudent.store.tables import ArmRow

PAGE_ROWS = 5_000
"""Rows that are read in one transaction."""
RECENT = 100
"""Newest decisions of which the share that explores is reported."""
UNREGISTERED_MAX = 1_000
"""Unregistered arms that are counted one by one: the first that are encountered."""


@dataclass(slots=True)
class ArmTally:
    """Counts of an arm. plays: its decisions, including pruned ones that had a reward."""

    rewards: "array[float]" = field(default_factory=lambda: array("d"))
    sources: Counter[str] = field(default_factory=Counter)
    plays: int = 0
    external: int = 0
    agreed: int = 0
    pending: int = 0
    expired: int = 0
    answered: int = 0
    """Rows of the log that belong to a decision."""
    met: int = 0
    """Those of them whose decision is still stored."""


class Tallies:
    """The counts of every arm."""

    def __init__(self, registered: Iterable[str]) -> None:
        self.by_arm = {arm_id: ArmTally() for arm_id in registered}
        self.others = ArmTally()
        """All arms that are not counted one by one."""
        self._arms_max = len(self.by_arm) + UNREGISTERED_MAX

    def of(self, arm_id: str) -> ArmTally:
        """The counts of an arm."""
        tally = self.by_arm.get(arm_id)
        if tally is not None:
            return tally
        if len(self.by_arm) == self._arms_max:
            return self.others
        return self.by_arm.setdefault(arm_id, ArmTally())


@dataclass(slots=True)
class Collection:
    """Everything that a report needs, as of the campaign's head at the start."""

    campaign: CampaignRow
    configuration: CampaignConfiguration
    arms: list[ArmRow]
    tallies: Tallies
    signs: Signs
    first: int
    """The first row of the log whose reward counts."""
    now: int
    """Microseconds since 1970."""

    @property
    def recent(self) -> list[ChoiceRow]:
        """The newest decisions first, at most `RECENT`."""
        return self.signs.choices[:RECENT]


def collect(connect: Connect, campaign_id: str, clock: Callable[[], int]) -> Collection | None:
    """Read and count; None if there is no such campaign, or if it was deleted meanwhile.

    clock: microseconds since 1970, for databases that have none of their own.
    """
    with connect() as connection:
        campaign = campaigns.find_campaign(connection, campaign_id)
        if campaign is None:
            return None
        # after the head: every decision that has a reward by then is among those up to `newest`
        newest = decisions.newest_place(connection, campaign.key)
        arms = campaigns.read_arms(connection, [campaign.key])[campaign.key]
        signs = read_signs(connection, campaign, arms)
        first = first_row(connection, campaign)
        now = campaigns.read_clock(connection) or clock()
    configuration = stored(campaign.configuration)
    tallies = Tallies(arm.arm_id for arm in arms)
    _count_rewards(connect, campaign, tallies, first)
    if newest is not None:
        has_timeout = configuration.reward.timeout_seconds is not None
        _count_plays(connect, campaign, tallies, newest[0], now if has_timeout else None)
    for tally in (*tallies.by_arm.values(), tallies.others):
        tally.plays += tally.answered - tally.met
    with connect() as connection:  # rows of a deleted campaign are purged in slices: some may be missing
        is_there = campaigns.find_keys(connection, [campaign_id]).get(campaign_id) == campaign.key
    return Collection(campaign, configuration, arms, tallies, signs, first, now) if is_there else None


def _count_rewards(connect: Connect, campaign: CampaignRow, tallies: Tallies, first: int) -> None:
    """first: the first row whose reward counts; what comes before it tells only of plays."""
    after = 0
    while after < campaign.head:
        with connect() as connection:
            page = reports.read_rewards(connection, campaign.key, after, campaign.head, PAGE_ROWS)
        if not page:
            return
        for row in page:
            tally = tallies.of(row.arm_id)
            tally.answered += row.decision_id is not None
            if row.sequence >= first and row.reward is not None:
                tally.rewards.append(row.reward)
                tally.sources[row.source] += 1
        after = page[-1].sequence


def _count_plays(connect: Connect, campaign: CampaignRow, tallies: Tallies, until: int, deadline: int | None) -> None:
    """deadline: decisions due by then have expired; None if the campaign has no timeout."""
    after = (-1, "")
    while True:
        with connect() as connection:
            page = reports.read_plays(connection, campaign.key, after, until, campaign.head, PAGE_ROWS)
        for row in page:
            tally = tallies.of(row.arm_id)
            tally.plays += 1
            if row.recommended_arm_id is not None:
                tally.external += 1
                tally.agreed += row.recommended_arm_id == row.arm_id
            if row.rewarded_arm_id is not None:
                tallies.of(row.rewarded_arm_id).met += 1
            elif is_expired(row.due_at, deadline):
                tally.expired += 1
            else:
                tally.pending += 1
        if len(page) < PAGE_ROWS:
            return
        after = (page[-1].created_at, page[-1].decision_id)


def is_expired(due_at: int | None, now: int | None) -> bool:
    """Whether an unrewarded decision no longer waits for its reward: the deadline decides; the sweep clears due_at.

    now: microseconds since 1970; None if the campaign has no timeout.
    """
    return now is not None and (due_at is None or due_at <= now)
