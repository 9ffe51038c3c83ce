"""Events: what applications report anyway, in four dialects, as rewards of the subjects that they are about.

`POST /events` takes an event of our own form, a track call of Segment's or RudderStack's webhooks, or a CloudEvent in
structured JSON. What the dialects have beside a name, an id, a subject and a time is left to the campaigns, whose
rules say where in an event its reward is.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, NamedTuple

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, RootModel, TypeAdapter, ValidationError

from prudent.api.problems import describe_error, describe_validation
from prudent.api.rendering import json_reply
from prudent.api.replies import PROBLEMS, FailedItemReply, ItemStatus
from prudent.api.requests import EventBatch, EventRequest, Instant, documented
from prudent.api.server.bodies import Bodies, Raw
from prudent.api.server.middleware import StrictRoute
from prudent.campaigns.events import EventName
from prudent.campaigns.values import Subject
from prudent.errors import CommandError, ConflictError, InvalidCommandError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import LearnEvent
from prudent.observability.metrics import Metrics
from prudent.store.events import find_campaigns
from prudent.store.read_pool import Reader

EventId = Annotated[str, Field(min_length=1, max_length=256)]


class AnyEvent(RootModel[dict[str, Any]]):
    """An event of any dialect."""


class Foreign(BaseModel):
    """What is read of an event that another system sends as it is; the rest is for the campaigns' rules."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)


SomeSubject = Annotated[Subject | None, BeforeValidator(lambda value: None if value == "" else value)]
"""RudderStack sends an empty text for a user who is not known."""


class TrackCall(Foreign):
    """A track call of Segment or RudderStack."""

    messageId: EventId  # noqa: N815  # their name
    event: EventName
    userId: SomeSubject = None  # noqa: N815
    anonymousId: SomeSubject = None  # noqa: N815
    timestamp: Instant | None = None


class CloudEvent(Foreign):
    """A CloudEvent 1.0 in structured JSON. Its id is unique for its source only."""

    specversion: Literal["1.0"]
    id: EventId
    source: EventId
    type: EventName
    subject: Subject
    time: Instant | None = None


class Event(NamedTuple):
    """An event of any dialect. body: None for one of our own, whose reward is made of its value."""

    event_id: str
    name: str
    subject: str
    value: float | None
    at: int | None
    body: Mapping[str, Any] | None
    size: int


_NATIVE, _TRACK, _CLOUD = TypeAdapter(EventRequest), TypeAdapter(TrackCall), TypeAdapter(CloudEvent)


def read_event(given: dict[str, Any], size: int) -> Event | None:
    """The event; None for a call of Segment's that tracks nothing. Raises ValidationError and InvalidCommandError.

    size: in bytes.
    """
    if "specversion" in given:
        cloud = _CLOUD.validate_python(given)
        own_id = orjson.dumps([cloud.source, cloud.id]).decode()
        return Event(own_id, cloud.type, cloud.subject, None, _microseconds(cloud.time), given, size)
    if "messageId" in given:
        if given.get("type", "track") != "track":
            return None
        call = _TRACK.validate_python(given)
        subject = call.userId or call.anonymousId
        if subject is None:
            raise InvalidCommandError("required, or else anonymousId", field="userId")
        return Event(call.messageId, call.event, subject, None, _microseconds(call.timestamp), given, size)
    own = _NATIVE.validate_python(given)
    return Event(own.event_id, own.event, own.subject, own.value, _microseconds(own.at), None, size)


def _microseconds(when: datetime | None) -> int | None:
    return None if when is None else round(when.timestamp() * 1e6)


class RewardedReply(BaseModel):
    """A reward that an event was."""

    campaign_id: str
    decision_id: str
    reward: float
    duplicate: bool = Field(description="Whether this event had been learned before.")


class RefusedReply(BaseModel):
    """A campaign that refused an event, and learned nothing from it."""

    campaign_id: str
    detail: str = Field(description="Why, as in an error.")


class EventReply(BaseModel):
    """The rewards that an event was: one for each campaign that names it and had a decision waiting."""

    rewarded: list[RewardedReply]
    refused: list[RefusedReply] = Field(description="Campaigns that had one waiting, too, but did not take this event.")


class EventItemReply(EventReply, ItemStatus):
    """An event of a batch."""


class EventBatchReply(BaseModel):
    """Answers in the order of the items."""

    items: list[EventItemReply | FailedItemReply]


