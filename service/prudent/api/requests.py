"""Bodies of requests. Strict; unknown fields, infinities and NaN are refused; lists fail at their first error."""

import re
from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, AwareDatetime, BeforeValidator, Field

from prudent.campaigns import AlgorithmChange, ArmId, CampaignId, DecisionId, Schema
from prudent.campaigns.values import ARMS_MAX, DESCRIPTION_MAX, DIMENSION_MAX, Feature, Identifier, RewardValue

FeatureList = Annotated[
    list[Feature],
    Field(min_length=1, max_length=DIMENSION_MAX, description="Finite numbers up to 1e6 in magnitude.", fail_fast=True),
]
BATCH_LIMITS = "At most 1,000, in a body of at most 4 MiB, unless the operator has set other limits."
ArmIds = Annotated[list[ArmId], Field(max_length=ARMS_MAX, fail_fast=True)]


_RFC_3339 = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt ][0-9:]{8}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})")


def _is_rfc_3339(value: object) -> object:
    """By itself pydantic takes a number, in digits or in a string, as seconds or milliseconds since 1970."""
    if not isinstance(value, str) or not _RFC_3339.fullmatch(value):
        raise ValueError("must be RFC 3339 with an offset, for example 2026-01-31T09:30:00Z")
    return value


def _in_range(value: datetime) -> datetime:
    if not 1970 <= value.year <= 9998:
        raise ValueError("must lie between 1970 and 9998")
    return value


Instant = Annotated[
    AwareDatetime,
    Field(strict=False, description="RFC 3339 with an offset."),
    BeforeValidator(_is_rfc_3339),
    AfterValidator(_in_range),
]


class SelectArm(Schema):
    """An arm to choose from. Features may be left out for an arm that was registered with them."""

    arm_id: ArmId
    features: FeatureList | None = None


class SelectRequest(Schema):
    """Choose an arm."""

    campaign_id: CampaignId
    decision_id: Annotated[
        DecisionId | None, Field(description="Yours, to make the request repeatable; made by the server if absent.")
    ] = None
    arms: Annotated[
        list[SelectArm] | None,
        Field(
            min_length=1,
            max_length=ARMS_MAX,
            description="Shared model; all registered arms if absent.",
            fail_fast=True,
        ),
    ] = None
    context: Annotated[FeatureList | None, Field(description="Disjoint model.")] = None
    eligible: Annotated[ArmIds | None, Field(description="Choose among these only.")] = None
    exclude: Annotated[ArmIds, Field(description="Do not choose these.", default_factory=list)]
    explore: Annotated[bool, Field(description="false: the best estimate, without warm-up or bonus.")] = True
    explain: Annotated[bool, Field(description="true: reply with every candidate, best first.")] = False
    chosen_arm_id: Annotated[
        ArmId | None,
        Field(description="The application has chosen already; record it and say what we would have done."),
    ] = None


class RewardRequest(Schema):
    """Report what came of a decision. Larger is better."""

    decision_id: DecisionId
    reward: RewardValue
    arm_id: Annotated[
        ArmId | None, Field(description="Another arm that was used in the end (disjoint, multi-armed).")
    ] = None


class ObservationItem(Schema):
    """An observation made elsewhere."""

    observation_id: Annotated[Identifier | None, Field(description="Yours, to make the request repeatable.")] = None
    arm_id: ArmId
    features: Annotated[FeatureList | None, Field(description="Shared model.")] = None
    context: Annotated[FeatureList | None, Field(description="Disjoint model.")] = None
    reward: RewardValue
    observed_at: Instant | None = None
    propensity: Annotated[float, Field(gt=0, le=1)] | None = None


class SelectBatch(Schema):
    """Many selects, answered in order."""

    items: Annotated[list[SelectRequest], Field(min_length=1, description=BATCH_LIMITS, fail_fast=True)]


class RewardBatch(Schema):
    """Many rewards, answered in order."""

    items: Annotated[list[RewardRequest], Field(min_length=1, description=BATCH_LIMITS, fail_fast=True)]


class ObservationBatch(Schema):
    """Observations made elsewhere; all are accepted or none."""

    items: Annotated[list[ObservationItem], Field(min_length=1, description=BATCH_LIMITS, fail_fast=True)]


class CampaignChange(Schema):
    """What may change of a campaign. Absent fields stay."""

    description: Annotated[str, Field(max_length=DESCRIPTION_MAX)] | None = None
    status: Literal["active", "paused", "archived"] | None = None
    algorithm: AlgorithmChange | None = None


class ArmRequest(Schema):
    """An arm to add."""

    arm_id: ArmId
    features: FeatureList | None = None


class ArmChange(Schema):
    """What may change of an arm."""

    status: Literal["active", "paused", "retired"]
