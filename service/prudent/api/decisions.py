"""Selects and rewards: their routes, which only parse, submit and render, and their fast lane, which does the same.

Most of what an application framework does for a request (a task, a dozen layers, a queue of messages in each direction)
has no effect on a single select or reward. The lane makes the same checks with the same code: the key, the body's type
and size, its schema. Where one of them objects, or anything is unusual, it does nothing, and the application answers as
if there were no lane. See docs/decisions/0034-fast-lane.md.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

import orjson
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, ValidationError

from prudent.api.problems import describe_error, describe_validation, respond_to
from prudent.api.rendering import json_reply, render_decision, render_found, render_receipt
from prudent.api.replies import (
    PROBLEMS,
    CorrectionReply,
    RewardBatchReply,
    RewardReply,
    SelectBatchReply,
    SelectReply,
    StoredDecisionReply,
)
from prudent.api.requests import (
    WHICH_CAMPAIGN,
    CorrectionRequest,
    RewardBatch,
    RewardRequest,
    SelectBatch,
    SelectRequest,
    documented,
)
from prudent.api.server.authentication import admits, author_of
from prudent.api.server.bodies import BREATH_BYTES, Bodies, Raw, as_given, matrix_of
from prudent.api.server.middleware import Headers, Requests, StrictRoute, guarded
from prudent.api.wording import is_not_json
from prudent.campaigns import Given
from prudent.errors import InvalidCommandError
from prudent.identifiers import ID_PATTERN
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Activate, Command, Correct, Reward, Select
from prudent.ledger.outcomes import Failed
from prudent.observability.logs import request_id
from prudent.reporting.decision_log import read_decision
from prudent.security.keys import KeyRing, Role, role_needed
from prudent.store.read_pool import Reader

DecisionPath = Annotated[str, Path(pattern=ID_PATTERN, description="Decision id.")]
WhichCampaign = Annotated[str | None, Query(pattern=ID_PATTERN, description=WHICH_CAMPAIGN)]
TURN_SECONDS = 0.01
"""After so much of rendering, other requests get a turn."""
Item = TypeVar("Item", bound=BaseModel)
Failure = dict[str, Any]
"""The reply to an item of a batch that failed."""
USUAL_KINDS = frozenset({b"application/json", b"application/json; charset=utf-8"})
"""Of bodies that need no closer look."""


def select_command(request: SelectRequest) -> Select:
    """The request as a command. Raises InvalidCommandError for duplicates in a list of arms, and two ids."""
    if request.subject is not None and request.decision_id is not None:
        raise InvalidCommandError("cannot be sent with a decision_id: send one of them", field="subject")
    for field in ("eligible", "exclude"):
        names = getattr(request, field)
        if names is not None and len(set(names)) != len(names):
            raise InvalidCommandError("lists an arm twice", field=field)
    arms, matrix = request.arms, None
    listed: list[tuple[str, Given | None]] | None = None
    is_named = isinstance(request.context, dict)
    if arms is not None:
        matrix = matrix_of([arm.features for arm in arms])
        rows = [as_given(arm.features) for arm in arms] if matrix is None else matrix
        is_named = is_named or (matrix is None and any(isinstance(row, dict) for row in rows))
        listed = [(arm.arm_id, row) for arm, row in zip(arms, rows, strict=True)]
    return Select(
        campaign_id=request.campaign_id,
        decision_id=request.decision_id,
        arms=listed,
        matrix=matrix,
        context=as_given(request.context),
        eligible=None if request.eligible is None else frozenset(request.eligible),
        exclude=frozenset(request.exclude),
        explore=request.explore,
        explain=request.explain,
        chosen_arm_id=request.chosen_arm_id,
        is_named=is_named,
        subject=request.subject,
        is_deferred=request.activation == "deferred",
    )


def reward_command(request: RewardRequest) -> Reward:
    """The request as a command. Raises InvalidCommandError unless it names one decision."""
    if request.decision_id is None and request.subject is None:
        raise InvalidCommandError("required, or else campaign_id and subject", field="decision_id")
    if request.subject is not None:
        if request.decision_id is not None:
            raise InvalidCommandError("cannot be sent with a decision_id: send one of them", field="subject")
        if request.campaign_id is None:
            raise InvalidCommandError("required with a subject", field="campaign_id")
    return Reward(request.decision_id, request.reward, request.arm_id, request.campaign_id, request.subject)


def decision_routes(ledger: LedgerAccess, read: Reader, bodies: Bodies) -> APIRouter:
    """``/select``, ``/reward`` and their batches; single decisions."""
    router = APIRouter(tags=["decisions"], responses=PROBLEMS, route_class=StrictRoute)
    read_select, read_reward = bodies.of(SelectRequest), bodies.of(RewardRequest)
    read_correction = bodies.of(CorrectionRequest)
    read_selects = bodies.batches_of(SelectBatch, item_reader(bodies.validator(SelectRequest), select_command))
    read_rewards = bodies.batches_of(RewardBatch, item_reader(bodies.validator(RewardRequest), reward_command))

    @router.post(
        "/select",
        operation_id="select",
        responses={200: {"model": SelectReply}},
        openapi_extra=documented(SelectRequest),
        response_class=Response,
    )
    async def select(request: Request) -> Response:
        """Choose an arm. The decision is durable before the reply.

        The same decision_id with the same request returns the stored decision; with a different request, 409. With a
        subject, the first decision stands for as long as the campaign's assignment says.
        """
        decision = await ledger.submit(select_command(await read_select(request)))
        return json_reply(render_decision(decision))

    @router.post(
        "/reward",
        operation_id="reward",
        responses={200: {"model": RewardReply}},
        openapi_extra=documented(RewardRequest),
        response_class=Response,
    )
    async def reward(request: Request) -> Response:
        """Report the reward of a decision. It is durable and learned before the reply.

        Sending the same value again changes nothing (`duplicate: true`); a different value is a 409.
        """
        receipt = await ledger.submit(reward_command(await read_reward(request)))
        return json_reply(render_receipt(receipt))

    @router.get(
        "/decisions/{decision_id}",
        operation_id="getDecision",
        responses={200: {"model": StoredDecisionReply}},
        response_class=Response,
    )
    async def get_decision(decision_id: DecisionPath, campaign_id: WhichCampaign = None) -> Response:
        """Read a decision as it was answered, and whether it has been rewarded."""
        return json_reply(render_found(await read(read_decision, decision_id, campaign_id)))

    @router.post(
        "/decisions/{decision_id}/activate",
        operation_id="activateDecision",
        status_code=204,
        response_class=Response,
    )
    async def activate_decision(
        request: Request, decision_id: DecisionPath, campaign_id: WhichCampaign = None
    ) -> Response:
        """Say that a decision with deferred activation has been shown. Repeating it changes nothing."""
        await bodies.refuse(request, "must be empty: this path takes the campaign_id in its query, as ?campaign_id=ID")
        await ledger.submit(Activate(decision_id, campaign_id))
        return Response(status_code=204)

    @router.post(
        "/decisions/{decision_id}/correction",
        operation_id="correctReward",
        responses={200: {"model": CorrectionReply}},
        openapi_extra=documented(CorrectionRequest),
        response_class=Response,
    )
    async def correct_reward(decision_id: DecisionPath, request: Request) -> Response:
        """Replace the reward of a decision, or take it back with null: the campaign learns as if it had been so.

        The log keeps both. The campaign's state is folded anew from its log before its next use.
        """
        correction = await read_correction(request)
        command = Correct(decision_id, correction.reward, correction.reason, correction.campaign_id)
        receipt = await ledger.correct(command, author_of(request))
        return json_reply(receipt._asdict())

    @router.post(
        "/select/batch",
        operation_id="selectBatch",
        responses={200: {"model": SelectBatchReply}},
        openapi_extra=documented(SelectBatch),
        response_class=Response,
    )
    async def select_batch(request: Request) -> Response:
        """Up to 1,000 selects. A failed item does not affect the others."""
        return await _answer(ledger, await read_selects(request), render_decision)

    @router.post(
        "/reward/batch",
        operation_id="rewardBatch",
        responses={200: {"model": RewardBatchReply}},
        openapi_extra=documented(RewardBatch),
        response_class=Response,
    )
    async def reward_batch(request: Request) -> Response:
        """Up to 1,000 rewards. A failed item does not affect the others."""
        return await _answer(ledger, await read_rewards(request), render_receipt)

    return router


def item_reader(
    validate: Callable[[Raw], Item], to_command: Callable[[Item], Command]
) -> Callable[[Raw], Command | Failure]:
    """Turns an item of a batch into a command, or into the problem to reply with."""

    def read(item: Raw) -> Command | Failure:
        try:
            return to_command(validate(item))
        except ValidationError as error:
            if is_not_json(error):
                raise  # the whole body is not JSON
            return _failed(describe_validation(error, size=len(item)))
        except InvalidCommandError as error:
            return _failed(describe_error(error))

    return read


async def _answer(
    ledger: LedgerAccess, items: list[Command | Failure], render: Callable[[Any], dict[str, Any]]
) -> Response:
    """Submit the valid items together; answer all in their order."""
    outcomes = iter(await ledger.submit_all([item for item in items if not isinstance(item, dict)]))
    replies: list[bytes] = []
    rested = time.perf_counter()
    for item in items:
        outcome = item if isinstance(item, dict) else next(outcomes)
        if isinstance(outcome, dict):
            reply = outcome
        elif isinstance(outcome, Exception):
            reply = _failed(describe_error(outcome))
        else:
            reply = render(outcome) | {"status": 200}
        replies.append(orjson.dumps(reply))
        if time.perf_counter() - rested > TURN_SECONDS:  # a thousand explanations have a million arms
            await asyncio.sleep(0)
            rested = time.perf_counter()
    return json_reply(b'{"items":[%s]}' % b",".join(replies))


def _failed(body: dict[str, Any]) -> Failure:
    return {name: body[name] for name in ("status", "title", "detail", "errors")}


# The fast lane


class Errand(NamedTuple):
    """Commands that have been submitted, and the response once it is known what became of them."""

    outcomes: asyncio.Future[Any]
    respond: Callable[[asyncio.Future[Any]], Response]


class LaneRoute(Protocol):
    """A route of the lane. path: its template; a parameter ends it. role: what a key's must include."""

    path: str
    role: Role

    def start(self, url: bytes, headers: Headers, body: Raw) -> Errand | None:
        """Submit a request's command; None, or any exception, if the application must answer it."""


