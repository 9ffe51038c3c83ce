"""Routes that decide and learn. They only parse, submit and render."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import from_json

from service.api import examples
from service.api.bodies import body_of, check_count, documented, floats, read_body
from service.api.problems import ERRORS_COUNTED_MAX, describe_error, describe_validation
from service.api.replies import (
    PROBLEMS,
    Problem,
    RewardBatchReply,
    RewardReply,
    SelectBatchReply,
    SelectReply,
    json_reply,
    render_decision,
    render_receipt,
)
from service.api.requests import RewardBatch, RewardRequest, SelectBatch, SelectRequest
from service.ledger.commands import Command, Reward, Select
from service.ledger.errors import InvalidCommandError
from service.ledger.ledger import Ledger
from service.settings import Limits

Item = TypeVar("Item", bound=BaseModel)


def select_command(request: SelectRequest) -> Select:
    """The request in the ledger's terms. Raises InvalidCommandError for a name that is there twice."""
    for field in ("eligible", "exclude"):
        names = getattr(request, field)
        if names is not None and len(set(names)) != len(names):
            raise InvalidCommandError("names an arm twice", field=field)
    return Select(
        campaign_id=request.campaign_id,
        decision_id=request.decision_id,
        arms=None if request.arms is None else [(arm.arm_id, floats(arm.features)) for arm in request.arms],
        context=floats(request.context),
        eligible=None if request.eligible is None else frozenset(request.eligible),
        exclude=frozenset(request.exclude),
        explore=request.explore,
        explain=request.explain,
        chosen_arm_id=request.chosen_arm_id,
    )


def reward_command(request: RewardRequest) -> Reward:
    """The request in the ledger's terms."""
    return Reward(request.decision_id, request.reward, request.arm_id)


def decision_routes(ledger: Ledger, limits: Limits) -> APIRouter:
    """``/select``, ``/reward`` and their batches."""
    router = APIRouter(tags=["decisions"], responses=PROBLEMS)
    read_select = body_of(SelectRequest, limits.body_bytes_max)
    read_reward = body_of(RewardRequest, limits.body_bytes_max)

    @router.post(
        "/select",
        operation_id="select",
        responses={200: {"model": SelectReply}},
        openapi_extra=documented(SelectRequest, examples.SELECT),
        response_class=Response,
    )
    async def select(request: Request) -> Response:
        """Choose an arm. The decision is durable before the reply.

        The same decision_id with the same request returns the stored decision; with another request it is a 409.
        """
        decision = await ledger.submit(select_command(await read_select(request)))
        return json_reply(render_decision(decision))

    @router.post(
        "/reward",
        operation_id="reward",
        responses={200: {"model": RewardReply}},
        openapi_extra=documented(RewardRequest, examples.REWARD),
        response_class=Response,
    )
    async def reward(request: Request) -> Response:
        """Report a decision's reward. It is durable and learned before the reply.

        The same value again changes nothing (`duplicate: true`); another value is a 409.
        """
        receipt = await ledger.submit(reward_command(await read_reward(request)))
        return json_reply(render_receipt(receipt))

    @router.post(
        "/select/batch",
        operation_id="selectBatch",
        responses={200: {"model": SelectBatchReply}},
        openapi_extra=documented(SelectBatch, {"items": [examples.SELECT]}),
        response_class=Response,
    )
    async def select_batch(request: Request) -> Response:
        """Many selects; one item's failure fails no other."""
        items = read_items(await read_body(request, limits.batch_body_bytes_max), SelectBatch, SelectRequest, limits)
        return await _answer(ledger, items, select_command, render_decision)

    @router.post(
        "/reward/batch",
        operation_id="rewardBatch",
        responses={200: {"model": RewardBatchReply}},
        openapi_extra=documented(RewardBatch, {"items": [examples.REWARD]}),
        response_class=Response,
    )
    async def reward_batch(request: Request) -> Response:
        """Many rewards; one item's failure fails no other."""
        items = read_items(await read_body(request, limits.batch_body_bytes_max), RewardBatch, RewardRequest, limits)
        return await _answer(ledger, items, reward_command, render_receipt)

    return router


class _Envelope(BaseModel):
    """A batch whose items are not validated yet."""

    model_config = {"strict": True, "extra": "forbid"}

    items: list[Any]


def read_items(
    body: bytes, batch: type[SelectBatch | RewardBatch], item: type[Item], limits: Limits
) -> list[Item | ValidationError]:
    """The items of a batch, an error in the place of each that does not fit its schema."""
    try:
        items: Sequence[Any] = batch.model_validate_json(body).items
    except ValidationError as error:
        # some item is wrong, or the envelope: find out which
        if error.error_count() > ERRORS_COUNTED_MAX:
            raise
        try:
            envelope = _Envelope.model_validate(from_json(body))
        except ValueError:  # not JSON, or a ValidationError
            raise error from None
        check_count(envelope.items, limits)
        adapter = TypeAdapter(item)
        return [_validated(adapter, one) for one in envelope.items]
    check_count(items, limits)
    return list(items)


def _validated(adapter: TypeAdapter[Item], item: object) -> Item | ValidationError:
    try:
        return adapter.validate_python(item)
    except ValidationError as error:
        return error


async def _answer(
    ledger: Ledger,
    items: list[Item | ValidationError],
    to_command: Callable[[Item], Command],
    render: Callable[[Any], dict[str, Any]],
) -> Response:
    """Submit the valid items together; answer all in their order."""
    replies: list[dict[str, Any]] = [{}] * len(items)
    places: list[int] = []
    commands: list[Command] = []
    for place, item in enumerate(items):
        if isinstance(item, ValidationError):
            replies[place] = _failed(describe_validation(item))
            continue
        try:
            commands.append(to_command(item))
            places.append(place)
        except InvalidCommandError as error:
            replies[place] = _failed(describe_error(error))
    for place, outcome in zip(places, await ledger.submit_all(commands), strict=True):
        if isinstance(outcome, Exception):
            replies[place] = _failed(describe_error(outcome))
        else:
            reply = replies[place] = render(outcome)
            reply["status"] = 200
    return json_reply({"items": replies})


def _failed(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in ("status", "title", "detail", "errors")}


DOCUMENTED_MODELS: list[type[BaseModel]] = [SelectRequest, RewardRequest, SelectBatch, RewardBatch, Problem]
