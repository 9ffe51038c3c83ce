"""Routes of campaigns, their arms, warm starts and models."""

import asyncio
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import orjson
import structlog
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field
from sqlalchemy import Connection

from prudent.api.rendering import json_reply, render_arm, render_campaign, render_report
from prudent.api.replies import (
    PROBLEMS,
    ArmReply,
    CampaignListReply,
    CampaignReply,
    FeaturesReply,
    ModelReply,
    ObservationsReply,
)
from prudent.api.requests import (
    ArmChange,
    ArmRequest,
    CampaignChange,
    ObservationBatch,
    ObservationItem,
    RestartRequest,
    decode_cursor,
    documented,
    encode_cursor,
)
from prudent.api.server.authentication import author_of
from prudent.api.server.bodies import Bodies, as_given
from prudent.api.server.middleware import StrictRoute
from prudent.campaigns import CampaignConfiguration, resolve, stored
from prudent.campaigns.configuration import MultiArmedModel, SharedModel
from prudent.campaigns.values import own_value
from prudent.errors import InvalidCommandError, NotFoundError
from prudent.identifiers import ID_PATTERN
from prudent.ledger.access import LedgerAccess
from prudent.ledger.administration import CampaignRecord, find_record, list_records
from prudent.ledger.commands import (
    AddArm,
    ChangeArm,
    ChangeCampaign,
    CreateCampaign,
    DeleteCampaign,
    Describe,
    EraseDecisions,
    Observe,
    RestartCampaign,
    WarmStart,
)
from prudent.ledger.erasing import ERASED_AT_ONCE, find_decisions_of
from prudent.ledger.missing import NO_CAMPAIGN, no_campaign
from prudent.ledger.outcomes import ModelReport
from prudent.store.read_pool import Reader

logger = structlog.get_logger(__name__)

CampaignPath = Annotated[str, Path(pattern=ID_PATTERN, description="Campaign id.")]
SubjectPath = Annotated[str, Path(min_length=1, max_length=256, description="Subject, percent-encoded.")]
ArmPath = Annotated[str, Path(pattern=ID_PATTERN, description="Arm id.")]
LIST_MAX = 1_000
LIST_SLICE, LIST_BYTES_MAX = 20, 4 * 2**20
"""Campaigns that are read at a time, and bytes after which a page of them ends: one may have a megabyte."""


class ErasureReply(BaseModel):
    """What was erased of a subject."""

    campaign_id: str
    decisions: int
    rows: int = Field(description="Of the log: rewards, and corrections of them.")


