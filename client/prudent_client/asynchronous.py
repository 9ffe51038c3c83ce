"""The client for asyncio: the same calls as `Client`, awaited."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import httpx

from prudent_client.calls import Call, Calls, Pause, Send
from prudent_client.campaigns import NewCampaign
from prudent_client.connection import OnePerPlace, options, this_loop
from prudent_client.errors import RejectedError
from prudent_client.frames import pandas, to_frame
from prudent_client.identifiers import new_id
from prudent_client.models import (
    Arm,
    Campaign,
    Correction,
    Decision,
    Erasure,
    EventReceipt,
    Flag,
    Health,
    Model,
    ObservationsReceipt,
    Receipt,
    StoredDecision,
)
from prudent_client.reports import LoggedDecision, Report
from prudent_client.requests import Event, Features, JsonObject, Observation, Reward, Select
from prudent_client.retries import Retries

if TYPE_CHECKING:
    from pandas import DataFrame

T = TypeVar("T")


class AsyncClient:
    """Talks to one service over kept-alive connections. Close it, or use it with `async with`.

    base_url: such as http://127.0.0.1:8000; api_key: sent as X-API-Key; deadline_seconds: for each call that a user
    waits for (`select`, `evaluate_flag`, `get_decision`, `activate`, `reward`, `reward_subject`, `send_event` and
    `health`), with all its attempts and pauses, None for none; timeout_seconds: for each step of an attempt, such as a
    read (5 at most to connect); retries: how often and when a call is retried; headers: sent with every call;
    transport: a different httpx transport; sleep: how to wait between attempts. Raises ValueError for an invalid URL,
    key or deadline.

    Every call raises the errors of `prudent_client.errors`. Every call can be repeated safely: decisions and
    observations have ids from the start, creations and rewards are idempotent, and so is deleting. Tasks may share
    one client, in one event loop.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        deadline_seconds: float | None = 2.0,
        timeout_seconds: float = 20.0,
        retries: Retries | None = None,
        headers: Mapping[str, str] | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        settings = options(base_url, api_key, timeout_seconds, headers)
        self._http = OnePerPlace(lambda: httpx.AsyncClient(**settings, transport=transport), this_loop)
        self._calls = Calls(base_url, retries or Retries(), deadline_seconds)
        self._sleep = sleep

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.own.aclose()

    async def health(self) -> Health:
        """Check once whether the service is ready. Raises UnavailableError if it is not."""
        return await self._run(self._calls.health())

    async def create_campaign(self, campaign: NewCampaign) -> Campaign:
        """Create a campaign from the body of `POST /campaigns`. Repeating the request returns the campaign."""
        return await self._run(self._calls.create_campaign(campaign))

    async def get_campaign(self, campaign_id: str) -> Campaign:
        """Read a campaign, with all defaults filled in."""
        return await self._run(self._calls.get_campaign(campaign_id))

    async def campaigns(self) -> AsyncIterator[Campaign]:
        """All campaigns, ordered by id, read page by page."""
        cursor: str | None = None
        while True:
            page = await self._run(self._calls.page(cursor))
            for campaign in page.items:
                yield campaign
            cursor = page.next_cursor
            if cursor is None:
                return

    async def change_campaign(
        self,
        campaign_id: str,
        *,
        description: str | None = None,
        status: Literal["active", "paused", "archived"] | None = None,
        algorithm: Mapping[str, Any] | None = None,
        client_side: bool | None = None,
        retention_days: int | None = None,
        log_retention_days: int | None = None,
    ) -> Campaign:
        """Change the changeable fields of a campaign; those that are not given keep their values."""
        changes = {
            "description": description,
            "status": status,
            "algorithm": algorithm,
            "client_side": client_side,
            "retention_days": retention_days,
            "log_retention_days": log_retention_days,
        }
        return await self._run(self._calls.change_campaign(campaign_id, changes))

    async def delete_campaign(self, campaign_id: str) -> None:
        """Delete a campaign with its log, permanently. Deleting one that no longer exists is not an error."""
        await self._run(self._calls.delete_campaign(campaign_id))

    async def erase_subject(self, campaign_id: str, subject: str) -> Erasure:
        """Erase a subject's decisions and what was learned of them, permanently, as if they had never been."""
        return await self._run(self._calls.erase_subject(campaign_id, subject))

    async def add_arm(self, campaign_id: str, arm_id: str, features: Features | None = None, value: Any = None) -> Arm:
        """Add an arm at run time. value: JSON of its own, in place of its id. Repeating the request returns the arm."""
        return await self._run(self._calls.add_arm(campaign_id, arm_id, features, value))

    async def change_arm(
        self,
        campaign_id: str,
        arm_id: str,
        status: Literal["active", "paused", "retired"] | None = None,
        *,
        value: Any = None,
    ) -> Arm:
        """Pause, retire or reactivate an arm, or give it another value; what is not given stays."""
        return await self._run(self._calls.change_arm(campaign_id, arm_id, {"status": status, "value": value}))

    async def select(
        self,
        campaign_id: str,
        *,
        arms: Mapping[str, Features | None] | None = None,
        context: Features | None = None,
        eligible: Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        explore: bool = True,
        explain: bool = False,
        chosen_arm_id: str | None = None,
        subject: str | None = None,
        activation: Literal["immediate", "deferred"] = "immediate",
        decision_id: str | None = None,
        default: str | Arm | None = None,
    ) -> Decision:
        """Make a decision; the arguments are those of `Select`. Keep its decision_id, or subject, for the reward.

        default: an arm, by its id or with its value, that is returned in place of an error, within the deadline;
        `error` of the decision says why.
        """
        request = Select(
            campaign_id=campaign_id,
            arms=arms,
            context=context,
            eligible=eligible,
            exclude=exclude,
            explore=explore,
            explain=explain,
            chosen_arm_id=chosen_arm_id,
            subject=subject,
            activation=activation,
            decision_id=decision_id,
        )
        return await self._run(self._calls.select(request, default))

    async def evaluate_flag(self, key: str, context: Mapping[str, Any]) -> Flag:
        """Evaluate a campaign as a feature flag, by OFREP. context: features and targetingKey; others are ignored."""
        return await self._run(self._calls.evaluate_flag(key, context))

    async def get_decision(self, decision_id: str, *, campaign_id: str | None = None) -> StoredDecision:
        """Read a decision as it was answered, and whether it has been rewarded."""
        return await self._run(self._calls.get_decision(decision_id, campaign_id))

    async def activate(self, decision_id: str, *, campaign_id: str | None = None) -> None:
        """Say that a decision with deferred activation has been shown. Doing so again changes nothing."""
        await self._run(self._calls.activate(decision_id, campaign_id))

    async def reward(
        self, decision_id: str, reward: float, *, arm_id: str | None = None, campaign_id: str | None = None
    ) -> Receipt:
        """Report the outcome of a decision; larger is better. arm_id: the arm that was actually used, if another.

        campaign_id: needed only where several campaigns have used the decision_id, here as in the calls beside this.
        """
        return await self._run(self._calls.reward(Reward(decision_id, reward, arm_id, campaign_id)))

    async def reward_subject(
        self, campaign_id: str, subject: str, reward: float, *, arm_id: str | None = None
    ) -> Receipt:
        """Report the outcome of the latest decision for a subject, in this window of the campaign or the one before."""
        return await self._run(self._calls.reward(Reward(None, reward, arm_id, campaign_id, subject)))

    async def send_event(
        self,
        event: str,
        subject: str,
        value: float | None = None,
        *,
        at: str | None = None,
        event_id: str | None = None,
    ) -> EventReceipt:
        """Report an event; the arguments are those of `Event`. It is a reward in the campaigns that name it."""
        sent = Event(event=event, subject=subject, value=value, at=at, event_id=event_id or new_id())
        return await self._run(self._calls.send_event(sent))

    async def send_events(self, events: Sequence[Event | Mapping[str, Any]]) -> list[EventReceipt | RejectedError]:
        """Report many events. A failed item has its error in its place in the result; it is not raised."""
        return await self._run(self._calls.send_events(events))

    async def correct(
        self, decision_id: str, reward: float | None, reason: str, *, campaign_id: str | None = None
    ) -> Correction:
        """Replace a decision's reward, or take it back with None; the campaign learns as if it had been so.

        Raises ValueError for a reward that is not finite.
        """
        return await self._run(self._calls.correct(decision_id, reward, reason, campaign_id))

    async def restart(self, campaign_id: str, first: int) -> Campaign:
        """Leave out all observations before a row of the campaign's log, by its sequence; 1 brings all back."""
        return await self._run(self._calls.restart(campaign_id, first))

    async def select_batch(self, requests: Sequence[Select | Mapping[str, Any]]) -> list[Decision | RejectedError]:
        """Make many decisions. A failed item has its error in its place in the result; it is not raised."""
        return await self._run(self._calls.select_batch(requests))

    async def reward_batch(self, requests: Sequence[Reward | Mapping[str, Any]]) -> list[Receipt | RejectedError]:
        """Report many rewards. A failed item has its error in its place in the result; it is not raised."""
        return await self._run(self._calls.reward_batch(requests))

    async def observe(
        self, campaign_id: str, observations: Sequence[Observation | Mapping[str, Any]]
    ) -> ObservationsReceipt:
        """Learn from observations made elsewhere; each request of up to 1,000 is accepted as a whole or not at all."""
        return await self._run(self._calls.observe(campaign_id, observations))

    async def model(self, campaign_id: str) -> Model:
        """Read what a campaign has learned."""
        return await self._run(self._calls.model(campaign_id))

    async def report(self, campaign_id: str) -> Report:
        """Read what happened in a campaign."""
        return await self._run(self._calls.report(campaign_id))

    async def decisions(self, campaign_id: str) -> AsyncIterator[LoggedDecision]:
        """All decisions that are still stored with their rewards, newest first, read page by page."""
        cursor: str | None = None
        while True:
            page = await self._run(self._calls.decisions(campaign_id, cursor))
            for decision in page.items:
                yield decision
            cursor = page.next_cursor
            if cursor is None:
                return

    async def export(
        self,
        campaign_id: str,
        format: Literal["csv", "ndjson", "parquet", "dsjson"] | None = None,  # noqa: A002
    ) -> AsyncIterator[bytes]:
        """A campaign as a file, piece by piece: to be imported, or with a format its decisions as a table."""
        response = await self._run(self._calls.export(campaign_id, format))
        try:
            async for piece in response.aiter_bytes():
                yield piece
        except httpx.RequestError as error:
            raise self._calls.unreachable(error) from error
        finally:
            await response.aclose()

    async def frame(self, campaign_id: str) -> "DataFrame":
        """A campaign's decisions with their rewards as a data frame of pandas, oldest first. Raises ImportError."""
        pandas()
        return to_frame(b"".join([piece async for piece in self.export(campaign_id, "ndjson")]))

    async def request(self, method: str, path: str, body: Any = None) -> JsonObject:
        """Make a call that has no method of its own, with the same retries: plain JSON in, a JSON object out."""
        return await self._run(self._calls.json(method, path, body))

    async def request_batch(
        self, path: Literal["/select/batch", "/reward/batch"], items: Sequence[JsonObject]
    ) -> list[JsonObject]:
        """Many plain items in as few requests as the limits allow; plain answers in their order, each with a status.

        For many thousands a second, where making an object of each would take most of the time.
        """
        return await self._run(self._calls.batch(path, items))

    async def _run(self, call: Call[T]) -> T:
        came: httpx.Response | httpx.RequestError | None = None
        while True:
            try:
                step = call.send(came)
            except StopIteration as done:
                result: T = done.value
                return result
            came = None
            if isinstance(step, Pause):
                await self._sleep(step.seconds)
                continue
            came = await self._attempt(step)

    async def _attempt(self, step: Send) -> httpx.Response | httpx.RequestError:
        http = self._http.own
        request = http.build_request(step.method, step.path, content=step.content, headers=step.headers)
        try:
            async with asyncio.timeout(step.seconds):
                response = await http.send(request, stream=step.is_streamed)
                if step.is_streamed and not response.is_success:
                    await response.aread()
        except TimeoutError:
            return httpx.ReadTimeout("the deadline has passed")
        except httpx.RequestError as error:
            return error
        return response