class _Route:
    """A path, how its body becomes a command, and how the command's result is rendered."""

    def __init__(
        self, ledger: LedgerAccess, path: str, read: Callable[[Raw], Command], render: Callable[[Any], dict[str, Any]]
    ) -> None:
        self.path, self.role = path, role_needed("POST", path) or "admin"
        self._ledger, self._read, self._render = ledger, read, render

    def start(self, _url: bytes, _headers: Headers, body: Raw) -> Errand:
        return Errand(self._ledger.enqueue([self._read(body)]), self._respond)

    def _respond(self, outcomes: asyncio.Future[list[Any]]) -> Response:
        try:
            (outcome,) = outcomes.result()
            if isinstance(outcome, Failed):
                raise outcome.error
            return json_reply(self._render(outcome))
        except Exception as error:  # noqa: BLE001  # sorted, and logged if it is a defect, by respond_to
            return respond_to(error)


class Passage(NamedTuple):
    """A request whose command has been submitted."""

    outcomes: asyncio.Future[Any]
    respond: Callable[[asyncio.Future[Any]], Response]
    path: str
    own_id: str
    started: float


class FastLane:
    """Takes requests between a connection's parser and the ledger. others: routes besides those of this module."""

    def __init__(
        self,
        ledger: LedgerAccess,
        bodies: Bodies,
        ring: KeyRing | None,
        requests: Requests,
        others: Iterable[LaneRoute] = (),
    ) -> None:
        self._ring, self._requests = ring, requests
        read_select, read_reward = bodies.validator(SelectRequest), bodies.validator(RewardRequest)
        routes: tuple[LaneRoute, ...] = (
            _Route(ledger, "/select", lambda body: select_command(read_select(body)), render_decision),
            _Route(ledger, "/reward", lambda body: reward_command(read_reward(body)), render_receipt),
            *others,
        )
        self._routes = {route.path.partition("{")[0].encode(): route for route in routes}
        self._bytes_max = min(BREATH_BYTES, bodies.bytes_max)

    def takes(self, method: bytes, url: bytes, size: int | None) -> bool:
        """Whether a request with this head may be for the lane. size: of the body, if declared."""
        is_known = url in self._routes or url[: url.rfind(b"/") + 1] in self._routes
        return is_known and method == b"POST" and size is not None and 0 < size <= self._bytes_max

    def enter(self, url: bytes, headers: Headers, body: Raw) -> Passage | None:
        """Submit the command of a request; None if the application must answer it."""
        started = time.perf_counter()
        route = self._routes.get(url) or self._routes[url[: url.rfind(b"/") + 1]]
        if self._ring is not None and not admits(self._ring, route.role, headers):
            return None
        kinds = [value for name, value in headers if name in {b"content-type", b"content-encoding"}]
        if len(kinds) != 1 or kinds[0] not in USUAL_KINDS:
            return None
        try:
            errand = route.start(url, headers, body)
        except Exception:  # noqa: BLE001  # whatever it is: the application reads the body again, and answers
            return None
        if errand is None:
            return None
        return Passage(*errand, route.path, self._requests.id_of(headers), started)

    def leave(self, passage: Passage) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
        """The response to a request whose outcome is known: status, headers and body. It counts as answered now."""
        request_id.set(passage.own_id)  # a callback has a context of its own
        response = passage.respond(passage.outcomes)
        self._requests.count(passage.path, "POST", response.status_code, passage.started)
        return response.status_code, guarded(response.raw_headers, passage.own_id), bytes(response.body)
