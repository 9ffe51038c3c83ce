"""The candidates that a decision keeps: as lines of an export have them, and as they are stored."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import Field

from prudent.campaigns import ArmId, Schema
from prudent.campaigns.values import DIMENSION_MAX
from prudent.store.candidates import LoggedCandidates, pack


class CandidateLines(Schema):
    """The K candidates of a decision in its line. names: of the columns of features, where these are not arrays.

    features: of each its own, a value per column; None for those registered with the arm, or for an arm without any.
    """

    arms: Annotated[list[ArmId], Field(min_length=1)]
    propensities: list[Annotated[float, Field(ge=0, le=1 + 1e-9)]]
    names: Annotated[list[str], Field(max_length=DIMENSION_MAX)] | None
    features: list[Annotated[list[float | str | bool | None], Field(max_length=DIMENSION_MAX)] | None]


def written(candidates: LoggedCandidates, show: Callable[[bytes], Any]) -> dict[str, Any]:
    """The candidates as a decision's line has them. show: the features of a row as lines have them."""
    shown = [None if own is None else show(own) for own in candidates.features]
    names = next((list(one) for one in shown if isinstance(one, dict)), None)
    features = [list(one.values()) if isinstance(one, dict) else one for one in shown]
    return {"arms": candidates.arms, "propensities": candidates.propensities, "names": names, "features": features}


def stored_candidates(
    found: CandidateLines,
    registered: Mapping[str, bytes | None],
    read_row: Callable[[Any], bytes],
    *,
    is_shared: bool,
) -> bytes:
    """What `written` wrote, as a row holds it. registered: arms with their features; read_row: of a line's features.

    Raises ValueError for candidates that no decision can have had.
    """
    if not len(found.arms) == len(found.propensities) == len(found.features) == len(set(found.arms)):
        raise ValueError("must be different arms, each with a propensity and features or null")
    features: list[bytes | None] = []
    for arm_id, own in zip(found.arms, found.features, strict=True):
        known = registered.get(arm_id)
        if not is_shared and (own is not None or arm_id not in registered):
            raise ValueError("must be registered arms without features of their own")
        if is_shared and own is None and known is None:
            raise ValueError("an arm has no features, and none are registered")
        if own is None:
            features.append(None)
            continue
        if found.names is None and not all(isinstance(value, float) for value in own):
            raise ValueError("features: must be numbers where they have no names")
        if found.names is not None and len(found.names) != len(own):
            raise ValueError("features: must have a value for each name")
        row = read_row(own if found.names is None else dict(zip(found.names, own, strict=True)))
        features.append(None if row == known else row)
    return pack(LoggedCandidates(found.arms, found.propensities, features))
