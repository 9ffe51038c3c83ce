"""The lines of an exported campaign: one JSON object each, in the order header, arms, log, decisions, trailer.

Numbers are the shortest decimals that read back as the same float64; times have microseconds, as they are stored.
Each line is validated here by itself; consistency between lines is checked in reading.py and in the ledger.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from math import inf
from typing import Annotated, Any, Literal, get_args

import orjson
from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints, TypeAdapter, ValidationError

from prudent.campaigns import ArmId, CampaignConfiguration, CampaignId, DecisionId, Schema
from prudent.campaigns.features import CATEGORY_LENGTH_MAX, NUMBER_MAX
from prudent.campaigns.values import (
    ARMS_MAX,
    DIMENSION_MAX,
    INTEGER_MAX,
    YEAR_MAX,
    ArmValue,
    FeatureObject,
    Identifier,
    RewardValue,
    StoredText,
)
from prudent.core.exploration import Reason
from prudent.ledger.commands import ArmStatus, CampaignStatus
from prudent.ledger.outcomes import ScoredArm
from prudent.store.candidates import LoggedCandidates
from prudent.store.tables import NOT_ACTIVATED, OBSERVATION, ArmRow, CategoryRow, DecisionRow, LogRow, value_to_text
from prudent.transfer.candidates import CandidateLines, written

MEDIA_TYPE = "application/x-ndjson"
FORMAT = "prudent-campaign"
VERSION = 7
"""Older versions are read, and not written. Before version 7, decisions had no allowance; before version 6, headers had
no subject_key and decisions no activation; before version 4 there were no categories, and all features were arrays;
before version 3, rows of the log had no digest; in version 1, the trailer called the head `observations`."""
DEFERRED = "deferred"
DIGEST_BYTES = 32
"""BLAKE2b over every byte before the trailer."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
REASONS: tuple[Reason, ...] = get_args(Reason)

_INSTANT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z")


def instant(microseconds: int) -> str:
    """RFC 3339 in UTC with all six digits."""
    return (EPOCH + microseconds * MICROSECOND).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _microseconds(value: object) -> int:
    if not isinstance(value, str) or not _INSTANT.fullmatch(value):
        raise ValueError("must be of the form 2026-01-31T09:30:00.000000Z")
    found = datetime.fromisoformat(value)
    if not 1970 <= found.year <= YEAR_MAX:
        raise ValueError(f"must be between the years 1970 and {YEAR_MAX}")
    return (found - EPOCH) // MICROSECOND


_SCORED_ARMS = TypeAdapter(list[ScoredArm])


