"""How replies are rendered: the bodies that `prudent.api.replies` describes."""

from datetime import UTC, datetime
from typing import Any

import orjson
from fastapi import Response

from prudent.campaigns import configuration_warnings, stored
from prudent.ledger.administration import CampaignRecord
from prudent.ledger.outcomes import Decision, ModelReport, ObserveReceipt, RewardReceipt
from prudent.reporting.decision_log import FoundDecision
from prudent.store.decisions import shown_columns
from prudent.store.read_pool import Reader
from prudent.store.statements import features_from_bytes
from prudent.store.tables import ArmRow, DecisionRow

LAG_HEADER = "Prudent-Replica-Lag"
"""Seconds."""


def render_decision(decision: Decision) -> dict[str, Any]:
    """A decision as SelectReply."""
    row = decision.row
    reply = {"decision_id": row.decision_id, "campaign_id": decision.campaign_id, **render_shown(row)}
    reply["value"] = decision.value
    reply["observations"] = row.seen
    if row.recommended_arm_id is None:
        del reply["recommended_arm_id"]
    if decision.is_repeated is not None:
        reply |= {"repeated": decision.is_repeated, "arm_available": decision.is_available}
    if decision.arms is not None:
        reply["arms"] = decision.arms  # orjson takes them as they are
    return reply


def render_found(found: FoundDecision) -> dict[str, Any]:
    """A stored decision as StoredDecisionReply."""
    row = found.decision.row
    return render_decision(found.decision) | {
        "rewarded": found.is_rewarded,
        "created_at": render_instant(row.created_at),
        "due_at": None if row.due_at is None else render_instant(row.due_at),
    }


def render_shown(row: DecisionRow) -> dict[str, Any]:
    """The part of a decision that every reply about it shows, as DecisionReply."""
    return shown_columns(row) | {"exploring": explores(row)}


def explores(row: DecisionRow) -> bool:
    """Whether another arm was chosen than the one with the best estimate."""
    return row.arm_id != row.greedy_arm_id


def render_receipt(receipt: RewardReceipt) -> dict[str, Any]:
    """A receipt as RewardReply: its fields have the contract's names."""
    return receipt._asdict()


def render_report(report: ObserveReceipt | ModelReport) -> bytes:
    """A report as ObservationsReply or ModelReply, in JSON: its fields have the contract's names."""
    return orjson.dumps(report)


def render_campaign(record: CampaignRecord) -> dict[str, Any]:
    """A campaign as CampaignReply."""
    configuration = stored(record.row.configuration)
    return configuration.model_dump(mode="json") | {
        "arms": [render_arm(record, arm) for arm in record.arms],
        "status": record.row.status,
        "observations": record.row.observations,
        "head": record.row.head,
        "created_at": render_instant(record.row.created_at),
        "warnings": configuration_warnings(configuration),
    }


def render_arm(record: CampaignRecord, arm: ArmRow) -> dict[str, Any]:
    """An arm of a campaign as ArmReply."""
    features = None if arm.features is None else record.show(features_from_bytes(arm.features))
    value = arm.arm_id if arm.value is None else arm.parsed_value
    return {"arm_id": arm.arm_id, "features": features, "value": value, "status": arm.status}


def render_instant(microseconds: int) -> str:
    """RFC 3339 in UTC."""
    return datetime.fromtimestamp(microseconds / 1e6, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


class JsonReply(Response):
    """A JSON body. Starlette's own constructor takes longer than everything else that a reply needs."""

    def __init__(self, body: bytes, status: int) -> None:
        self.status_code = status
        self.body = body
        self.background = None
        self.raw_headers = [(b"content-length", b"%d" % len(body)), (b"content-type", b"application/json")]


def with_lag(response: Response, read: Reader) -> Response:
    """The response, which says how far behind it is if it was read from a replica."""
    if read.lag_seconds is not None:
        response.headers[LAG_HEADER] = f"{read.lag_seconds:.3f}"
    return response


def json_reply(body: Any, status: int = 200) -> Response:
    """A body as JSON, without FastAPI's validation of our own output. Bytes are JSON already."""
    return JsonReply(body if isinstance(body, bytes) else orjson.dumps(body), status)
