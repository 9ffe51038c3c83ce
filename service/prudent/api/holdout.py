"""The part of a report that is about a holdout: its schema, for the documentation."""

from typing import Literal

from pydantic import BaseModel, Field

from prudent.api.replies import Interval


class HoldoutGroupReply(BaseModel):
    """Rewards of the decisions that were held out, or of those that could have been."""

    n: int
    risk: float | None
    interval: Interval | None = Field(description="Asymptotic 95% interval for the risk, as of an arm's rewards.")


class HoldoutReply(BaseModel):
    """What the policy gains over the campaign's holdout, in its risk measure."""

    share: float
    arm_id: str | None
    policy: Literal["uniform"] | None
    held_out: HoldoutGroupReply
    decided: HoldoutGroupReply
    lift: float | None = Field(
        description="The risk of what the policy decided minus that of what was held out. null without rewards of both."
    )
    interval: Interval | None = Field(
        description="Asymptotic 95% interval for the lift; not a guarantee. It takes rewards for independent: those of "
        "a subject that comes back are not quite."
    )
    sentence: str = Field(description="The same in a sentence.")