def campaign_routes(ledger: LedgerAccess, read: Reader, bodies: Bodies) -> APIRouter:
    """Create, list, read, change and delete campaigns."""
    router = APIRouter(tags=["campaigns"], responses=PROBLEMS, route_class=StrictRoute)
    read_creation = bodies.of(CampaignConfiguration)
    read_change = bodies.of(CampaignChange)
    read_restart = bodies.of(RestartRequest)

    @router.post(
        "/campaigns",
        operation_id="createCampaign",
        status_code=201,
        responses={
            201: {"model": CampaignReply},
            200: {"model": CampaignReply, "description": "The same campaign was created before"},
        },
        openapi_extra=documented(CampaignConfiguration),
        response_class=Response,
    )
    async def create_campaign(request: Request) -> Response:
        """Create a campaign. Repeating the same request returns 200; a different request for the same id, 409."""
        requested = await read_creation(request)
        resolve(requested)  # a request that makes no sense is refused before it waits for its turn
        record = await ledger.administer(CreateCampaign(requested), author_of(request))
        return _campaign(record)

    @router.get(
        "/campaigns",
        operation_id="listCampaigns",
        responses={200: {"model": CampaignListReply}},
        response_class=Response,
    )
    async def list_campaigns(
        limit: Annotated[int, Query(ge=1, le=LIST_MAX)] = 100,
        cursor: Annotated[str | None, Query(max_length=256, description="next_cursor of the previous page.")] = None,
    ) -> Response:
        """List campaigns, ordered by id. A page of large ones may have fewer than `limit`."""
        after = "" if cursor is None else decode_cursor(cursor, ID_PATTERN)[0]
        return json_reply(await read(_read_page, after, limit))

    @router.get(
        "/campaigns/{campaign_id}",
        operation_id="getCampaign",
        responses={200: {"model": CampaignReply}},
        response_class=Response,
    )
    async def get_campaign(campaign_id: CampaignPath) -> Response:
        """Read a campaign with all defaults filled in."""
        found = await read(_read_campaign, campaign_id)
        if found is None:
            raise await read(no_campaign, campaign_id)
        return json_reply(found)

    @router.patch(
        "/campaigns/{campaign_id}",
        operation_id="changeCampaign",
        responses={200: {"model": CampaignReply}},
        openapi_extra=documented(CampaignChange),
        response_class=Response,
    )
    async def change_campaign(campaign_id: CampaignPath, request: Request) -> Response:
        """Change the description, the status, or what may change of the algorithm: how it explores and forgets."""
        change = await read_change(request)
        record = await ledger.administer(
            ChangeCampaign(
                campaign_id,
                change.description,
                change.status,
                change.algorithm,
                change.client_side,
                change.retention_days,
                change.log_retention_days,
            ),
            author_of(request),
        )
        return _campaign(record)

    @router.post(
        "/campaigns/{campaign_id}/restart",
        operation_id="restartCampaign",
        responses={200: {"model": CampaignReply}},
        openapi_extra=documented(RestartRequest),
        response_class=Response,
    )
    async def restart_campaign(campaign_id: CampaignPath, request: Request) -> Response:
        """Start again from a row of the log: earlier observations no longer count. Repeated with 1, all count again."""
        restart = await read_restart(request)
        return _campaign(await ledger.administer(RestartCampaign(campaign_id, restart.first), author_of(request)))

    @router.delete(
        "/campaigns/{campaign_id}",
        operation_id="deleteCampaign",
        status_code=204,
        response_class=Response,
    )
    async def delete_campaign(
        campaign_id: CampaignPath,
        request: Request,
        confirm: Annotated[
            str | None, Query(max_length=128, description="The campaign's id again, as a confirmation.")
        ] = None,
    ) -> Response:
        """Delete a campaign with its decisions and its log. This cannot be undone."""
        if confirm != campaign_id:
            raise InvalidCommandError(
                "must repeat the campaign_id, because deleting cannot be undone: ?confirm=CAMPAIGN_ID", field="confirm"
            )
        await ledger.administer(DeleteCampaign(campaign_id), author_of(request))
        return Response(status_code=204)

    @router.delete(
        "/campaigns/{campaign_id}/subjects/{subject:path}",
        operation_id="eraseSubject",
        responses={200: {"model": ErasureReply}},
        response_class=Response,
    )
    async def erase_subject(campaign_id: CampaignPath, subject: SubjectPath, request: Request) -> Response:
        """Erase a subject's decisions and what was learned of them, as if they had never been. It cannot be undone."""
        ids = await read.in_pages(find_decisions_of, campaign_id, subject)
        if ids is None:
            raise await read(no_campaign, campaign_id)
        parts = [ids[first : first + ERASED_AT_ONCE] for first in range(0, len(ids), ERASED_AT_ONCE)]
        receipts = [await ledger.erase(EraseDecisions(campaign_id, part), author_of(request)) for part in parts]
        erased = {name: sum(getattr(one, name) for one in receipts) for name in ("decisions", "rows")}
        return json_reply({"campaign_id": campaign_id, **erased})

    return router


def _readable(records: Iterable[CampaignRecord]) -> Iterator[dict[str, Any]]:
    """As replies. One campaign whose settings are damaged must not take the others out of the list."""
    for record in records:
        try:
            yield render_campaign(record)
        except ValueError:
            logger.exception("a campaign's settings cannot be read", campaign_id=record.row.campaign_id)


def arm_routes(ledger: LedgerAccess, bodies: Bodies) -> APIRouter:
    """Add arms and change their status."""
    router = APIRouter(tags=["arms"], responses=PROBLEMS, route_class=StrictRoute)
    read_arm = bodies.of(ArmRequest)
    read_change = bodies.of(ArmChange)

    @router.post(
        "/campaigns/{campaign_id}/arms",
        operation_id="addArm",
        status_code=201,
        responses={201: {"model": ArmReply}, 200: {"model": ArmReply, "description": "The same arm was added before"}},
        openapi_extra=documented(ArmRequest),
        response_class=Response,
    )
    async def add_arm(campaign_id: CampaignPath, request: Request) -> Response:
        """Add an arm at run time. Repeating the request returns 200; other features or values for the arm_id, 409."""
        arm = await read_arm(request)
        command = AddArm(campaign_id, arm.arm_id, as_given(arm.features), own_value(arm.arm_id, arm.value))
        return _arm(await ledger.administer(command, author_of(request)), arm.arm_id)

    @router.patch(
        "/campaigns/{campaign_id}/arms/{arm_id}",
        operation_id="changeArm",
        responses={200: {"model": ArmReply}},
        openapi_extra=documented(ArmChange),
        response_class=Response,
    )
    async def change_arm(campaign_id: CampaignPath, arm_id: ArmPath, request: Request) -> Response:
        """Pause, retire or reactivate an arm, or change its value."""
        change = await read_change(request)
        sent = change.model_fields_set
        if not sent:
            raise InvalidCommandError("required, unless value is sent", field="status")
        status, value = change.status if "status" in sent else None, own_value(arm_id, change.value)
        command = ChangeArm(campaign_id, arm_id, status, value, "value" in sent)
        return _arm(await ledger.administer(command, author_of(request)), arm_id)

    return router


