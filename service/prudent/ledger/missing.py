"""What to say of a name that does not exist: which one may have been meant."""

from collections.abc import Iterable

from sqlalchemy import Connection

from prudent.errors import NotFoundError
from prudent.spelling import hint
from prudent.store import campaigns

COMPARED_MAX = 100
"""Names that a missing one is compared with."""
NO_CAMPAIGN = "there is no such campaign"
NO_DECISION = "there is no such decision: send the decision_id with which its select was answered"
NOT_OF_CAMPAIGN = "this campaign has no such decision: send the decision_id and the campaign_id of one select"
SEVERAL_DECISIONS = "several campaigns have a decision with this id: send the campaign_id of its select as well"


def no_campaign(connection: Connection, campaign_id: str) -> NotFoundError:
    """The error for a campaign that does not exist."""
    near = campaign_id.replace("\x00", "")  # PostgreSQL takes none, and pages take any path
    known = campaigns.neighbours(connection, near, COMPARED_MAX // 2)
    meant = hint(campaign_id, known, "campaigns") if known else "there is none yet, so create one first"
    return NotFoundError(f"{NO_CAMPAIGN}: {meant}")


def no_arm(arm_id: str, arm_ids: Iterable[str]) -> NotFoundError:
    """The error for an arm that the campaign does not have."""
    return NotFoundError(f"there is no such arm: {arm_hint(arm_id, arm_ids)}")


def arm_hint(arm_id: str, arm_ids: Iterable[str]) -> str:
    """Which arm may have been meant."""
    known = [one for one, _ in zip(arm_ids, range(COMPARED_MAX), strict=False)]
    return hint(arm_id, known, "arms") if known else "it has none yet"
