"""Good requests of every route that writes, and how to spoil a place in them."""

import json
from typing import Any

import httpx

from tests.api.contract import MARKER, Json, stored

HEADERS = {"Content-Type": "application/json"}
ROUTES = [
    "create",
    "change",
    "add-arm",
    "change-arm",
    "select",
    "select-context",
    "reward",
    "observe",
]


def everything(api: httpx.Client, target: Json) -> list[Any]:
    """All that a refused request could have changed."""
    return [stored(api, target["shared"]), stored(api, target["disjoint"])]


def body_with(base: Json, place: tuple[str | int, ...], text: str) -> str:
    """The body as JSON, with a piece of text, JSON or not, in one place."""
    hole = f"<{MARKER}>"
    copied: Any = json.loads(json.dumps(base))
    inner = copied
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = hole
    return json.dumps(copied).replace(json.dumps(hole), text)


def requests(target: Json) -> dict[str, tuple[str, str, Json]]:
    """Method, path and a good body of each route that writes and is answered as a whole."""
    one, other = target["shared"], target["disjoint"]
    arms = [{"arm_id": "a", "features": [1, 0]}, {"arm_id": "b", "features": [0, 1]}]
    item = {"observation_id": "row", "arm_id": "a", "features": [1, 0], "reward": 1, "propensity": 0.5}
    return {
        "create": (
            "POST",
            "/campaigns",
            {
                "campaign_id": "never-created",
                "risk": {"measure": "expectile", "level": 0.1},
                "model": {
                    "type": "shared",
                    "dimension": 2,
                    "features": [{"name": "x", "center": 0, "scale": 1}, {"name": "y"}],
                },
                "arms": arms,
                "algorithm": {"warmup": 1},
                "reward": {"minimum": 0},
                "seed": 1,
            },
        ),
        "change": ("PATCH", f"/campaigns/{one}", {"description": "changed", "algorithm": {"warmup": 3}}),
        "add-arm": ("POST", f"/campaigns/{one}/arms", {"arm_id": "never-added", "features": [1, 0]}),
        "change-arm": ("PATCH", f"/campaigns/{one}/arms/a", {"status": "paused"}),
        "select": ("POST", "/select", {"campaign_id": one, "decision_id": "never-made", "arms": arms}),
        "select-context": ("POST", "/select", {"campaign_id": other, "decision_id": "never-made", "context": [1, 2]}),
        "reward": ("POST", "/reward", {"decision_id": target["decision"], "reward": 1}),
        "observe": ("POST", f"/campaigns/{one}/observations", {"items": [item]}),
    }
