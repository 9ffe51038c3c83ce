"""The retired Personalizer's calls, for its unmodified clients, whose endpoint names a campaign here.

Rank, reward and activate, for one slot and for several, and the part of the configuration that has a counterpart. All
of it is native commands; what is translated are bodies, names, statuses, the header with the key, and errors.
docs/personalizer.md says what differs.
"""

import re
from typing import Annotated, Any, Literal
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from prudent.api.campaigns import CampaignPath
from prudent.api.doors.loops import Loops
from prudent.api.doors.rank_requests import (
    MultiSlotRankRequest,
    MultiSlotRewardRequest,
    RankRequest,
    RewardRequest,
    ServiceConfiguration,
    event_id_of,
)
from prudent.api.rendering import json_reply
from prudent.api.server.authentication import author_of
from prudent.api.server.bodies import Bodies
from prudent.api.server.middleware import own_path
from prudent.ledger.commands import Reward

PREFIX = "/personalizer/"
Version = Literal["v1.0", "v1.1-preview.1", "v1.1-preview.2", "v1.1-preview.3"]
EventPath = Annotated[str, Path(min_length=1, max_length=256, description="Event id, percent-encoded.")]


def _known_version(version: Version) -> None:
    """Refuse versions that are not spoken here."""


def personalizer_routes(loops: Loops, bodies: Bodies) -> APIRouter:
    """All calls below a loop's endpoint. They are not part of our own API's description."""
    router = APIRouter(
        prefix=PREFIX + "{campaign_id}/personalizer/{version}",
        dependencies=[Depends(_known_version)],
        include_in_schema=False,
    )
    read_rank, read_slots = bodies.of(RankRequest), bodies.of(MultiSlotRankRequest)
    read_reward, read_slot_rewards = bodies.of(RewardRequest), bodies.of(MultiSlotRewardRequest)
    read_configuration = bodies.of(ServiceConfiguration)

    @router.post("/rank")
    async def rank(campaign_id: CampaignPath, request: Request) -> Response:
        """Choose an action."""
        return json_reply(await loops.rank(campaign_id, await read_rank(request)), 201)

    @router.post("/events/{event_id:path}/reward")
    async def reward(campaign_id: CampaignPath, event_id: EventPath, request: Request) -> Response:
        """Learn the reward of an event."""
        value = (await read_reward(request)).value
        await loops.learn({"value": Reward(event_id_of(campaign_id, event_id), value, campaign_id=campaign_id)})
        return Response(status_code=204)

    @router.post("/events/{event_id:path}/activate")
    async def activate(campaign_id: CampaignPath, event_id: EventPath) -> Response:
        """Say that the action of an event has been shown."""
        await loops.activate(campaign_id, [event_id_of(campaign_id, event_id)])
        return Response(status_code=204)

    @router.post("/multislot/rank")
    async def rank_slots(campaign_id: CampaignPath, request: Request) -> Response:
        """Choose an action for each slot."""
        return json_reply(await loops.fill(campaign_id, await read_slots(request)), 201)

    @router.post("/multislot/events/{event_id:path}/reward")
    async def reward_slots(campaign_id: CampaignPath, event_id: EventPath, request: Request) -> Response:
        """Learn the rewards of an event's slots."""
        await loops.learn_slots(campaign_id, event_id, (await read_slot_rewards(request)).reward)
        return Response(status_code=204)

    @router.post("/multislot/events/{event_id:path}/activate")
    async def activate_slots(campaign_id: CampaignPath, event_id: EventPath) -> Response:
        """Say that the actions of an event's slots have been shown."""
        await loops.activate_slots(campaign_id, event_id)
        return Response(status_code=204)

    @router.get("/configurations/service")
    async def get_configuration(campaign_id: CampaignPath) -> Response:
        """Read the settings that have a counterpart."""
        return json_reply(await loops.configuration(campaign_id))

    @router.put("/configurations/service")
    async def put_configuration(campaign_id: CampaignPath, request: Request) -> Response:
        """Change the exploration percentage."""
        wanted = await read_configuration(request)
        return json_reply(await loops.configure(campaign_id, wanted, author_of(request)))

    return router


# Heads and errors


OUR_KEY_HEADER, THEIR_KEY_HEADER = b"x-api-key", b"ocp-apim-subscription-key"
_SLASH_AFTER_ENDPOINT, _WITHOUT_CAMPAIGN = re.compile(f"^({PREFIX}[^/]+)//"), re.compile(PREFIX + r"v1\.[^/]+/")
THEIR_NAMES = {
    "arms": "actions",
    "eligible": "actions",
    "exclude": "excludedActions",
    "context": "contextFeatures",
    "decision_id": "eventId",
    "algorithm": "explorationPercentage",
}
"""Of fields, by the first part of their native names."""


class ReadPersonalizerHeads:
    """Takes the key from their header, and the campaign from any form of an endpoint, on their paths alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve."""
        if scope["type"] == "http" and (path := own_path(scope)).startswith(PREFIX):
            scope["path"] = scope.get("root_path", "") + _path_of(path, scope["query_string"].decode("latin-1"))
            scope["headers"] = [
                (OUR_KEY_HEADER if name == THEIR_KEY_HEADER else name, value) for name, value in scope["headers"]
            ]
        await self._app(scope, receive, send)


def _path_of(path: str, query: str) -> str:
    """The path of a request with its campaign.

    JavaScript's client drops the path of an endpoint and keeps its query. Endpoints may end with a slash.
    """
    name, _, campaign = query.partition("=")
    if name == "campaign" and _WITHOUT_CAMPAIGN.match(path):
        return f"{PREFIX}{unquote(campaign)}{path}"
    return _SLASH_AFTER_ENDPOINT.sub(r"\1/", path)


def translate(problem: dict[str, Any], _scope: Scope) -> Response:
    """A problem as an ErrorResponse."""
    status = 400 if problem["status"] in {409, 422} else problem["status"]
    code = "ResourceNotFound" if status == 404 else "InternalServerError" if status >= 500 else "BadRequest"
    details = [
        {"code": code, "message": one["message"], "target": _their_name(one["field"])} for one in problem["errors"]
    ]
    message = "; ".join(f"{one['target']}: {one['message']}" for one in details) or problem["detail"]
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error |= {"target": details[0]["target"], "details": details}
    return json_reply({"error": error}, status)


def _their_name(field: str) -> str:
    first, dot, rest = field.partition(".")
    return THEIR_NAMES.get(first, first) + dot + rest
