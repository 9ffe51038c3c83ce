"""The loop that the client's documentation begins with, then an event that is shown later, and a page with two slots.

Only the endpoint and the key are ours. Prints what it was told as JSON.
"""

import json
import sys
from typing import Any
from urllib.parse import quote

import requests
from azure.cognitiveservices.personalizer import PersonalizerClient
from azure.cognitiveservices.personalizer.models import ErrorResponseException, RankableAction, RankRequest
from msrest.authentication import CognitiveServicesCredentials

service, campaign, key = sys.argv[1:]
endpoint = f"{service}/personalizer/{campaign}"
client = PersonalizerClient(endpoint, CognitiveServicesCredentials(key))
ACTIONS: dict[str, list[dict[str, Any]]] = {
    "pasta": [{"taste": "salty", "spiceLevel": "medium"}, {"nutritionLevel": 5, "cuisine": "italian"}],
    "ice cream": [{"taste": "sweet", "spiceLevel": "none"}, {"nutritionalLevel": 2}],
    "juice": [{"taste": "sweet", "spiceLevel": "none"}, {"nutritionLevel": 5}, {"drink": True}],
    "salad": [{"taste": "salty", "spiceLevel": "low"}, {"nutritionLevel": 8}],
}


def actions() -> list[RankableAction]:
    return [RankableAction(id=name, features=features) for name, features in ACTIONS.items()]


def plain(ranked: Any) -> dict[str, Any]:
    ranking = [{"id": one.id, "probability": one.probability} for one in ranked.ranking]
    return {"ranking": ranking, "eventId": ranked.event_id, "rewardActionId": ranked.reward_action_id}


def loop(event_id: str) -> dict[str, Any]:
    request = RankRequest(
        actions=actions(),
        context_features=[{"timeOfDay": "morning"}, {"user": {"profile": {"tastes": "sweet"}, "visits": 3}}],
        excluded_actions=["juice"],
        event_id=event_id,
    )
    ranked = client.rank(request)
    client.events.reward(event_id=ranked.event_id, value=1.0)
    client.events.reward(event_id=ranked.event_id, value=0.25)
    return {"ranked": plain(ranked), "again": plain(client.rank(request))}


def shown_later() -> dict[str, Any]:
    evening = [{"timeOfDay": "evening"}]
    ranked = client.rank(RankRequest(actions=actions(), context_features=evening, defer_activation=True))
    client.events.activate(ranked.event_id)
    return plain(ranked)


def post(path: str, body: dict[str, Any], status: int) -> Any:
    headers = {"ocp-apim-subscription-key": key}
    reply = requests.post(f"{endpoint}/personalizer/v1.1-preview.3/{path}", json=body, headers=headers, timeout=60)
    assert reply.status_code == status, reply.text
    return reply.json() if reply.content else None


def two_slots(event_id: str) -> Any:
    body = {
        "eventId": event_id,
        "actions": [{"id": name, "features": features} for name, features in ACTIONS.items()],
        "contextFeatures": [{"timeOfDay": "night"}],
        "slots": [
            {
                "id": "Big Hero",
                "features": [{"size": "large"}],
                "excludedActions": ["salad"],
                "baselineAction": "pasta",
            },
            {"id": "sidebar", "features": [{"size": "small"}], "excludedActions": [], "baselineAction": "ice cream"},
        ],
        "deferActivation": False,
    }
    filled = post("multislot/rank", body, 201)
    rewards = [{"slotId": slot["id"], "value": 0.5} for slot in filled["slots"]]
    post(f"multislot/events/{quote(filled['eventId'], safe='')}/reward", {"reward": rewards}, 204)
    return filled


def refused() -> dict[str, Any]:
    try:
        client.rank(RankRequest(actions=[RankableAction(id="pasta", features=[{"taste": 7}])]))
    except ErrorResponseException as error:
        told = error.error.error
        return {"status": error.response.status_code, "code": told.code, "message": told.message}
    raise AssertionError("a number was taken for a text")


told = {
    "loop": loop("a visit, 1/2"),
    "later": shown_later(),
    "slots": two_slots("a page"),
    "refused": refused(),
}
print(json.dumps(told))
