"""The vocabulary of the contract: ids, numbers and limits, strict in what they accept."""

from typing import Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from prudent.identifiers import ID_PATTERN

DIMENSION_MAX = 512
ARMS_MAX = 1_000
DISJOINT_FLOATS_MAX = 4_000_000
"""K d^2 of a disjoint model: each of its matrices takes eight bytes a float."""
FEATURE_MAX = 1e6
REWARD_MAX = 1e9
INTEGER_MAX = 2**53 - 1
DESCRIPTION_MAX = 2_000

T = TypeVar("T")


class InvalidConfigurationError(ValueError):
    """A combination of settings that makes no sense. ``field`` is its dotted name in the request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def known(value: T | None) -> T:
    """A value that resolution filled in. Raises ValueError where it did not."""
    if value is None:
        raise ValueError("the configuration is not resolved")
    return value


def _not_a_path_step(value: str) -> str:
    if value in {".", ".."}:
        raise ValueError("must not be '.' or '..'")
    return value


class Schema(BaseModel):
    """Base of every body: strict types, no unknown fields, no infinities, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


Identifier = Annotated[
    str,
    StringConstraints(pattern=ID_PATTERN),
    AfterValidator(_not_a_path_step),
]
CampaignId = Annotated[Identifier, Field(description="Campaign id.", examples=["dose-advice"])]
ArmId = Annotated[Identifier, Field(description="Arm id, unique in its campaign.", examples=["a"])]
DecisionId = Annotated[
    Identifier, Field(description="Decision id, unique over the deployment.", examples=["order-4711"])
]

Feature = Annotated[float, Field(ge=-FEATURE_MAX, le=FEATURE_MAX)]
Features = Annotated[list[Feature], Field(min_length=1, max_length=DIMENSION_MAX, fail_fast=True)]
RewardValue = Annotated[float, Field(ge=-REWARD_MAX, le=REWARD_MAX)]
