"""A campaign with named features moves with its categories, and files of earlier versions are still read."""

from typing import Any

import httpx
import orjson
import pytest

from tests.api.contract import Json, assert_same_model, model, ok, problem
from tests.conftest import MakeServer
from tests.transfer.campaigns import bring

MODELS: dict[str, Json] = {
    "contexts": {
        "type": "disjoint",
        "features": [
            {"name": "plan", "kind": "category", "capacity": 2},
            {"name": "age", "missing": "indicator"},
            {"name": "mobile", "kind": "boolean"},
            {"name": "hour", "kind": "cyclic", "period": 24, "missing": "center"},
        ],
    },
    "brands": {
        "type": "shared",
        "features": [{"name": "brand", "kind": "category", "categories": ["acme"], "capacity": 3}],
        "context_features": [{"name": "country", "kind": "category", "capacity": 5}],
        "interactions": [["context.country", "arm.brand"]],
    },
}
CONTEXTS: list[Json] = [
    {"plan": "pro", "age": 31.5, "mobile": True, "hour": 23},
    {"plan": "basic", "mobile": False},
    {"plan": "a third one", "age": 1e14, "mobile": True, "hour": None},
]


def request(name: str, number: int) -> Json:
    """The select of this number."""
    body: Json = {"campaign_id": name, "decision_id": f"{name}-{number}", "explain": number % 4 == 0}
    if name == "contexts":
        return body | {"context": CONTEXTS[number % 3]}
    arms: list[Json] = [{"arm_id": "x"}, {"arm_id": "y", "features": {"brand": f"b{number % 4}"}}]
    return body | {"arms": arms, "context": {"country": f"land {number % 7}"}}


def make(http: httpx.Client, name: str) -> None:
    """A campaign with a past."""
    arms: list[Json] = [{"arm_id": "x"}, {"arm_id": "y"}]
    if name == "brands":
        arms = [{"arm_id": "x", "features": {"brand": "acme"}}, {"arm_id": "w", "features": {"brand": "learned"}}]
    body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": MODELS[name], "arms": arms}
    ok(http.post("/campaigns", json=body), 201)
    for number in range(12):
        ok(http.post("/select", json=request(name, number)))
        if number % 3:
            ok(http.post("/reward", json={"decision_id": f"{name}-{number}", "reward": number / 10}))


@pytest.mark.parametrize("name", MODELS)
def test_categories_move_with_their_campaign(make_server: MakeServer, tmp_path: Any, name: str) -> None:
    """A position would mean another text after the move, or a retry be a conflict."""
    servers = [make_server(f"sqlite:///{tmp_path}/{place}.db") for place in range(2)]
    http, other = (httpx.Client(base_url=server.url, timeout=60, trust_env=False) for server in servers)
    with http, other:
        make(http, name)
        exported = http.get(f"/campaigns/{name}/export").content
        bring(other, exported)
        assert_same_model(model(http, name), model(other, name))
        for number in range(12):
            assert ok(other.post("/select", json=request(name, number))) == ok(
                http.post("/select", json=request(name, number))
            )
        again = other.get(f"/campaigns/{name}/export").content
        changing = {"exported_at", "revision", "digest"}
        assert [{k: v for k, v in orjson.loads(one).items() if k not in changing} for one in again.splitlines()] == [
            {k: v for k, v in orjson.loads(one).items() if k not in changing} for one in exported.splitlines()
        ]
        rows = [orjson.loads(line) for line in exported.splitlines()]
        features = [row["features"] for row in rows if row["kind"] == "decision"]
        if name == "contexts":
            assert features[:3] == [
                {"plan": "pro", "age": 31.5, "mobile": True, "hour": 23.0},
                {"plan": "basic", "age": None, "mobile": False, "hour": None},
                {"plan": 0, "age": 1e14, "mobile": True, "hour": None},
            ]


def test_a_file_that_lacks_a_category_is_refused(make_server: MakeServer, tmp_path: Any) -> None:
    """A text would be learned at a position of its own, and rows be other rows."""
    servers = [make_server(f"sqlite:///{tmp_path}/{place}.db") for place in range(2)]
    http, other = (httpx.Client(base_url=server.url, timeout=60, trust_env=False) for server in servers)
    with http, other:
        make(http, "contexts")
        lines = http.get("/campaigns/contexts/export").content.splitlines(keepends=True)
        cut = [line for line in lines if b'"position":2,"value":"basic"' not in line]
        assert len(cut) == len(lines) - 1
        reply = other.post("/import", content=b"".join(cut), headers={"Content-Type": "application/x-ndjson"})
        assert "is a category that the file does not list" in problem(reply, 422)["detail"]
        swapped = [line.replace(b'"position":2', b'"position":4') for line in lines]
        reply = other.post("/import", content=b"".join(swapped), headers={"Content-Type": "application/x-ndjson"})
        assert "after 1 categories of plan comes position 4" in problem(reply, 422)["detail"]