def _is_explanation(value: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """It is stored as it was written, by whatever version; but it must be readable."""
    try:
        _SCORED_ARMS.validate_json(orjson.dumps(value), strict=True)
        for arm in value:
            ScoredArm(**arm)  # the validation above covers only the known fields
    except (ValidationError, TypeError):  # orjson's is a TypeError, too
        raise ValueError("must be a list of arms with their scores") from None
    return value


Explanation = Annotated[list[dict[str, Any]], AfterValidator(_is_explanation)]
Instant = Annotated[int, BeforeValidator(_microseconds)]
Count = Annotated[int, Field(ge=0, le=INTEGER_MAX)]
Value = Annotated[float, Field(ge=-NUMBER_MAX * 1e6, le=NUMBER_MAX * 1e6)]
LogFeatures = Annotated[list[Value], Field(max_length=DIMENSION_MAX, fail_fast=True)] | FeatureObject
"""An array where that says all, else values by name: 0 stands for a category that is none of the known ones."""
Propensity = Annotated[float, Field(gt=0, le=1)]
Hexadecimal = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class Opening(Schema, extra="ignore"):
    """The fields of the first line that say whether the rest can be read."""

    format: str
    version: int


class Header(Schema):
    """The campaign at the start of the export. decisions: their number, to show progress.

    subject_key: what its subjects are digested with, without which their decisions would not be found again.
    """

    kind: Literal["header"]
    format: Literal["prudent-campaign"]
    version: Literal[1, 2, 3, 4, 5, 6, 7]
    exported_at: Instant
    campaign_id: CampaignId
    status: CampaignStatus
    revision: Annotated[int, Field(ge=1, le=INTEGER_MAX)]
    learn_limit: Count | None
    head: Count
    arms: Annotated[int, Field(ge=0, le=ARMS_MAX)]
    decisions: Count
    created_at: Instant
    creation: CampaignConfiguration
    configuration: CampaignConfiguration
    subject_key: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")] | None = None


class CategoryLine(Schema):
    """A category that the campaign has learned, in the order of features and positions."""

    kind: Literal["category"]
    feature: Annotated[StoredText, StringConstraints(min_length=1, max_length=200)]
    position: Annotated[int, Field(ge=1, le=DIMENSION_MAX)]
    value: Annotated[StoredText, StringConstraints(min_length=1, max_length=CATEGORY_LENGTH_MAX)]


class ArmLine(Schema):
    """An arm, in the order of registration."""

    kind: Literal["arm"]
    arm_id: ArmId
    status: ArmStatus
    features: LogFeatures | None
    plays: Count
    since: Count = 0
    value: ArmValue = None


class ObservationLine(Schema):
    """A row of the log. digest: of the log up to it, as stored; none in a file of an older version."""

    kind: Literal["observation"]
    sequence: Count
    decision_id: DecisionId | None
    observation_id: Identifier | None
    arm_id: ArmId
    features: LogFeatures
    reward: RewardValue
    source: Literal["reward", "default", "warm-start"]
    propensity: Propensity | None
    observed_at: Instant
    digest: Hexadecimal | None = None


class AmendmentLine(Schema):
    """A row of the log that is no observation. detail: the reason of a correction or an erasure, or a setting.

    An erasure without a decision is of a subject and, without a detail, what is left of one of its rows.
    """

    kind: Literal["correction", "erasure", "configuration"]
    sequence: Count
    decision_id: DecisionId | None
    arm_id: Annotated[str, StringConstraints(max_length=128)]
    reward: RewardValue
    observed_at: Instant
    detail: Annotated[StoredText, StringConstraints(min_length=1)] | None
    digest: Hexadecimal | None


class DecisionLine(Schema):
    """A decision. due_at: of a pending one that has a deadline. seen: how many observations it was based on.

    candidates: None unless the campaign logs them. bonus, index: None stands for infinity, which JSON does not have.
    activation: of one with deferred activation, when it was activated, or `deferred` before. held_out: None where there
    was no holdout that could have had it. allowance: None where there was no baseline.
    """

    kind: Literal["decision"]
    decision_id: DecisionId
    arm_id: ArmId
    features: LogFeatures
    estimate: float
    bonus: float | None
    index: float | None
    reason: Reason
    greedy_arm_id: ArmId
    recommended_arm_id: ArmId | None
    propensity: Propensity | None
    seen: Count
    request_digest: Hexadecimal | None
    explanation: Explanation | None
    created_at: Instant
    due_at: Instant | None
    candidates: CandidateLines | None = None
    activation: Literal["deferred"] | Instant | None = None
    held_out: bool | None = None
    allowance: float | None = None


class Trailer(Schema):
    """The last line. head: of the log, as in the header; digest: of every byte before it."""

    kind: Literal["trailer"]
    arms: Count
    head: Count
    decisions: Count
    digest: str


class FirstTrailer(Schema):
    """The trailer of version 1. observations: the head of the log."""

    kind: Literal["trailer"]
    arms: Count
    observations: Count
    decisions: Count
    digest: str


Line = CategoryLine | ArmLine | ObservationLine | AmendmentLine | DecisionLine | Trailer
_LINES: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="kind")])
_FIRST_LINES: TypeAdapter[ArmLine | ObservationLine | DecisionLine | FirstTrailer] = TypeAdapter(
    Annotated[ArmLine | ObservationLine | DecisionLine | FirstTrailer, Field(discriminator="kind")]
)


def read_line(text: bytes, version: int) -> Line:
    """A line after the header, of a file of this format version. Raises pydantic's ValidationError."""
    if version > 1:
        return _LINES.validate_json(text)
    found = _FIRST_LINES.validate_json(text)
    if not isinstance(found, FirstTrailer):
        return found
    return Trailer(
        kind="trailer", arms=found.arms, head=found.observations, decisions=found.decisions, digest=found.digest
    )


