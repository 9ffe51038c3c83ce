"""What a campaign's page shows, read in one short transaction whose cost has a bound."""

from collections import Counter
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration, RowReader, Vocabulary, stored
from prudent.campaigns.bonuses import WITH_LIMITS
from prudent.core.comparison import closest_to_middle
from prudent.dashboard import formatting
from prudent.ledger.amendments import first_row
from prudent.ledger.commands import Select
from prudent.reporting.policies import Seen, seen_of
from prudent.reporting.stalls import Signs, read_signs
from prudent.store import campaigns, categories, decisions, log, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.log import Counts
from prudent.store.reports import PLAYS_MAX, PlayRow, RewardedDecision
from prudent.store.statements import features_from_bytes
from prudent.store.tables import ArmRow, CategoryRow

RECENT = 100
"""Latest decisions read in full: for the tables, the share of exploration, and the usual features."""
COLOURS = 8
"""Arms with a colour of their own, and so a place in the charts."""
LISTED_MAX = 60
"""Campaigns on a page of the list."""
UNREWARDED_MAX = 20
"""Decisions without any reward that are no cause for a warning."""
PREVIEWED_MAX = 200
"""Arms whose estimates are computed for a page."""


@dataclass(frozen=True)
class Overview:
    """A campaign as stored.

    decisions: how many in all; plays: the newest of them, newest first; recent: the newest `RECENT`, with all columns.
    counts: of its log; unlearned: of what will be learned after a pause.
    first_row: of the log, the first that counts. rewards: (n,) of each arm, of the whole log from there on or evenly
    from all over it; rewards_in_order: (n,) of all arms, in the order of the log; sequences: (n,) their places in it.
    seen: None without features.
    """

    row: CampaignRow
    configuration: CampaignConfiguration
    arms: list[ArmRow]
    decisions: int
    plays: list[PlayRow]
    recent: list[RewardedDecision]
    rewards: dict[str, NDArray[np.float64]]
    rewards_read: int
    first_row: int
    counts: Counts
    unlearned: Counts
    seen: Seen | None
    learned: list[CategoryRow] = field(default_factory=list)
    signs: Signs = field(default_factory=lambda: Signs([], None, 0))
    sequences: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    rewards_in_order: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    @cached_property
    def reader(self) -> RowReader:
        """Of the campaign's rows."""
        return RowReader(self.configuration.model)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The categories, with those learned."""
        return self.reader.vocabulary(self.learned)

    @property
    def is_sampled(self) -> bool:
        """Whether the log is too long for all of its rewards to be read."""
        return self.row.head - self.first_row >= reports.REWARDS_MAX

    @property
    def latest(self) -> str:
        """The decisions in `recent`, in words."""
        return "the latest decision" if len(self.recent) == 1 else f"the latest {len(self.recent)} decisions"

    @property
    def waiting(self) -> int:
        """Decisions without a reward, among the latest `PLAYS_MAX`."""
        return sum(play.rewarded_arm_id is None for play in self.plays)

    @property
    def is_unrewarded(self) -> bool:
        """Whether it decides, and no reward comes."""
        return _is_unrewarded(self.row, self.decisions)

    @property
    def all_plays_read(self) -> bool:
        """Whether `plays` holds every decision."""
        return len(self.plays) < PLAYS_MAX or self.decisions <= PLAYS_MAX

    @property
    def decimals(self) -> int | None:
        """Decimals of rewards in tables."""
        return formatting.decimals_for(
            max((float(np.abs(values).max()) for values in self.rewards.values()), default=0.0)
        )

    @property
    def has_limits(self) -> bool:
        """Whether the campaign's bonus publishes limits."""
        return self.configuration.algorithm.bonus in WITH_LIMITS

    @property
    def is_proved(self) -> bool:
        """Whether these are upper limits with a proof."""
        return self.configuration.algorithm.bonus == "self-normalized"

    @property
    def arm_ids(self) -> list[str]:
        """Registered arms in order, then those known only from requests or the log."""
        registered = [arm.arm_id for arm in self.arms]
        known = dict.fromkeys([*registered, *sorted({play.arm_id for play in self.plays} | self.rewards.keys())])
        return list(known)

    @property
    def coloured(self) -> dict[str, int]:
        """The arms in the charts, with the numbers of their colours."""
        return colours(self.arm_ids, self.plays, self.rewards)


def _is_unrewarded(row: CampaignRow, decisions: int) -> bool:
    return row.status == "active" and not row.head and decisions > UNREWARDED_MAX


def colours(
    arm_ids: Sequence[str], plays: Sequence[PlayRow], rewards: Mapping[str, Sized] = MappingProxyType({})
) -> dict[str, int]:
    """The numbers of the colours, from 1, of the arms that have one: of too many, those with most plays and rewards."""
    counted = Counter(play.arm_id for play in plays)
    by_use = sorted(arm_ids, key=lambda one: (-counted[one], -len(rewards.get(one, ()))))
    chosen = set(by_use[:COLOURS])
    return {arm_id: place for place, arm_id in enumerate((one for one in arm_ids if one in chosen), 1)}


