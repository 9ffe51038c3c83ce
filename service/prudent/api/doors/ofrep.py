"""OFREP, the protocol of OpenFeature's SDKs: a flag is a campaign, its variants are arms, a targeting key is a subject.

What the SDKs need of an answer is in docs/openfeature.md.
"""

import asyncio
from functools import partial
from hashlib import blake2b
from typing import Any, Literal

import orjson
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, Field
from starlette.types import Scope

from prudent.api.decisions import Errand
from prudent.api.doors.persistence import persistently, settled
from prudent.api.problems import describe_error
from prudent.api.rendering import JsonReply, explores, json_reply
from prudent.api.requests import EvaluationRequest, documented
from prudent.api.server.authentication import ROLE
from prudent.api.server.bodies import Bodies, Raw
from prudent.api.server.middleware import Headers
from prudent.clock import Clock, DecisionIds
from prudent.errors import NotFoundError
from prudent.identifiers import is_id
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Evaluate
from prudent.ledger.flags import CLIENT_SIDE_MAX
from prudent.ledger.outcomes import Decision, SwitchedOff
from prudent.security.keys import FLAGS, Role
from prudent.store.campaigns import find_client_side
from prudent.store.read_pool import Reader
from prudent.store.tables import DecisionRow

Reason = Literal["STATIC", "TARGETING_MATCH", "SPLIT", "DISABLED"]
"""Of those that the SDKs know."""
ErrorCode = Literal["FLAG_NOT_FOUND", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "PARSE_ERROR", "GENERAL"]
NO_FLAG = "there is no such flag"


class FlagMetadata(BaseModel):
    """What is known of the decision; nothing if the flag is off."""

    decisionId: str | None = None  # noqa: N815  # as OpenFeature spells its names
    exploring: bool | None = None
    observations: int
    propensity: float | None = None


class FlagReply(BaseModel):
    """A flag that was evaluated."""

    key: str
    value: Any = Field(description="Of the arm.")
    variant: str = Field(description="The arm.")
    reason: Reason = Field(
        description="STATIC: there was one arm; TARGETING_MATCH: it is the best for this context; SPLIT: it was drawn, "
        "or its turn; DISABLED: the campaign is paused or archived."
    )
    metadata: FlagMetadata


class FlagFailure(BaseModel):
    """Why a flag could not be evaluated."""

    key: str | None = Field(default=None, description="Of the flag; absent if the request is not about one.")
    errorCode: ErrorCode  # noqa: N815
    errorDetails: str  # noqa: N815


class FlagsReply(BaseModel):
    """All flags of web pages and apps."""

    flags: list[FlagReply | FlagFailure]


FAILURES: dict[int | str, dict[str, Any]] = {"default": {"description": "An error", "model": FlagFailure}}


class Flags:
    """Evaluates flags."""

    def __init__(self, ledger: LedgerAccess, read: Reader, bodies: Bodies, clock: Clock) -> None:
        self._ledger, self._read = ledger, read
        self._validate = bodies.validator(EvaluationRequest)
        self._new_id = DecisionIds(clock)

    def command(self, key: str, asked: EvaluationRequest, *, is_deferred: bool) -> Evaluate:
        """The evaluation as a command, which may be submitted again. Raises NotFoundError for no campaign's id."""
        if not is_id(key):
            raise NotFoundError(f"{NO_FLAG}: its key is the id of a campaign")
        subject, attributes = asked.subject_and_attributes
        return Evaluate(
            campaign_id=key,
            decision_id=self._new_id() if subject is None else None,
            context=attributes,
            is_named=True,
            subject=subject,
            is_deferred=is_deferred,
        )

    async def evaluate(self, command: Evaluate) -> Decision | SwitchedOff:
        """What the flag is. Raises CommandError or UnavailableError."""
        outcome: Decision | SwitchedOff = await persistently(lambda: self._ledger.submit(command))
        return outcome

    async def evaluate_all(self, asked: EvaluationRequest) -> dict[str, Any]:
        """What each flag of web pages and apps is, or why it cannot be evaluated, by its key.

        Raises UnavailableError if there is one that could be evaluated later: a page would keep that for long.
        """

        async def attempt() -> dict[str, Any]:
            keys = await self._read(find_client_side, CLIENT_SIDE_MAX)
            outcomes = await self._ledger.submit_all([self.command(key, asked, is_deferred=True) for key in keys])
            return dict(zip(keys, settled(outcomes), strict=True))

        return await persistently(attempt)

    # As a route of the fast lane

    path = f"{FLAGS}/{{key}}"
    role: Role = "writer"
    """An evaluator's request comes from a page of another origin, which is the application's to allow."""

    def start(self, url: bytes, headers: Headers, body: Raw) -> Errand | None:
        """Submit an evaluation; None, or any exception, if the application must answer it."""
        if any(header == b"origin" for header, _ in headers):
            return None
        key = url[url.rfind(b"/") + 1 :].decode()
        command = self.command(key, self._validate(body), is_deferred=False)
        return Errand(asyncio.ensure_future(self.evaluate(command)), partial(_respond, key))


