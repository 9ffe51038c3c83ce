"""What later rows of a log say about earlier ones: corrected and erased rewards, and from where on the log counts.

A state is the fold of the log as amended: it is the one that a campaign would have whose rewards had been right from
the start. So an amendment of what has been learned already makes a state useless, and another is folded from the first
row; see docs/decisions/0032-amendments.md for what that costs.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from prudent.campaigns import CampaignConfiguration
from prudent.campaigns.values import EXACT_UNTIL_MAX
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
            found.first = settings.get("restart", found.first)
            found.exact_until = settings.get("exact_until", found.exact_until)
        elif row.decision_id is not None:  # otherwise of a subject, whose rows are no observations any more
            found.rewards[row.decision_id] = value_of(row)
        found.erased += is_erased(row)
        found.last = row.sequence
    return found


def settings_of(row: FoldRow) -> dict[str, Any]:
    """What a row of the kind configuration sets.

    `half_life`, 0 for none; `exact_until`, 0 for never; or `restart`, the first row that counts.
    """
    settings: dict[str, Any] = orjson.loads(row.detail or "{}")
    return settings


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