def read_overview(connection: Connection, campaign_id: str) -> Overview | None:
    """The campaign, or None if it does not exist."""
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        return None
    first = first_row(connection, row)
    sample = reports.sample_rewards(connection, row.key, first, row.head)
    counted = [(one.sequence, one.arm_id, one.reward) for one in sample if one.reward is not None]
    rewards: dict[str, list[float]] = {}
    for _, arm_id, reward in counted:
        rewards.setdefault(arm_id, []).append(reward)
    configuration, arms = stored(row.configuration), campaigns.read_arms(connection, [row.key])[row.key]
    learned = categories.read_categories(connection, [row.key])[row.key]
    return Overview(
        row=row,
        configuration=configuration,
        arms=arms,
        decisions=decisions.count_rows(connection, row.key),
        plays=reports.newest_plays(connection, row.key),
        recent=reports.newest_decisions(connection, row.key, RECENT),
        rewards={arm_id: np.array(values) for arm_id, values in rewards.items()},
        rewards_read=len(sample),
        first_row=first,
        counts=log.count_rewards(connection, row.key, 0, row.head),
        unlearned=log.count_rewards(connection, row.key, row.observations, row.head),
        signs=read_signs(connection, row, arms),
        seen=seen_of(connection, row, configuration, arms, learned),
        learned=learned,
        sequences=np.array([sequence for sequence, _, _ in counted], np.int64),
        rewards_in_order=np.array([reward for _, _, reward in counted]),
    )


def usual_features(campaign: Overview) -> NDArray[np.float64] | None:
    """(d,) one of the latest decisions' rows: the closest to their mean. None without any."""
    if campaign.configuration.model.type == "multi-armed" or not campaign.recent:
        return None
    rows = np.array([features_from_bytes(one.features) for one, _ in campaign.recent])
    return np.asarray(rows[closest_to_middle(np.nan_to_num(rows))])


def usual_request(campaign: Overview) -> Select | None:
    """A request like the latest ones, to preview; None where there is nothing to ask about.

    disjoint: with a typical context of the newest decisions; shared: the registered arms' features, and for others the
    newest ones that were chosen.
    """
    campaign_id = campaign.configuration.campaign_id
    active = [arm for arm in campaign.arms if arm.status == "active"]
    if campaign.configuration.model.type == "shared":
        reader = campaign.reader
        listed = {arm.arm_id: features_from_bytes(arm.features) for arm in active if arm.features is not None}
        inactive = {arm.arm_id for arm in campaign.arms if arm.status != "active"}
        for one, _ in campaign.recent:
            if one.arm_id not in inactive:
                listed.setdefault(one.arm_id, reader.split(features_from_bytes(one.features))[0])
        arms = list(listed.items())[:PREVIEWED_MAX]
        usual = usual_features(campaign)
        context = reader.split(reader.default() if usual is None else usual)[1] if reader.has_context else None
        return Select(campaign_id, arms=arms, context=context, has_rows=True) if arms else None
    if not active:
        return None
    if campaign.configuration.model.type == "multi-armed":
        return Select(campaign_id)
    context = usual_features(campaign)
    if context is None:
        context = campaign.reader.default()
    return Select(campaign_id, context=context, has_rows=True)


def trailing_shares(
    plays: Sequence[PlayRow], arm_ids: Sequence[str], points: int
) -> tuple[list[int], NDArray[np.float64]]:
    """Moving shares of the decisions at some points: (their places, oldest first, from 0), (points, arms) shares.

    Each counts the decisions up to it, at most a twentieth of all and at least ten. plays: newest first.
    """
    total = len(plays)
    window = max(10, total // 20)
    places = {arm_id: place for place, arm_id in enumerate(arm_ids)}
    counted = np.zeros((total + 1, len(arm_ids)))
    for row, play in enumerate(reversed(plays), 1):
        place = places.get(play.arm_id)
        if place is not None:
            counted[row, place] = 1.0
    counted = counted.cumsum(axis=0)
    ends = np.unique(np.linspace(1, total, min(points, total)).round().astype(int))
    starts = np.maximum(ends - window, 0)
    return [int(end) - 1 for end in ends], (counted[ends] - counted[starts]) / (ends - starts)[:, None]


class Part(NamedTuple):
    """An arm's share of the latest decisions, and where it starts in a bar of length 1."""

    arm_id: str
    colour: int | None
    start: float
    share: float


@dataclass(frozen=True)
class Listed:
    """A campaign in the list. last_at: time of its latest decision, in microseconds; bar: the largest share first.

    is_unrewarded: whether it decides and no reward has come.
    """

    campaign_id: str
    about: str
    status: str
    measure: str
    arms: int
    rewards: int
    last_at: int | None
    bar: list[Part]
    is_unrewarded: bool = False


def read_list(connection: Connection, after: str) -> list[Listed]:
    """Campaigns after an id: one more than fits on a page, to tell whether there is a next page."""
    rows = campaigns.list_campaigns(connection, after=after, limit=LISTED_MAX + 1)
    arms = campaigns.read_arms(connection, [row.key for row in rows])
    return [_listed(connection, row, arms[row.key]) for row in rows]


def _listed(connection: Connection, row: CampaignRow, arms: list[ArmRow]) -> Listed:
    plays = reports.newest_plays(connection, row.key, RECENT)
    rewards = log.count_rewards(connection, row.key, 0, row.head).rewards
    try:
        configuration = stored(row.configuration)
    except ValueError:  # one damaged campaign must not take the others out of the list
        return Listed(
            row.campaign_id or "", "Its settings cannot be read.", row.status, "", len(arms), rewards, None, []
        )
    measure = configuration.measure()
    coloured = colours([arm.arm_id for arm in arms], plays)
    bar: list[Part] = []
    start = 0.0
    for arm_id, count in Counter(play.arm_id for play in plays).most_common():
        bar.append(Part(arm_id, coloured.get(arm_id), start, count / len(plays)))
        start += count / len(plays)
    return Listed(
        campaign_id=configuration.campaign_id,
        about=configuration.description or measure.aim,
        status=row.status,
        measure=measure.title,
        arms=len(arms),
        rewards=rewards,
        last_at=plays[0].created_at if plays else None,
        bar=bar,
        is_unrewarded=_is_unrewarded(row, len(plays)),
    )