def flag_routes(flags: Flags, bodies: Bodies) -> APIRouter:
    """Evaluation of one flag, and of all flags of web pages and apps."""
    router = APIRouter(tags=["flags"], responses=FAILURES)
    read_request = bodies.of(EvaluationRequest)

    @router.post(
        f"{FLAGS}/{{key:path}}",
        operation_id="evaluateFlag",
        responses={200: {"model": FlagReply}},
        openapi_extra=documented(EvaluationRequest),
        response_class=Response,
    )
    async def evaluate_flag(key: str, request: Request) -> Response:
        """Evaluate a flag, as OFREP providers do: its key is the campaign, its targeting key the subject.

        With an evaluator's key, the decision's activation is deferred.
        """
        is_deferred = request.scope.get(ROLE) == "evaluator"
        command = flags.command(key, await read_request(request), is_deferred=is_deferred)
        return json_reply(render_flag(key, await flags.evaluate(command)))

    @router.post(
        FLAGS,
        operation_id="evaluateFlags",
        responses={200: {"model": FlagsReply}, 304: {"description": "All flags are as they were"}},
        openapi_extra=documented(EvaluationRequest),
        response_class=Response,
    )
    async def evaluate_flags(request: Request) -> Response:
        """Evaluate the flags of all campaigns that are `client_side`. The activation of the decisions is deferred."""
        asked = await read_request(request)
        body = orjson.dumps({"flags": [_item(*one) for one in (await flags.evaluate_all(asked)).items()]})
        etag = f'"{blake2b(body, digest_size=16).hexdigest()}"'
        if etag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers={"ETag": etag})
        response = JsonReply(body, 200)
        response.headers["ETag"] = etag
        return response

    return router


def render_flag(key: str, outcome: Decision | SwitchedOff) -> dict[str, Any]:
    """An evaluated flag as FlagReply. Its metadata has texts, numbers, true and false only: the SDKs drop the rest."""
    if isinstance(outcome, SwitchedOff):
        return _flag(key, outcome.value, outcome.arm_id, "DISABLED", {"observations": outcome.observations})
    row = outcome.row
    metadata: dict[str, Any] = {"decisionId": row.decision_id, "exploring": explores(row), "observations": row.seen}
    if row.propensity is not None:
        metadata["propensity"] = row.propensity
    return _flag(key, outcome.value, row.arm_id, _reason(row), metadata)


def _flag(key: str, value: Any, variant: str, reason: Reason, metadata: dict[str, Any]) -> dict[str, Any]:
    return {"key": key, "value": value, "variant": variant, "reason": reason, "metadata": metadata}


def _reason(row: DecisionRow) -> Reason:
    if row.reason == "only-arm":
        return "STATIC"
    return "TARGETING_MATCH" if row.reason in {"greedy", "index"} and row.propensity == 1.0 else "SPLIT"


def _item(key: str, outcome: Any) -> dict[str, Any]:
    """A flag of several, or why it cannot be evaluated."""
    if isinstance(outcome, Exception):
        return failure(describe_error(outcome), key)
    return render_flag(key, outcome)


def _respond(key: str, evaluation: asyncio.Future[Decision | SwitchedOff]) -> Response:
    try:
        return json_reply(render_flag(key, evaluation.result()))
    except Exception as error:  # noqa: BLE001  # sorted, and logged if it is a defect, by describe_error
        problem = describe_error(error)
        return json_reply(failure(problem, key), status_of(problem))


# Errors


def translate(problem: dict[str, Any], scope: Scope) -> Response:
    """A problem as the response of OFREP to the same request."""
    _, _, key = scope["path"].partition(f"{FLAGS}/")
    body = failure(problem, key or None)
    if body["errorCode"] == "FLAG_NOT_FOUND" and scope.get(ROLE) == "evaluator":
        body["errorDetails"] = NO_FLAG  # a web page is not told the names of other campaigns
    return json_reply(body, status_of(problem))


def failure(problem: dict[str, Any], key: str | None) -> dict[str, Any]:
    """A problem as FlagFailure."""
    body = {} if key is None else {"key": key}
    found = [f"{one['field']}: {one['message']}" for one in problem["errors"] if one["field"] != "body"]
    details = "; ".join(found).replace("subject:", "targetingKey:", 1) or problem["detail"]
    return body | {"errorCode": _error_code(problem), "errorDetails": details}


def status_of(problem: dict[str, Any]) -> int:
    """The statuses that the SDKs take for an answer of OFREP: others are errors of the transport to them."""
    status: int = problem["status"]
    if status in {401, 403, 404}:
        return status
    return 400 if status < 500 else 500


def _error_code(problem: dict[str, Any]) -> ErrorCode:
    status, errors = problem["status"], problem["errors"]
    if status == 404:
        return "FLAG_NOT_FOUND"
    if status in {401, 403, 405, 409} or status >= 500:
        return "GENERAL"
    field = errors[0]["field"].partition(".")[0] if errors else ""
    codes: dict[str, ErrorCode] = {
        "subject": "TARGETING_KEY_MISSING",
        "context": "INVALID_CONTEXT",
        "arms": "GENERAL",  # the campaign has none
    }
    return codes.get(field, "PARSE_ERROR")
