"""Every call of the client, without input or output: what to send, when to wait, and what the answer means.

A call is a generator. It yields what is to be done next and is sent what came of it, so that the two clients differ
only in how they send and wait.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from logging import getLogger
from math import isfinite, nan
from threading import TIMEOUT_MAX
from time import monotonic
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

import httpx

from prudent_client.batches import body_of, in_parts, results
from prudent_client.campaigns import NewCampaign
from prudent_client.encoding import decode, encode
from prudent_client.errors import (
    AGAIN,
    ClientError,
    NotFoundError,
    RejectedError,
    UnexpectedReplyError,
    UnreachableError,
    rejection_of,
)
from prudent_client.identifiers import new_id
from prudent_client.models import (
    Arm,
    Campaign,
    CampaignPage,
    Correction,
    Decision,
    Erasure,
    EventReceipt,
    Flag,
    Health,
    Model,
    ObservationsReceipt,
    Receipt,
    ReplyT,
    StoredDecision,
    valid,
)
from prudent_client.reports import DecisionPage, Report
from prudent_client.requests import Event, Features, JsonObject, Observation, Reward, Select, as_sent, requests_of
from prudent_client.retries import Retries

logger = getLogger("prudent_client")

PAGE_ITEMS = 1_000
"""Of the decisions of a campaign, as many as the service gives at once."""


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; go on with the response, or with the httpx.RequestError that came instead.

    seconds: after which it is given up, whatever is still missing of the response; None: httpx's time-outs only.
    is_streamed: whether the body of a success is left to be read piece by piece.
    """

    method: str
    path: str
    content: bytes | None = None
    seconds: float | None = None
    is_streamed: bool = False

    @property
    def headers(self) -> dict[str, str] | None:
        """What the content is, if there is any."""
        return None if self.content is None else {"content-type": "application/json"}


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait; go on with None."""

    seconds: float


T = TypeVar("T")
Call = Generator[Send | Pause, Any, T]

_WILL_NOT_CHANGE = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)


class Calls:
    """The calls to one service. Each may raise the errors of `prudent_client.errors`.

    deadline_seconds: for the calls that a user waits for, with all their attempts and pauses; None for none.
    """

    def __init__(
        self,
        base_url: str,
        retries: Retries,
        deadline_seconds: float | None,
    ) -> None:
        if deadline_seconds is not None and not 0 < deadline_seconds <= TIMEOUT_MAX:
            raise ValueError(f"deadline_seconds must be above 0 and finite, or None for none, not {deadline_seconds}")
        self._base_url, self._retries, self._deadline_seconds = base_url, retries, deadline_seconds

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        attempts: int | None = None,
        seconds: float | None = None,
        is_streamed: bool = False,
    ) -> Call[httpx.Response]:
        """One request, retried while nothing answers or the status allows it. body: JSON, or its bytes.

        seconds: for all attempts, and the pauses between them: there is no pause that would end too late.
        """
        content = body if body is None or isinstance(body, bytes) else encode(body)
        until = None if seconds is None else monotonic() + seconds
        last = attempts or self._retries.attempts
        for attempt in range(1, last + 1):
            left = None if until is None else max(0.0, until - monotonic())
            got = yield Send(method, path, content, left, is_streamed)
            failed = isinstance(got, httpx.RequestError)
            if not failed and got.status_code not in AGAIN:
                break
            pause = self._retries.pause_seconds(attempt, None if failed else got.headers.get("retry-after"))
            is_last = attempt == last or (until is not None and monotonic() + pause >= until)
            if failed and (is_last or isinstance(got, _WILL_NOT_CHANGE)):
                raise self.unreachable(got, seconds) from got
            if is_last:
                break
            yield Pause(pause)
        response: httpx.Response = got
        if response.is_redirect:
            raise UnexpectedReplyError(f"{response.request.url} redirects to another address")
        if not response.is_success:
            raise rejection_of(response)
        return response

    def in_time(self, method: str, path: str, body: Any = None, *, attempts: int | None = None) -> Call[httpx.Response]:
        """One request that a user waits for: `send` within the deadline."""
        return self.send(method, path, body, attempts=attempts, seconds=self._deadline_seconds)

    def unreachable(self, error: httpx.RequestError, seconds: float | None = None) -> UnreachableError:
        """What to raise where this came instead of a response, or of the rest of one. seconds: the deadline."""
        if seconds is not None and isinstance(error, httpx.TimeoutException):
            return UnreachableError(f"no answer from {self._base_url} within {seconds:g} s")
        return UnreachableError(f"no answer from {self._base_url}: {str(error) or type(error).__name__}")

    def json(self, method: str, path: str, body: Any = None) -> Call[JsonObject]:
        """One request, answered with a JSON object."""
        return _object((yield from self.send(method, path, body)))

    def health(self) -> Call[Health]:
        """A single attempt: a caller that waits for a service wants its present state."""
        return _parse(Health, (yield from self.in_time("GET", "/health/ready", attempts=1)))

    def create_campaign(self, campaign: NewCampaign) -> Call[Campaign]:
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
        path = f"{campaign_path(campaign_id)}/subjects/{_step(subject)}"
        return _parse(Erasure, (yield from self.send("DELETE", path)))

    def add_arm(self, campaign_id: str, arm_id: str, features: Features | None, value: Any) -> Call[Arm]:
        """Repeating the request returns the arm."""
        arm = {"arm_id": arm_id, "features": None if features is None else as_sent(features), "value": value}
        return _parse(Arm, (yield from self.send("POST", f"{campaign_path(campaign_id)}/arms", arm)))

    def change_arm(self, campaign_id: str, arm_id: str, changes: Mapping[str, Any]) -> Call[Arm]:
        """Changes that are None are left out."""
        path = f"{campaign_path(campaign_id)}/arms/{_step(arm_id)}"
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

    def report(self, campaign_id: str) -> Call[Report]:
        """What happened."""
        return _parse(Report, (yield from self.send("GET", f"{campaign_path(campaign_id)}/report")))

    def decisions(self, campaign_id: str, cursor: str | None) -> Call[DecisionPage]:
        """A page of decisions, the latest without a cursor."""
        query = urlencode({"limit": PAGE_ITEMS} | ({} if cursor is None else {"cursor": cursor}))
        return _parse(DecisionPage, (yield from self.send("GET", f"{campaign_path(campaign_id)}/decisions?{query}")))

    def export(self, campaign_id: str, form: str | None) -> Call[httpx.Response]:
        """A file whose pieces are still to be read."""
        query = "" if form is None else "?" + urlencode({"format": form})
        return self.send("GET", f"{campaign_path(campaign_id)}/export{query}", is_streamed=True)

    def select(self, request: Select, default: str | Arm | None) -> Call[Decision]:
        """One decision; the default, if there is one, whatever goes wrong."""
        body = encode(request.body())
        try:
            return _parse(Decision, (yield from self.in_time("POST", "/select", body)))
        except ClientError as error:
            if default is None:
                raise
            logger.warning("campaign %s: its default in place of a decision: %s", request.campaign_id, error)
            return fallback(request, default, error)

    def evaluate_flag(self, key: str, context: Mapping[str, Any]) -> Call[Flag]:
        """A decision in the form of OFREP."""
        path = f"/ofrep/v1/evaluate/flags/{_step(key)}"
        # OFREP has no decision_id: without a targeting key each attempt would be a decision of its own
        attempts = None if context.get("targetingKey") else 1
        return _parse(Flag, (yield from self.in_time("POST", path, {"context": as_sent(context)}, attempts=attempts)))

    def get_decision(self, decision_id: str, campaign_id: str | None) -> Call[StoredDecision]:
        """A decision as it was answered."""
        path = f"{decision_path(decision_id)}{_of_campaign(campaign_id)}"
        return _parse(StoredDecision, (yield from self.in_time("GET", path)))

    def activate(self, decision_id: str, campaign_id: str | None) -> Call[None]:
        """A decision has been shown."""
        yield from self.in_time("POST", f"{decision_path(decision_id)}/activate{_of_campaign(campaign_id)}")

    def reward(self, request: Reward) -> Call[Receipt]:
        """One reward."""
        return _parse(Receipt, (yield from self.in_time("POST", "/reward", request.body())))

    def send_event(self, event: Event) -> Call[EventReceipt]:
        """One event."""
        return _parse(EventReceipt, (yield from self.in_time("POST", "/events", event.body())))

    def send_events(self, given: Sequence[Event | Mapping[str, Any]]) -> Call[list[EventReceipt | RejectedError]]:
        """Many events."""
        events = requests_of(Event, given)
        answers = yield from self.batch("/events/batch", [one.body() for one in events])
        return results(EventReceipt, answers, [one.event_id for one in events])

    def correct(self, decision_id: str, reward: float | None, reason: str, campaign_id: str | None) -> Call[Correction]:
        """Another reward for a decision, or none. Raises ValueError for a reward that is not finite."""
        if reward is not None and not isfinite(reward):  # JSON has null in its place, which takes the reward back
            raise ValueError(f"the reward must be a finite number, or None to take it back, not {reward}")
        body = {"reward": reward, "reason": reason} | ({} if campaign_id is None else {"campaign_id": campaign_id})
        return _parse(Correction, (yield from self.send("POST", f"{decision_path(decision_id)}/correction", body)))

    def restart(self, campaign_id: str, first: int) -> Call[Campaign]:
        """Where a campaign's log begins to count."""
        return _parse(
            Campaign, (yield from self.send("POST", f"{campaign_path(campaign_id)}/restart", {"from": first}))
        )

    def select_batch(self, given: Sequence[Select | Mapping[str, Any]]) -> Call[list[Decision | RejectedError]]:
        """Many decisions."""
        requests = requests_of(Select, given)
        answers = yield from self.batch("/select/batch", [one.body() for one in requests])
        return results(Decision, answers, [one.decision_id or one.subject for one in requests])

    def reward_batch(self, given: Sequence[Reward | Mapping[str, Any]]) -> Call[list[Receipt | RejectedError]]:
        """Many rewards."""
        subject_or_id = ({"decision_id": None, **one} if isinstance(one, Mapping) else one for one in given)
        requests = requests_of(Reward, subject_or_id)
        answers = yield from self.batch("/reward/batch", [one.body() for one in requests])
        return results(Receipt, answers, [one.decision_id or one.subject for one in requests])

    def observe(self, campaign_id: str, given: Sequence[Observation | Mapping[str, Any]]) -> Call[ObservationsReceipt]:
        """Observations made elsewhere, in parts within the limits. Without any, the counts are the campaign's own."""
        observations = requests_of(Observation, given)
        receipts = []
        for _, content in in_parts([one.body() for one in observations]):
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
        for part, content in in_parts(items):
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
            content = body_of([items[index] for index in waiting])
        return answers


def fallback(request: Select, default: str | Arm, error: ClientError) -> Decision:
    """The default in place of the decision that this request did not get."""
    arm_id, value = (default, None) if isinstance(default, str) else (default.arm_id, default.value)
    return Decision(
        campaign_id=request.campaign_id,
        decision_id=request.decision_id or new_id(),
        arm_id=arm_id,
        value=arm_id if value is None else value,
        estimate=nan,
        bonus=None,
        index=None,
        reason="default",
        greedy_arm_id=arm_id,
        exploring=False,
        propensity=None,
        seen=0,
        observations=0,
        error=str(error),
    )


def campaign_path(campaign_id: str) -> str:
    """The path of a campaign."""
    return f"/campaigns/{_step(campaign_id)}"


def decision_path(decision_id: str) -> str:
    """The path of a decision."""
    return f"/decisions/{_step(decision_id)}"


def _step(text: str) -> str:
    """A text as one step of a path. Dots alone would be taken for a way up, to another call."""
    return quote(text, safe="") if text.strip(".") else "%2E" * len(text)


def _of_campaign(campaign_id: str | None) -> str:
    return "" if campaign_id is None else "?" + urlencode({"campaign_id": campaign_id})


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
