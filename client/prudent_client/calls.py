"""Every call of the client, without input or output: what to send, when to wait, and what the answer means.

A call is a generator. It yields what is to be done next and is sent what came of it, so that the two clients differ
only in how they send and wait.
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx
from pydantic import ValidationError

from prudent_client.encoding import decode, encode
from prudent_client.errors import (
    AGAIN,
    NotFoundError,
    RejectedError,
    UnexpectedReplyError,
    UnreachableError,
    rejection,
    rejection_of,
)
from prudent_client.models import (
    Arm,
    Campaign,
    CampaignPage,
    Correction,
    Decision,
    Erasure,
    EventReceipt,
    Health,
    Model,
    ObservationsReceipt,
    Receipt,
    Reply,
    StoredDecision,
)
from prudent_client.requests import Event, Features, JsonObject, Observation, Reward, Select, as_sent
from prudent_client.retries import Retries

BATCH_ITEMS_MAX = 1_000
BATCH_BYTES_MAX = 15 * 2**18
"""The service takes 4 MiB; a little is left for the frame around the items."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; go on with the response, or with the httpx.RequestError that came instead."""

    method: str
    path: str
    content: bytes | None = None

    @property
    def headers(self) -> dict[str, str] | None:
        """What the content is, if there is any."""
        return None if self.content is None else {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; go on with None."""

    seconds: float


T = TypeVar("T")
ReplyT = TypeVar("ReplyT", bound=Reply)
Call = Generator[Send | Pause, Any, T]

_WILL_NOT_CHANGE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Calls:
    """The calls to one service. Each may raise the errors of `prudent_client.errors`."""

    def __init__(self, base_url: str, retries: Retries) -> None:
        self._base_url, self._retries = base_url, retries

    def send(self, method: str, path: str, body: Any = None, *, attempts: int | None = None) -> Call[httpx.Response]:
        """One request, retried while nothing answers or the status allows it. body: JSON, or its bytes."""
        content = body if body is None or isinstance(body, bytes) else encode(body)
        step = Send(method, path, content)
        last = attempts or self._retries.attempts
        for attempt in range(1, last + 1):
            got = yield step
            if isinstance(got, httpx.RequestError):
                if attempt == last or isinstance(got, _WILL_NOT_CHANGE):
                    reason = str(got) or type(got).__name__
                    raise UnreachableError(f"no answer from {self._base_url}: {reason}") from got
                yield Pause(self._retries.pause_seconds(attempt))
                continue
            if got.status_code not in AGAIN or attempt == last:
                break
            yield Pause(self._retries.pause_seconds(attempt, got.headers.get("retry-after")))
        response: httpx.Response = got
        if response.is_redirect:
            raise UnexpectedReplyError(f"{response.request.url} redirects to another address")
        if not response.is_success:
            raise rejection_of(response)
        return response

    def json(self, method: str, path: str, body: Any = None) -> Call[JsonObject]:
        """One request, answered with a JSON object."""
        return _object((yield from self.send(method, path, body)))

    def health(self) -> Call[Health]:
        """A single attempt: a caller that waits for a service wants its present state."""
        return _parse(Health, (yield from self.send("GET", "/health/ready", attempts=1)))

    def create_campaign(self, campaign: Mapping[str, Any]) -> Call[Campaign]:
        """Repeating the request returns the campaign."""
        return _parse(Campaign, (yield from self.send("POST", "/campaigns", dict(campaign))))

    def page(self, cursor: str | None) -> Call[CampaignPage]:
        """A page of campaigns, the first without a cursor."""
        query = "" if cursor is None else "?" + urlencode({"cursor": cursor})
        return _parse(CampaignPage, (yield from self.send("GET", f"/campaigns{query}")))

    def get_campaign(self, campaign_id: str) -> Call[Campaign]:
        """A campaign as resolved."""
        return _parse(Campaign, (yield from self.send("GET", campaign_path(campaign_id))))

    def change_campaign(self, campaign_id: str, changes: Mapping[str, Any]) -> Call[Campaign]:
        """Changes that are None are left out."""
        body = {name: value for name, value in changes.items() if value is not None}
        return _parse(Campaign, (yield from self.send("PATCH", campaign_path(campaign_id), body)))

    def delete_campaign(self, campaign_id: str) -> Call[None]:
        """A campaign that no longer exists is not an error: the answer to an earlier attempt may have been lost."""
        query = urlencode({"confirm": campaign_id})
        try:
            yield from self.send("DELETE", f"{campaign_path(campaign_id)}?{query}")
        except NotFoundError:
            return

    def erase_subject(self, campaign_id: str, subject: str) -> Call[Erasure]:
        """A subject that is unknown is not an error: the answer to an earlier attempt may have been lost."""
        path = f"{campaign_path(campaign_id)}/subjects/{quote(subject, safe='')}"
        return _parse(Erasure, (yield from self.send("DELETE", path)))

    def add_arm(self, campaign_id: str, arm_id: str, features: Features | None, value: Any) -> Call[Arm]:
        """Repeating the request returns the arm."""
        arm = {"arm_id": arm_id, "features": None if features is None else as_sent(features), "value": value}
        return _parse(Arm, (yield from self.send("POST", f"{campaign_path(campaign_id)}/arms", arm)))

    def change_arm(self, campaign_id: str, arm_id: str, changes: Mapping[str, Any]) -> Call[Arm]:
        """Changes that are None are left out."""
        path = f"{campaign_path(campaign_id)}/arms/{quote(arm_id, safe='')}"
        return _parse(
            Arm,
            (
                yield from self.send(
                    "PATCH", path, {name: value for name, value in changes.items() if value is not None}
                )
            ),
        )

    def model(self, campaign_id: str) -> Call[Model]:
        """What a campaign has learned."""
        return _parse(Model, (yield from self.send("GET", f"{campaign_path(campaign_id)}/model")))

    def select(self, request: Select) -> Call[Decision]:
        """One decision."""
        return _parse(Decision, (yield from self.send("POST", "/select", request.body())))

    def get_decision(self, decision_id: str) -> Call[StoredDecision]:
        """A decision as it was answered."""
        return _parse(StoredDecision, (yield from self.send("GET", decision_path(decision_id))))

    def activate(self, decision_id: str) -> Call[None]:
        """A decision has been shown."""
        yield from self.send("POST", f"{decision_path(decision_id)}/activate")

    def reward(self, request: Reward) -> Call[Receipt]:
        """One reward."""
        return _parse(Receipt, (yield from self.send("POST", "/reward", request.body())))

    def send_event(self, event: Event) -> Call[EventReceipt]:
        """One event."""
        return _parse(EventReceipt, (yield from self.send("POST", "/events", event.body())))

    def send_events(self, events: Sequence[Event]) -> Call[list[EventReceipt | RejectedError]]:
        """Many events."""
        answers = yield from self.batch("/events/batch", [one.body() for one in events])
        return _results(EventReceipt, answers, [one.event_id for one in events])

    def correct(self, decision_id: str, reward: float | None, reason: str) -> Call[Correction]:
        """Another reward for a decision, or none."""
        path, body = f"{decision_path(decision_id)}/correction", {"reward": reward, "reason": reason}
        return _parse(Correction, (yield from self.send("POST", path, body)))

    def restart(self, campaign_id: str, first: int) -> Call[Campaign]:
        """Where a campaign's log begins to count."""
        return _parse(
            Campaign, (yield from self.send("POST", f"{campaign_path(campaign_id)}/restart", {"from": first}))
        )

    def select_batch(self, requests: Sequence[Select]) -> Call[list[Decision | RejectedError]]:
        """Many decisions."""
        answers = yield from self.batch("/select/batch", [one.body() for one in requests])
        return _results(Decision, answers, [one.decision_id or one.subject for one in requests])

    def reward_batch(self, requests: Sequence[Reward]) -> Call[list[Receipt | RejectedError]]:
        """Many rewards."""
        answers = yield from self.batch("/reward/batch", [one.body() for one in requests])
        return _results(Receipt, answers, [one.decision_id or one.subject for one in requests])

    def observe(self, campaign_id: str, observations: Sequence[Observation]) -> Call[ObservationsReceipt]:
        """Observations made elsewhere, in parts within the limits. Without any, the counts are the campaign's own."""
        receipts = []
        for _, content in _parts([one.body() for one in observations]):
            response = yield from self.send("POST", f"{campaign_path(campaign_id)}/observations", content)
            receipts.append(_parse(ObservationsReceipt, response))
        last = receipts[-1] if receipts else (yield from self.get_campaign(campaign_id))
        return ObservationsReceipt(
            accepted=sum(one.accepted for one in receipts),
            duplicates=sum(one.duplicates for one in receipts),
            observations=last.observations,
            head=last.head,
        )

    def batch(self, path: str, items: Sequence[JsonObject]) -> Call[list[JsonObject]]:
        """Items in as few requests as the limits allow; answers in their order. Only busy items are sent again."""
        answers: list[JsonObject] = []
        for part, content in _parts(items):
            answers += yield from self._part(path, part, content)
        return answers

    def _part(self, path: str, items: Sequence[JsonObject], content: bytes) -> Call[list[JsonObject]]:
        answers: list[JsonObject] = [{}] * len(items)
        waiting: Sequence[int] = range(len(items))
        for attempt in range(1, self._retries.attempts + 1):
            received = _object((yield from self.send("POST", path, content))).get("items")
            if not isinstance(received, list) or len(received) != len(waiting):
                raise UnexpectedReplyError(f"the reply to {path} does not match the items of the request")
            for index, answer in zip(waiting, received, strict=True):
                if not isinstance(answer, dict) or not isinstance(answer.get("status"), int):
                    raise UnexpectedReplyError(f"the reply to {path} has an item without a status")
                answers[index] = answer
            waiting = [index for index in waiting if answers[index]["status"] in AGAIN]
            if not waiting or attempt == self._retries.attempts:
                break
            yield Pause(self._retries.pause_seconds(attempt))
            content = _frame([items[index] for index in waiting])
        return answers


def campaign_path(campaign_id: str) -> str:
    """The path of a campaign."""
    return f"/campaigns/{quote(campaign_id, safe='')}"


def decision_path(decision_id: str) -> str:
    """The path of a decision."""
    return f"/decisions/{quote(decision_id, safe='')}"


def _results(
    kind: type[ReplyT], answers: Sequence[JsonObject], ids: Sequence[str | None]
) -> list[ReplyT | RejectedError]:
    return [
        valid(kind, answer)
        if httpx.codes.is_success(answer["status"])
        else rejection(answer["status"], answer, item=own_id)
        for answer, own_id in zip(answers, ids, strict=True)
    ]


def _parts(items: Sequence[JsonObject]) -> Iterator[tuple[Sequence[JsonObject], bytes]]:
    """Cut items into parts within the limits, each with the body of its request."""
    for first in range(0, len(items), BATCH_ITEMS_MAX):
        part = items[first : first + BATCH_ITEMS_MAX]
        content = _frame(part)
        if len(content) <= BATCH_BYTES_MAX:
            yield part, content
        else:
            yield from ((smaller, _frame(smaller)) for smaller in _within_bytes(part))


def _within_bytes(items: Sequence[JsonObject]) -> Iterator[Sequence[JsonObject]]:
    start, size = 0, 0
    for position, item in enumerate(items):
        length = len(encode(item)) + 1
        if position > start and size + length > BATCH_BYTES_MAX:
            yield items[start:position]
            start, size = position, 0
        size += length
    yield items[start:]


def _frame(items: Sequence[JsonObject]) -> bytes:
    return encode({"items": items})


def _object(response: httpx.Response) -> JsonObject:
    try:
        content = decode(response.content)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise UnexpectedReplyError(f"{response.request.url} did not answer with a JSON object")
    return content


def _parse(kind: type[ReplyT], response: httpx.Response) -> ReplyT:
    return valid(kind, _object(response))


def valid(kind: type[ReplyT], answer: JsonObject) -> ReplyT:
    """The answer as an object of this kind. Raises UnexpectedReplyError if it is not one."""
    try:
        return kind.model_validate(answer)
    except ValidationError as error:
        raise UnexpectedReplyError(f"the reply is not a valid {kind.__name__}: see {_fields(error)}") from error


def _fields(error: ValidationError) -> str:
    return ", ".join(".".join(map(str, row["loc"])) for row in error.errors()[:5])