def event_routes(ledger: LedgerAccess, read: Reader, bodies: Bodies, metrics: Metrics) -> APIRouter:
    """``/events`` and its batch."""
    router = APIRouter(tags=["events"], responses=PROBLEMS, route_class=StrictRoute)
    validate = bodies.validator(AnyEvent)

    def with_size(body: Raw) -> tuple[dict[str, Any], int]:
        return validate(body).root, len(body)

    receive, receive_batch = bodies.converted(with_size), bodies.batches_of(EventBatch, with_size)

    async def take(given: Sequence[tuple[dict[str, Any], int]]) -> list[Answer | Exception]:
        """Have every campaign learn these events that names them. What became of each, or why it was refused."""
        events = [_read_or_error(*one) for one in given]
        names = {event.name for event in events if isinstance(event, Event)}
        campaigns = await read(find_campaigns, names) if names else {}
        commands, places = [], []
        for place, event in enumerate(events):
            if isinstance(event, Event):
                own = [_command(event, campaign_id) for campaign_id in campaigns.get(event.name, [])]
                commands += own
                places += [place] * len(own)
        outcomes: list[list[tuple[str, Any]]] = [[] for _ in events]
        for place, command, outcome in zip(places, commands, await ledger.submit_all(commands), strict=True):
            outcomes[place].append((command.campaign_id, outcome))
        return [
            event if isinstance(event, Exception) else answer(event, own)
            for event, own in zip(events, outcomes, strict=True)
        ]

    def answer(event: Event | None, outcomes: Sequence[tuple[str, Any]]) -> Answer | Exception:
        """What became of an event, from what each campaign says of it. It is an error if none takes it and one refuses.

        Of the forms whose senders could do nothing about a conflict, a conflict is no error.
        """
        rewarded, refused = [], []
        for campaign_id, outcome in outcomes:
            if isinstance(outcome, CommandError):
                metrics.events.labels("conflict" if isinstance(outcome, ConflictError) else "refused").inc()
                refused.append(Refusal(campaign_id, outcome))
            elif isinstance(outcome, Exception):
                return outcome
            elif outcome.decision_id is not None:
                metrics.events.labels("duplicate" if outcome.duplicate else "rewarded").inc()
                rewarded.append(outcome._asdict())
        if not rewarded:
            is_own = event is None or event.body is None
            errors = [one for one in refused if is_own or not isinstance(one.error, ConflictError)]
            if errors:
                return _error_of(errors)
            metrics.events.labels("unmatched").inc()
        reply = {"rewarded": rewarded, "refused": [one.described() for one in refused]}
        return Answer(200 if rewarded else 202, reply)

    @router.post(
        "/events",
        operation_id="sendEvent",
        responses={
            200: {"model": EventReply},
            202: {"model": EventReply, "description": "No decision of the subject waits for this event"},
        },
        openapi_extra=documented(EventRequest),
        response_class=Response,
    )
    async def send_event(request: Request) -> Response:
        """Report an event: a reward in every campaign that names it, for the subject's latest decision without one.

        Takes this form, track calls of Segment and RudderStack, and CloudEvents 1.0 in structured JSON. The same event
        again changes nothing; another one with its id is a 409, and for senders that cannot react a 202. A campaign
        that refuses it keeps no other from it: it is an error only if no campaign takes it.
        """
        (taken,) = await take([await receive(request)])
        if isinstance(taken, Exception):
            raise taken
        return json_reply(taken.reply, taken.status)

    @router.post(
        "/events/batch",
        operation_id="sendEventBatch",
        responses={200: {"model": EventBatchReply}},
        openapi_extra=documented(EventBatch),
        response_class=Response,
    )
    async def send_event_batch(request: Request) -> Response:
        """Up to 1,000 events, of any of the forms. A failed one does not affect the others."""
        items = await take(await receive_batch(request))
        return json_reply({"items": [_rendered(item) for item in items]})

    return router


class Refusal(NamedTuple):
    """Why a campaign refused an event."""

    campaign_id: str
    error: CommandError

    def described(self) -> dict[str, str]:
        """As RefusedReply."""
        return {"campaign_id": self.campaign_id, "detail": describe_error(self.error)["detail"]}


class Answer(NamedTuple):
    """What became of an event: a status, and the reply."""

    status: int
    reply: dict[str, Any]


def _read_or_error(given: dict[str, Any], size: int) -> Event | Exception | None:
    try:
        return read_event(given, size)
    except (ValidationError, InvalidCommandError) as error:
        return error


def _error_of(refused: Sequence[Refusal]) -> CommandError:
    """The error to answer where no campaign takes an event: the first one's, with its name."""
    campaign_id, error = refused[0]
    others = f", and {len(refused) - 1} more refused it" if len(refused) > 1 else ""
    return type(error)(f"{error.message} (campaign {campaign_id}{others})", field=error.field)


def _command(event: Event, campaign_id: str) -> LearnEvent:
    subject, value, at, body, size = event[2:]
    return LearnEvent(campaign_id, subject, event.event_id, event.name, value, body, at, size)


def _rendered(item: Answer | Exception) -> dict[str, Any]:
    """An item of a batch, with its status."""
    if isinstance(item, Answer):
        return item.reply | {"status": item.status}
    body = describe_validation(item) if isinstance(item, ValidationError) else describe_error(item)
    return {name: body[name] for name in ("status", "title", "detail", "errors")}
