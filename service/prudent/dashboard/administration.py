"""What an admin does in the browser: campaigns and arms are made, changed and put away, by the commands of the API."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

import orjson
from fastapi import APIRouter, Request, Response

from prudent.api.requests import ArmRequest
from prudent.api.server.authentication import author_of
from prudent.api.server.bodies import as_given
from prudent.campaigns import CampaignConfiguration, RowReader, resolve, stored
from prudent.campaigns.values import own_value
from prudent.dashboard import creation
from prudent.dashboard.confirmation import Confirmations, Question, Step, seen
from prudent.dashboard.formatting import shortened
from prudent.dashboard.forms import Field, Values, parsed
from prudent.dashboard.rendering import Pages, address, page
from prudent.dashboard.rules import rules
from prudent.dashboard.trail import LISTED_MAX, changes
from prudent.errors import ConflictError, NotFoundError
from prudent.identifiers import is_id
from prudent.ledger.access import LedgerAccess
from prudent.ledger.administration import CampaignRecord, find_record
from prudent.ledger.commands import AddArm, ArmStatus, CampaignStatus, ChangeArm, ChangeCampaign, CreateCampaign
from prudent.ledger.missing import no_arm, no_campaign
from prudent.security.sessions import Sessions
from prudent.store import trail
from prudent.store.read_pool import Reader

ARMS_NAMED_MAX = 20
FACT_MAX = 200
"""Characters of what was filled in, on the page that confirms it."""
S = TypeVar("S", bound=str)


class Words(NamedTuple):
    """What is said before something gets a status."""

    question: str
    meaning: str
    button: str


STATUSES: Mapping[CampaignStatus, Words] = {
    "active": Words(
        "Make {} active?",
        "It answers selects, and learns; first the rewards that waited, in order.",
        "Make it active",
    ),
    "paused": Words(
        "Pause the learning of {}?",
        "Selects are answered by the model as it is now. Rewards are stored and wait: they are learned, in order, once "
        "the campaign is active again. Nothing is lost.",
        "Pause learning",
    ),
    "archived": Words(
        "Archive {}?",
        "It answers no select any more: your program gets an error. Rewards of earlier decisions are still learned, "
        "all pages and exports stay, and it can be made active again.",
        "Archive",
    ),
}
ARM_STATUSES: Mapping[ArmStatus, Words] = {
    "active": Words(
        "Make arm {} active again?", "Selects may choose it, from what was learned of it.", "Make it active"
    ),
    "paused": Words(
        "Pause arm {}?",
        "No select chooses it until it is active again. What was learned of it is kept, and rewards of its earlier "
        "decisions still count.",
        "Pause",
    ),
    "retired": Words(
        "Retire arm {}?",
        "No select chooses it any more. What was learned of it is kept, and rewards of its earlier decisions still "
        "count. It is left out where the campaign is cloned.",
        "Retire",
    ),
}


def administration_routes(ledger: LedgerAccess, read: Reader, pages: Pages, sessions: Sessions) -> APIRouter:
    """``/dashboard/manage/campaigns`` and ``/dashboard/manage/trail``."""
    router = APIRouter(include_in_schema=False)
    confirmations = Confirmations(router, pages, sessions)

    async def record_of(campaign_id: str) -> CampaignRecord:
        record = await read(find_record, campaign_id) if is_id(campaign_id) else None
        if record is None:
            raise await read(no_campaign, campaign_id)
        return record

    @page(router, pages, "/dashboard/manage/trail")
    async def show_trail(request: Request) -> Response:
        return pages.render(
            request, "trail.html", changes=changes(await read(trail.latest, LISTED_MAX)), most=LISTED_MAX
        )

    @confirmations.add("/dashboard/manage/campaigns")
    async def create(request: Request) -> Step:
        return creating(request, None)

    @confirmations.add("/dashboard/manage/campaigns/{campaign_id}/clone")
    async def clone(request: Request, campaign_id: str) -> Step:
        return creating(request, await record_of(campaign_id))

    def creating(request: Request, source: CampaignRecord | None) -> Step:
        async def do(values: Values) -> Response:
            requested = creation.requested(values, source)
            record = await ledger.administer(CreateCampaign(requested), author_of(request, "dashboard"))
            if record is None or not record.created:
                raise ConflictError("this very campaign exists already", field="campaign_id")
            return seen(address(request, "campaigns", requested.campaign_id))

        like = None if source is None else source.row.campaign_id or ""
        notes = creation.left_out(source)
        return Step(
            back=address(request, "campaigns", like) if like else address(request),
            ask=lambda values: _about(creation.requested(values, source), notes),
            do=do,
            title="New campaign" if like is None else f"Clone {like}",
            text=notes,
            values={} if source is None else creation.like(source),
            tidied=creation.tidy,
            template="campaign_form.html",
            names=creation.NAMES,
            settings=creation.SETTINGS if source is None else {},
        )

    @confirmations.add("/dashboard/manage/campaigns/{campaign_id}/status/{status}")
    async def change_status(request: Request, campaign_id: str, status: str) -> Step:
        record = await record_of(campaign_id)
        change = ChangeCampaign(campaign_id, status=_known(status, STATUSES))
        here = address(request, "campaigns", campaign_id)

        async def do(_values: Values) -> Response:
            await ledger.administer(change, author_of(request, "dashboard"))
            return seen(here)

        return Step(here, lambda _: _question(STATUSES, status, campaign_id, record.row.status), do)

    @confirmations.add("/dashboard/manage/campaigns/{campaign_id}/arms/{arm_id}/status/{status}")
    async def change_arm(request: Request, campaign_id: str, arm_id: str, status: str) -> Step:
        statuses = {arm.arm_id: arm.status for arm in (await record_of(campaign_id)).arms}
        if arm_id not in statuses:
            raise no_arm(arm_id, statuses)
        change = ChangeArm(campaign_id, arm_id, _known(status, ARM_STATUSES))
        here = address(request, "campaigns", campaign_id)

        async def do(_values: Values) -> Response:
            await ledger.administer(change, author_of(request, "dashboard"))
            return seen(here)

        return Step(here, lambda _: _question(ARM_STATUSES, status, arm_id, statuses[arm_id]), do)

    @confirmations.add("/dashboard/manage/campaigns/{campaign_id}/arms")
    async def add_arm(request: Request, campaign_id: str) -> Step:
        record = await record_of(campaign_id)
        here = address(request, "campaigns", campaign_id)

        async def do(values: Values) -> Response:
            arm = _arm(values)
            command = AddArm(campaign_id, arm.arm_id, as_given(arm.features), own_value(arm.arm_id, arm.value))
            changed = await ledger.administer(command, author_of(request, "dashboard"))
            if changed is None or not changed.created:
                raise ConflictError("this very arm exists already", field="arm_id")
            return seen(here)

        return Step(
            here,
            lambda values: _about_arm(_arm(values), campaign_id),
            do,
            title=f"Add an arm to {campaign_id}",
            text=("Selects may choose it from now on. It begins with nothing learned, so it is tried first.",),
            fields=_arm_fields(record),
        )

    return router


def _known(status: str, statuses: Mapping[S, Words]) -> S:
    """The status of this name. Raises NotFoundError."""
    for one in statuses:
        if one == status:
            return one
    raise NotFoundError(f"there is no status of this name: there are {', '.join(statuses)}")


def _question(statuses: Mapping[S, Words], status: str, name: str, current: str) -> Question:
    title, meaning, button = statuses[_known(status, statuses)]
    text = [meaning] if status != current else [meaning, f"It is {status} already, so nothing would change."]
    return Question(title.format(name), text, button, is_grave=status in {"archived", "retired"})


def _about(requested: CampaignConfiguration, notes: Sequence[str]) -> Question:
    """What a campaign will be like. notes: what is to be said besides."""
    resolved = resolve(requested)
    arms = ", ".join(arm.arm_id for arm in resolved.arms[:ARMS_NAMED_MAX])
    more = f" and {len(resolved.arms) - ARMS_NAMED_MAX} more" if len(resolved.arms) > ARMS_NAMED_MAX else ""
    facts = [("Arms", f"{arms}{more}" if arms else "none yet: add them before the first select")]
    text = ["The risk measure and the features are for good, as what is learned depends on them. Arms can come and go."]
    return Question(
        f"Create {resolved.campaign_id}?", [*text, *notes], "Create the campaign", [*facts, *rules(resolved)]
    )


def _arm_fields(record: CampaignRecord) -> list[Field]:
    """What an arm of this campaign needs, and what it may have."""
    fields = [Field("arm_id", "Id of the arm", help="Letters, digits and . _ ~ -, as in steady or new-headline.")]
    if stored(record.row.configuration).model.type == "shared":
        reader = RowReader(stored(record.row.creation).model)
        own = reader.write(reader.split(reader.default())[0], reader.vocabulary(record.categories))
        example = f"As JSON, for example {orjson.dumps(own).decode()}. Leave it empty if each select sends them."
        fields.append(Field("features", "Features of the arm", "area", example, is_required=False))
    value = "What your program shows or does for it, as JSON; empty for the id itself."
    return [*fields, Field("value", "Value", help=value, is_required=False)]


def _arm(values: Values) -> ArmRequest:
    """The request that the form stands for, checked. Raises ValidationError and InvalidCommandError."""
    body = {name: parsed(values[name], name) for name in ("features", "value") if values.get(name, "").strip()}
    return ArmRequest.model_validate(body | {"arm_id": values.get("arm_id", "").strip()})


def _about_arm(arm: ArmRequest, campaign_id: str) -> Question:
    facts = [
        (name.capitalize(), shortened(value, FACT_MAX)) for name, value in arm if name != "arm_id" and value is not None
    ]
    return Question(f"Add {arm.arm_id} to {campaign_id}?", ["Selects may choose it from now on."], "Add the arm", facts)