def learning_routes(ledger: LedgerAccess, read: Reader, bodies: Bodies) -> APIRouter:
    """Warm starts, and what the model has learned."""
    router = APIRouter(tags=["learning"], responses=PROBLEMS, route_class=StrictRoute)
    validate = bodies.validator(ObservationItem)
    read_batch = bodies.batches_of(ObservationBatch, lambda raw: _warm_start(validate(raw)))

    @router.post(
        "/campaigns/{campaign_id}/observations",
        operation_id="observe",
        responses={200: {"model": ObservationsReply}},
        openapi_extra=documented(ObservationBatch),
        response_class=Response,
    )
    async def observe(campaign_id: CampaignPath, request: Request) -> Response:
        """Learn observations made elsewhere: all of them or, if one is invalid, none."""
        observations = await read_batch(request)
        return json_reply(render_report(await ledger.submit(Observe(campaign_id, observations))))

    @router.get(
        "/campaigns/{campaign_id}/model",
        operation_id="getModel",
        responses={200: {"model": ModelReply}},
        response_class=Response,
    )
    async def get_model(campaign_id: CampaignPath) -> Response:
        """Read what the model has learned, and what can be guaranteed about it."""
        report = await ledger.submit(Describe(campaign_id))
        return json_reply(await asyncio.to_thread(render_report, report))  # up to some megabytes

    @router.get(
        "/campaigns/{campaign_id}/features",
        operation_id="getFeatures",
        responses={200: {"model": FeaturesReply}},
        response_class=Response,
    )
    async def get_features(campaign_id: CampaignPath) -> Response:
        """Read the schema of named features, and what was learned and seen of each."""
        record = await read(find_record, campaign_id)
        if record is None:
            raise await read(no_campaign, campaign_id)
        return json_reply(features_reply(await ledger.submit(Describe(campaign_id)), record))

    return router


def features_reply(report: ModelReport, record: CampaignRecord) -> dict[str, Any]:
    """What is known of a campaign's features, as FeaturesReply."""
    model = stored(record.row.configuration).model
    schema = [] if isinstance(model, MultiArmedModel) else model.features or []
    context = model.context_features or [] if isinstance(model, SharedModel) else []
    described = [one.model_dump(mode="json") for one in (*schema, *context)]
    known = report.features or []
    return {
        "campaign_id": report.campaign_id,
        "observations": report.observations,
        "dimension": None if isinstance(model, MultiArmedModel) else model.dimension,
        "interactions": [] if isinstance(model, MultiArmedModel) else model.interactions,
        "frozen_at": report.frozen_at,
        "features": [{"schema": one, **found} for one, found in zip(described, known, strict=True)],
    }


def _warm_start(item: ObservationItem) -> WarmStart:
    when = item.observed_at
    return WarmStart(
        arm_id=item.arm_id,
        reward=item.reward,
        features=as_given(item.features),
        context=as_given(item.context),
        observation_id=item.observation_id,
        observed_at=None if when is None else round(when.timestamp() * 1e6),
        propensity=item.propensity,
    )


def _read_campaign(connection: Connection, campaign_id: str) -> bytes | None:
    """A campaign as JSON, rendered off the event loop: it may have a thousand arms with their features."""
    record = find_record(connection, campaign_id)
    return None if record is None else orjson.dumps(render_campaign(record))


def _read_page(connection: Connection, after: str, limit: int) -> bytes:
    """A page as CampaignListReply: so many campaigns after an id, or as many as fit."""
    items: list[bytes] = []
    size = 0
    while True:
        records = list_records(connection, after=after, limit=LIST_SLICE)
        for record in records:
            if len(items) == limit or size > LIST_BYTES_MAX:
                return _page(items, encode_cursor(after))
            rendered = [orjson.dumps(reply) for reply in _readable([record])]
            items += rendered
            size += sum(map(len, rendered))
            after = record.row.campaign_id or ""
        if len(records) < LIST_SLICE:
            return _page(items, None)


def _page(items: list[bytes], next_cursor: str | None) -> bytes:
    return b'{"items":[%s],"next_cursor":%s}' % (b",".join(items), orjson.dumps(next_cursor))


def _campaign(record: CampaignRecord | None) -> Response:
    if record is None:
        raise NotFoundError(NO_CAMPAIGN)
    return json_reply(render_campaign(record), 201 if record.created else 200)


def _arm(record: CampaignRecord | None, arm_id: str) -> Response:
    if record is not None:
        for arm in record.arms:
            if arm.arm_id == arm_id:
                return json_reply(render_arm(record, arm), 201 if record.created else 200)
    raise NotFoundError("there is no such arm")
