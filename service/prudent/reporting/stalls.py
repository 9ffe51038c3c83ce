"""Whether a campaign stands still: signs that what feeds it has ended, or what it looks for.

All of them rest on the newest decisions and on the end of the log, so that looking costs the same however long a
campaign has run. They are rules of thumb: docs/changing-world.md says when one of them is no fault.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sqlalchemy import Connection

from prudent.campaigns import stored
from prudent.store import log, reports
from prudent.store.campaigns import CampaignRow
from prudent.store.reports import ChoiceRow, explores
from prudent.store.tables import ArmRow

StallKind = Literal["no-rewards", "rewards-refused", "one-arm", "exploration-ended"]
UNREWARDED, UNREWARDED_SECONDS = 100, 3_600
"""Decisions since the last row of the log, and for how long, before rewards are missed."""
REFUSED = 10
"""Rewards refused since the last row of the log."""
LOOKED_AT = 1_000
"""Newest decisions that are all of one arm, or all without exploration."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A sign that a campaign stands still. sentence: what was seen, and what to look at."""

    kind: StallKind
    sentence: str


class Signs(NamedTuple):
    """What is read. choices: at most `LOOKED_AT`, newest first. last: when the log's last row came, None without one.

    active: how many registered arms are.
    """

    choices: list[ChoiceRow]
    last: int | None
    active: int


def read_signs(connection: Connection, campaign: CampaignRow, arms: Sequence[ArmRow]) -> Signs:
    """Read the end of a campaign's decisions and of its log."""
    rows = log.read_rows(connection, campaign.key, campaign.head - 1, campaign.head, 1)
    return Signs(
        reports.read_last_choices(connection, campaign.key, LOOKED_AT),
        rows[0].observed_at if rows else None,
        sum(arm.status == "active" for arm in arms),
    )


def find_stalls(campaign: CampaignRow, signs: Signs, *, separated: bool | None, refused: int, now: int) -> list[Stall]:
    """Say what stands still; nothing of a campaign that is not active.

    separated: whether the leader is, None where there is none. refused: rewards, since the last row of the log.
    now: microseconds since 1970.
    """
    if campaign.status != "active":
        return []
    is_exploring = stored(campaign.configuration).algorithm.exploration > 0.0
    found = [_no_rewards(signs, now), _refused(refused)]
    if is_exploring and signs.active > 1 and len(signs.choices) == LOOKED_AT:
        found += [_one_arm(signs.choices, separated), _exploration_ended(signs.choices, separated)]
    return [one for one in found if one is not None]


def _no_rewards(signs: Signs, now: int) -> Stall | None:
    if len(signs.choices) < UNREWARDED:
        return None
    begun = signs.choices[UNREWARDED - 1].created_at
    if (signs.last is not None and signs.last >= begun) or now - begun < UNREWARDED_SECONDS * 1_000_000:
        return None
    return Stall(
        "no-rewards",
        f"The latest {UNREWARDED} decisions or more, for over an hour, were made without any reward arriving: nothing "
        "is being learned. Look at whatever sends POST /reward.",
    )


def _refused(refused: int) -> Stall | None:
    if refused < REFUSED:
        return None
    return Stall(
        "rewards-refused",
        f"The last {refused} rewards were all refused: outside reward.minimum and reward.maximum, too late, for "
        "another arm, or other than the one recorded. Look at the answers that the sender gets.",
    )


def _one_arm(choices: Sequence[ChoiceRow], separated: bool | None) -> Stall | None:
    arm_id = choices[0].arm_id
    if separated or any(choice.arm_id != arm_id for choice in choices):
        return None
    return Stall(
        "one-arm",
        f"The latest {LOOKED_AT:,} decisions were all for {arm_id}, and it is not separated from the other arms, of "
        "which nothing is learned. Raise algorithm.floor or algorithm.uniform_share if they may have become better.",
    )


def _exploration_ended(choices: Sequence[ChoiceRow], separated: bool | None) -> Stall | None:
    if separated is not False or any(explores(one) for one in choices):
        return None
    return Stall(
        "exploration-ended",
        f"None of the latest {LOOKED_AT:,} decisions explored, and the leader is not separated from the runner-up: "
        "which is better may never be known. Raise algorithm.exploration or algorithm.floor.",
    )
