"""Campaigns with a past, played through HTTP, and what must be the same of one that was moved."""

import random
from typing import Any

import httpx
import orjson

from tests.api.contract import Json, assert_same_model, model, ok, problem, read

BATCH = 50
DIMENSION = 3
ALGORITHMS = {
    "exact": {"name": "linucb-cr"},
    "ridge": {"name": "linucb"},
    "streamed": {"name": "linucb-ogd-cr"},
    "one-pass": {"name": "linucb-onepass-cr"},
}
MODELS: dict[str, Json] = {
    "exact": {"type": "shared", "dimension": DIMENSION, "intercept": True},
    "ridge": {"type": "shared", "dimension": DIMENSION},
    "streamed": {"type": "disjoint", "dimension": DIMENSION},
    "one-pass": {"type": "multi-armed"},
}
NAMES = tuple(ALGORITHMS)
ARMS = ("a", "b", "c", "d")


def make(http: httpx.Client, name: str) -> None:
    """A campaign of this name and kind: an arm added and one retired, a dial turned, an old observation."""
    features = {arm: [0.1 * n, -0.3, 1 / 3] for n, arm in enumerate(ARMS)} if MODELS[name]["type"] == "shared" else {}
    body = {
        "campaign_id": name,
        "description": "moved, naïve: ☃",
        "risk": {"measure": "mean"} if name == "ridge" else {"measure": "expectile", "level": 0.1},
        "model": MODELS[name],
        "arms": [{"arm_id": arm, "features": features.get(arm)} for arm in ARMS[:3]],
        "algorithm": ALGORITHMS[name],
        "reward": {"minimum": -50, "maximum": 50, "timeout_seconds": 86_400, "default": -1},
        "seed": 5,
    }
    ok(http.post("/campaigns", json=body), 201)
    ok(http.post(f"/campaigns/{name}/arms", json={"arm_id": "d", "features": features.get("d")}), 201)
    ok(http.patch(f"/campaigns/{name}/arms/b", json={"status": "retired"}))
    ok(http.patch(f"/campaigns/{name}", json={"algorithm": {"exploration": 0.7}, "description": "changed"}))
    item: Json = {"observation_id": "before", "arm_id": "c", "reward": 0.1, "propensity": 0.25}
    item |= {"observed_at": "2020-02-29T23:59:59.999999Z"}
    item |= {} if name == "one-pass" else {"features" if features else "context": [1e-300, -0.0, 0.1 + 0.2]}
    ok(http.post(f"/campaigns/{name}/observations", json={"items": [item]}))


def request(name: str, number: int) -> Json:
    """The select of this number: with an id of its own or none, explained or not, now and then chosen already."""
    draw = random.Random(f"{name} {number}")  # noqa: S311  # a simulation
    body: Json = {"campaign_id": name, "explain": number % 7 == 0}
    if number % 3:
        body["decision_id"] = f"{name}.{number:06d}"
    if number % 11 == 5:
        body["chosen_arm_id"] = "c"
    if MODELS[name]["type"] == "disjoint":
        body["context"] = [draw.gauss(0, 0.5) for _ in range(DIMENSION)]
    elif MODELS[name]["type"] == "shared" and number % 5:
        body["arms"] = [{"arm_id": arm, "features": [draw.gauss(0, 0.5) for _ in range(DIMENSION)]} for arm in "acdx"]
    return body


def play(http: httpx.Client, name: str, numbers: range, *, own_ids: bool = False) -> list[Json]:
    """Select and reward; one decision in ten gets no reward. own_ids: each has an id, so that a run can be compared."""
    decisions: list[Json] = []
    for start in range(numbers.start, numbers.stop, BATCH):
        batch = range(start, min(start + BATCH, numbers.stop))
        items = [request(name, n) for n in batch]
        if own_ids:
            items = [item | {"decision_id": f"{name}.{n:06d}"} for n, item in zip(batch, items, strict=True)]
        made = ok(http.post("/select/batch", json={"items": items}))["items"]
        assert {one["status"] for one in made} == {200}, made
        rewards = [reward(n, one) for n, one in zip(batch, made, strict=True) if n % 10]
        learned = ok(http.post("/reward/batch", json={"items": rewards}))["items"]
        assert {one["status"] for one in learned} == {200}, learned
        decisions += made
    return decisions


def reward(number: int, decision: Json) -> Json:
    """What the decision of this number is paid: it depends on the number and the arm."""
    draw = random.Random(f"reward {number}")  # noqa: S311  # a simulation
    spread = "acdx".index(decision["arm_id"]) + 1
    return {"decision_id": decision["decision_id"], "reward": draw.gauss(0, 1) * spread}


def without_times(exported: bytes) -> list[Json]:
    """The lines of an export, less what differs between two exports of the same campaign: its time and its digest.

    Nor the header's number of decisions, for progress bars: under load more may follow. The trailer's is exact.
    """
    found = [orjson.loads(line) for line in exported.splitlines()]
    del found[0]["exported_at"], found[0]["decisions"], found[-1]["digest"]
    return found


def assert_same(http: httpx.Client, other: httpx.Client, name: str) -> None:
    """Configuration, log and decisions are equal, and the state is as docs/architecture.md says."""
    assert read(http, name) == read(other, name)
    mine, theirs = (without_times(one.get(f"/campaigns/{name}/export").content) for one in (http, other))
    assert mine == theirs
    assert_same_model(model(http, name), model(other, name))


def assert_same_answers(http: httpx.Client, other: httpx.Client, name: str, decisions: list[Json]) -> None:
    """Repeats and conflicts are answered as before the move."""
    calls: list[tuple[str, Any]] = []
    for n, decision in list(enumerate(decisions))[:24]:
        if n % 3:
            calls += [("/select", request(name, n)), ("/select", request(name, n) | {"exclude": ["c"]})]
        else:
            calls += [("/select", request(name, n) | {"decision_id": decision["decision_id"]})]
        if n % 10:
            paid = reward(n, decision)
            calls += [("/reward", paid), ("/reward", paid | {"reward": paid["reward"] + 0.5})]
    statuses = []
    for path, body in calls:
        before, after = http.post(path, json=body), other.post(path, json=body)
        told = [{**reply.json(), "request_id": None} for reply in (before, after)]  # each problem has one of its own
        assert (before.status_code, told[0]) == (after.status_code, told[1])
        statuses.append(before.status_code)
    assert {200, 409} == set(statuses)


def assert_refused(http: httpx.Client, content: bytes, status: int, field: str | None = None) -> Json:
    """The file is refused, with a problem about this line, and there is no campaign of it."""
    before = ok(http.get("/campaigns?limit=1000"))
    body = problem(
        http.post("/import", content=content, headers={"Content-Type": "application/x-ndjson"}), status, field
    )
    assert ok(http.get("/campaigns?limit=1000")) == before
    return body


def bring(http: httpx.Client, content: bytes) -> Json:
    """Import a file, which must succeed."""
    return ok(http.post("/import", content=content, headers={"Content-Type": "application/x-ndjson"}), 201)
