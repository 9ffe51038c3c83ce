"""The parts of a report that are alarms: their schemas, for the documentation."""

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, Field

from prudent.api.replies import ArmChangeReply


class ChangeReply(ArmChangeReply):
    """A change of an arm's rewards with its times."""

    since_at: datetime
    raised_at: datetime
    sentence: str = Field(description="The same in words, and what can be done.")


class StallReply(BaseModel):
    """A sign that a campaign stands still; see docs/changing-world.md."""

    kind: Literal["no-rewards", "rewards-refused", "one-arm", "exploration-ended"]
    sentence: str = Field(description="What was seen, and what to look at.")
