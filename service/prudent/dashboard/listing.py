"""The list of campaigns, each with the shares of its newest decisions."""

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration
from prudent.dashboard import formatting
from prudent.dashboard.overview import COLOURS, RECENT
from prudent.store import campaigns, overview
from prudent.store.campaigns import ArmRow, CampaignRow
from prudent.store.overview import PlayRow

LISTED_MAX = 60
"""Campaigns on a page of the list."""


class Part(NamedTuple):
    """An arm's part of the newest decisions: where it begins and how long it is, of 1."""

    arm_id: str
    colour: int | None
    start: float
    share: float


@dataclass(frozen=True)
class Listed:
    """A campaign in the list. last_at: its newest decision, in microseconds; bar: the largest part first."""

    campaign_id: str
    about: str
    status: str
    measure: str
    arms: int
    observations: int
    last_at: int | None
    bar: list[Part]


def read_list(connection: Connection, after: str) -> list[Listed]:
    """Campaigns after an id: one more than a page has, so that one sees whether there is another."""
    rows = campaigns.list_campaigns(connection, after=after, limit=LISTED_MAX + 1)
    arms = campaigns.read_arms(connection, [row.key for row in rows])
    return [_listed(row, arms[row.key], overview.newest_plays(connection, row.key, RECENT)) for row in rows]


def _listed(row: CampaignRow, arms: list[ArmRow], plays: list[PlayRow]) -> Listed:
    configuration = CampaignConfiguration.model_validate_json(row.configuration)
    colours = {arm.arm_id: place for place, arm in enumerate(arms[:COLOURS], 1)}
    bar: list[Part] = []
    start = 0.0
    for arm_id, count in Counter(play.arm_id for play in plays).most_common():
        bar.append(Part(arm_id, colours.get(arm_id), start, count / len(plays)))
        start += count / len(plays)
    return Listed(
        campaign_id=configuration.campaign_id,
        about=configuration.description or formatting.aim(configuration),
        status=row.status,
        measure=formatting.measure_in_full(configuration),
        arms=len(arms),
        observations=row.head,
        last_at=plays[0].created_at if plays else None,
        bar=bar,
    )
