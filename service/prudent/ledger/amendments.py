"""What later rows of a log say about earlier ones: corrected and erased rewards, and from where on the log counts.

A state is the fold of the log as amended: it is the one that a campaign would have whose rewards had been right from
the start. So an amendment of what has been learned already makes a state useless, and another is folded from the first
row; see docs/decisions/0032-amendments.md for what that costs.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration
from prudent.campaigns.values import EXACT_UNTIL_MAX
from prudent.core.policy import Policy
from prudent.core.snapshot import FORMAT_VERSION, unpack
from prudent.store import log
from prudent.store.campaigns import CampaignRow
from prudent.store.log import FoldRow, is_erased, value_of
from prudent.store.tables import CONFIGURATION

HALF_LIFE_MAX = 1_000_000_000
"""As the configuration has it."""
_RANGES = {"half_life": (0, HALF_LIFE_MAX), "exact_until": (0, EXACT_UNTIL_MAX)}
"""Of settings: least and largest value."""


class AmendedError(Exception):
    """The next row of the log amends what a state has learned: it must be folded anew."""


@dataclass(slots=True)
class Amendments:
    """What the rows of a log up to `until` amend.

    rewards: by decision, None where there is none any more. first: the first row that counts. last: the last row that
    amends something; 0 for none. erased: how many rows are left of which nothing can be learned. exact_until:
    observations after which one pass takes over, 0 for never; None: as the campaign was created.
    """

    until: int = 0
    rewards: dict[str, float | None] = field(default_factory=dict)
    first: int = 1
    last: int = 0
    erased: int = 0
    exact_until: int | None = None

    def creation(self, created: CampaignConfiguration) -> CampaignConfiguration:
        """The campaign as it would have been created with these amendments."""
        if self.exact_until is None:
            return created
        algorithm = created.algorithm.model_copy(update={"exact_until": self.exact_until or None})
        return created.model_copy(update={"algorithm": algorithm})

    def reward_of(self, row: FoldRow) -> float | None:
        """The reward to learn of an observation; None if it is not to be learned."""
        if row.sequence < self.first:
            return None
        return row.reward if row.decision_id is None else self.rewards.get(row.decision_id, row.reward)


def amendments_of(rows: Iterable[FoldRow], until: int) -> Amendments:
    """What these rows amend, which are those of a log up to `until` that are no observations, in order."""
    found = Amendments(until)
    for row in rows:
        if row.kind == CONFIGURATION:
            settings = settings_of(row)
            if "half_life" in settings:
                continue
            if log.SNAPSHOT in settings:
                found.exact_until = settings[log.SNAPSHOT]["exact_until"]
                continue
            found.first = settings.get("restart", found.first)
            found.exact_until = settings.get("exact_until", found.exact_until)
        elif row.decision_id is not None:  # otherwise of a subject, whose rows are no observations any more
            found.rewards[row.decision_id] = value_of(row)
        found.erased += is_erased(row)
        found.last = row.sequence
    return found


def first_row(connection: Connection, campaign: CampaignRow) -> int:
    """The first row of a campaign's log that counts in what it has learned."""
    until = campaign.observations
    return amendments_of(log.read_settings(connection, campaign.key, until), until).first


def settings_of(row: FoldRow) -> dict[str, Any]:
    """What a row of the kind configuration sets.

    `half_life`, 0 for none; `exact_until`, 0 for never; `restart`, the first row that counts; or `snapshot`, what was
    learned of the rows that this one has replaced, see `snapshot_of`.
    """
    settings: dict[str, Any] = orjson.loads(row.detail or "{}")
    return settings


def snapshot_of(policy: Policy, exact_until: int | None) -> dict[str, Any] | None:
    """What a log may begin with that has taught a policy so much; None while only the log itself says it.

    exact_until: as amended.
    """
    dumped = policy.dump()
    if dumped is None:
        return None
    state = b64encode(dumped).decode()
    return {"format": FORMAT_VERSION, "exact_until": exact_until, "state": state}


def begin(policy: Policy, snapshot: dict[str, Any]) -> None:
    """Take over what a log begins with. Raises ValueError for what this version or this policy cannot read."""
    if snapshot["format"] != FORMAT_VERSION:
        raise ValueError(f"it is a snapshot of format {snapshot['format']}, and this version reads {FORMAT_VERSION}")
    policy.load(b64decode(snapshot["state"], validate=True))


def is_snapshot(row: FoldRow) -> bool:
    """Whether a row says what a log may begin with, as far as can be told without the campaign."""
    try:
        snapshot = settings_of(row)[log.SNAPSHOT]
        least, largest = _RANGES["exact_until"]
        is_known = snapshot["exact_until"] is None or least <= snapshot["exact_until"] <= largest
        unpack(b64decode(snapshot["state"], validate=True))
    except (KeyError, TypeError, ValueError):
        return False
    return is_known and snapshot["format"] == FORMAT_VERSION and len(snapshot) == 3  # these three


def is_setting(row: FoldRow) -> bool:
    """Whether a row of the kind configuration sets something that can be folded."""
    try:
        settings = settings_of(row)
    except orjson.JSONDecodeError:
        return False
    if not isinstance(settings, dict) or len(settings) != 1:
        return False
    ((name, value),) = settings.items()
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    if name == "restart":
        return 1 <= value < row.sequence
    least, largest = _RANGES.get(name, (0, -1))
    return least <= value <= largest