def write(kind: str, fields: dict[str, Any]) -> bytes:
    """One line."""
    return orjson.dumps({"kind": kind, **fields}, option=orjson.OPT_APPEND_NEWLINE)


ShowRow = Callable[[bytes], list[float] | dict[str, Any]]
"""The features of a row as a line has them."""


def write_category(row: CategoryRow) -> bytes:
    """A learned category's line."""
    return write("category", {"feature": row.feature, "position": row.position, "value": row.value})


def write_arm(row: ArmRow, show: ShowRow) -> bytes:
    """An arm's line."""
    features = None if row.features is None else show(row.features)
    return write(
        "arm",
        {
            "arm_id": row.arm_id,
            "status": row.status,
            "features": features,
            "plays": row.plays,
            "since": row.since,
            "value": row.parsed_value,
        },
    )


def write_observation(row: LogRow, show: ShowRow) -> bytes:
    """A log row's line. Its kind is the row's own."""
    fields = row._asdict()
    del fields["key"], fields["kind"]
    if row.kind != OBSERVATION:
        fields = {name: fields[name] for name in AmendmentLine.model_fields if name in fields}
        digest = None if row.digest is None else row.digest.hex()
        return write(row.kind, fields | {"observed_at": instant(row.observed_at), "digest": digest})
    del fields["detail"]
    fields |= {
        "features": show(row.features),
        "observed_at": instant(row.observed_at),
        "digest": None if row.digest is None else row.digest.hex(),
    }
    return write(row.kind, fields)


def write_decision(
    row: DecisionRow, due_at: int | None, show: ShowRow, candidates: LoggedCandidates | None = None
) -> bytes:
    """A decision's line. candidates: those that it keeps."""
    fields = row._asdict()
    del fields["key"]
    fields["index"] = fields.pop("index_value")
    activated_at, held_out = fields.pop("activated_at"), fields.pop("held_out")
    if row.allowance is None:
        del fields["allowance"]
    fields |= {
        "features": show(row.features),
        "request_digest": None if row.request_digest is None else row.request_digest.hex(),
        "explanation": None if row.explanation is None else orjson.Fragment(row.explanation),
        "created_at": instant(row.created_at),
        "due_at": None if due_at is None else instant(due_at),
        "candidates": None if candidates is None else written(candidates, show),
    }
    if activated_at is not None:
        fields["activation"] = DEFERRED if activated_at == NOT_ACTIVATED else instant(activated_at)
    if held_out is not None:
        fields["held_out"] = bool(held_out)
    return write("decision", fields)


def arm_row(line: ArmLine, position: int, features: bytes | None) -> ArmRow:
    """The row that the line was written from, its key not known yet."""
    value = value_to_text(line.value)
    return ArmRow(0, position, line.arm_id, line.status, features, line.plays, line.since, value)


def log_row(line: ObservationLine, key: int, features: bytes) -> LogRow:
    """The row that the line was written from, under another key."""
    digest = None if line.digest is None else bytes.fromhex(line.digest)
    return LogRow(key=key, **(line.__dict__ | {"features": features, "digest": digest}))


def amendment_row(line: AmendmentLine, key: int) -> LogRow:
    """The row that the line was written from, under another key."""
    digest = None if line.digest is None else bytes.fromhex(line.digest)
    kept = {"observation_id": None, "features": b"", "source": "reward", "propensity": None, "digest": digest}
    return LogRow(key=key, **(line.__dict__ | kept))


def decision_row(line: DecisionLine, key: int, features: bytes, candidates: bytes | None) -> DecisionRow:
    """The row that the line was written from, under another key. features, candidates: as they are stored."""
    fields = {name: value for name, value in line.__dict__.items() if name not in {"kind", "index", "activation"}}
    fields |= {
        "features": features,
        "bonus": inf if line.bonus is None else line.bonus,
        "index_value": inf if line.index is None else line.index,
        "request_digest": None if line.request_digest is None else bytes.fromhex(line.request_digest),
        "explanation": None if line.explanation is None else orjson.dumps(line.explanation).decode(),
        "candidates": candidates,
        "held_out": None if line.held_out is None else int(line.held_out),
        "activated_at": NOT_ACTIVATED if line.activation == DEFERRED else line.activation,
    }
    return DecisionRow(key=key, **fields)
