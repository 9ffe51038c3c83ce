"""A field that is wrong: a problem that names it, echoes nothing, and changes nothing."""

import json
import re
from typing import Any

import httpx
import pytest

from prudent.api.wording import PATTERNS
from tests.api.bad_requests import HEADERS, ROUTES, body_with, everything, requests
from tests.api.contract import MARKER, Json, on_sqlite, problem, read

pytestmark = on_sqlite
NOT_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1" + "0" * 400, f'"{MARKER}"', '"0.5"', '"inf"']
NOT_NUMBERS += ["true", "[]", "{}", "null"]
BAD_IDS = {
    "empty": "",
    "dot": ".",
    "dots": "..",
    "129": "x" * 129,
    "1000": MARKER + "x" * 1_000,
    "slash": f"a/{MARKER}",
    "percent": f"%{MARKER}",
    "space": f" {MARKER}",
    "newline": "a\n",
    "emoji": "💊",
    "composed": "\u00e9",
    "decomposed": "e\u0301",
    "nul": f"a\x00{MARKER}",
    "number": 1,
    "boolean": True,
    "null": None,
    "list": [MARKER],
    "object": {MARKER: MARKER},
}


NUMBERS: list[tuple[str, tuple[str | int, ...], str]] = [
    ("create", ("arms", 0, "features", 0), "arms.0.features.0"),
    ("create", ("algorithm", "delta"), "algorithm.delta"),
    ("create", ("algorithm", "exploration"), "algorithm.exploration"),
    ("create", ("algorithm", "warmup"), "algorithm.warmup"),
    ("create", ("algorithm", "feature_bound"), "algorithm.feature_bound"),
    ("create", ("seed",), "seed"),
    ("change", ("algorithm", "warmup"), "algorithm.warmup"),
    ("change", ("algorithm", "exploration"), "algorithm.exploration"),
    ("add-arm", ("features", 0), "features.0"),
    ("select", ("arms", 1, "features", 0), "arms.1.features.0"),
    ("select-context", ("context", 1), "context.1"),
    ("reward", ("reward",), "reward"),
    ("observe", ("items", 0, "reward"), "items.0.reward"),
    ("observe", ("items", 0, "features", 1), "items.0.features.1"),
]
OPTIONAL_NUMBERS: list[tuple[str, tuple[str | int, ...], str]] = [
    ("create", ("model", "dimension"), "model.dimension"),
    ("create", ("model", "features", 0, "center"), "model.features.0.center"),
    ("create", ("model", "features", 0, "scale"), "model.features.0.scale"),
    ("create", ("risk", "level"), "risk.level"),
    ("create", ("reward", "minimum"), "reward.minimum"),
    ("create", ("reward", "timeout_seconds"), "reward.timeout_seconds"),
    ("create", ("algorithm", "noise_scale"), "algorithm.noise_scale"),
    ("create", ("algorithm", "conditioning"), "algorithm.conditioning"),
    ("change", ("algorithm", "noise_scale"), "algorithm.noise_scale"),
    ("observe", ("items", 0, "propensity"), "items.0.propensity"),
]
IDS: list[tuple[str, tuple[str | int, ...], str]] = [
    ("create", ("campaign_id",), "campaign_id"),
    ("create", ("arms", 1, "arm_id"), "arms.1.arm_id"),
    ("add-arm", ("arm_id",), "arm_id"),
    ("select", ("campaign_id",), "campaign_id"),
    ("select", ("decision_id",), "decision_id"),
    ("select", ("arms", 0, "arm_id"), "arms.0.arm_id"),
    ("select", ("chosen_arm_id",), "chosen_arm_id"),
    ("reward", ("decision_id",), "decision_id"),
    ("reward", ("arm_id",), "arm_id"),
    ("observe", ("items", 0, "observation_id"), "items.0.observation_id"),
    ("observe", ("items", 0, "arm_id"), "items.0.arm_id"),
]
NULLABLE_IDS = {"decision_id", "chosen_arm_id", "arm_id", "items.0.observation_id"}


@pytest.mark.parametrize(("route", "place", "field"), NUMBERS + OPTIONAL_NUMBERS, ids=lambda value: str(value))
def test_number_that_is_none(api: httpx.Client, target: Json, route: str, place: Any, field: str) -> None:
    """W01, W04, W32. NaN would be learned and poison the estimate for good, or "0.5" and true count as numbers."""
    method, path, good = requests(target)[route]
    before = everything(api, target)
    for text in NOT_NUMBERS:
        if text == "null" and (route, place, field) in OPTIONAL_NUMBERS:
            continue
        reply = api.request(method, path, content=body_with(good, place, text), headers=HEADERS)
        problem(reply, 422, field)
    assert everything(api, target) == before


@pytest.mark.parametrize(("route", "place", "field"), IDS, ids=lambda value: str(value))
def test_id_outside_the_grammar(api: httpx.Client, target: Json, route: str, place: Any, field: str) -> None:
    """W03, W05, W34. An id with a NUL would be a server error on PostgreSQL, one with a slash unreachable."""
    method, path, good = requests(target)[route]
    before = everything(api, target)
    for name, bad in BAD_IDS.items():
        if name == "null" and field in NULLABLE_IDS and (route, field) != ("add-arm", "arm_id"):
            continue
        reply = api.request(method, path, content=body_with(good, place, json.dumps(bad)), headers=HEADERS)
        problem(reply, 422, field)
    for surrogate in ('"\\ud800"', '"\\udc00\\ud800"', f'"{MARKER}\\ud83d"'):
        reply = api.request(method, path, content=body_with(good, place, surrogate), headers=HEADERS)
        problem(reply, 422, "body")  # no character at all, so no JSON
    assert everything(api, target) == before


@pytest.mark.parametrize("place", ["eligible", "exclude"])
def test_list_of_ids(api: httpx.Client, target: Json, place: str) -> None:
    """W05. A NUL would reach the database by another door."""
    for bad in BAD_IDS.values():
        request = {"campaign_id": target["shared"], place: ["a", bad]}
        problem(api.post("/select", json=request), 422, f"{place}.1")
    too_many = {"campaign_id": target["shared"], place: [f"arm-{number}" for number in range(1_001)]}
    problem(api.post("/select", json=too_many), 422, place)


@pytest.mark.parametrize(
    "bad", ["a%00b", "%2e%2e%2f", "a%2Fb", "%F0%9F%92%8A", "%ff", "x" * 129, f"%25{MARKER}", "%20"]
)
def test_id_in_a_path(api: httpx.Client, target: Json, bad: str) -> None:
    """W05, W34. An address with a NUL or a slash would reach the database or another route."""
    before = everything(api, target)
    for method, path, body in (
        ("GET", f"/campaigns/{bad}", None),
        ("GET", f"/campaigns/{bad}/model", None),
        ("PATCH", f"/campaigns/{bad}", {"status": "paused"}),
        ("DELETE", f"/campaigns/{bad}?confirm={bad}", None),
        ("POST", f"/campaigns/{bad}/arms", {"arm_id": "z"}),
        ("PATCH", f"/campaigns/{bad}/arms/a", {"status": "paused"}),
        ("PATCH", f"/campaigns/{target['shared']}/arms/{bad}", {"status": "paused"}),
        ("POST", f"/campaigns/{bad}/observations", {"items": [{"arm_id": "a", "reward": 1}]}),
        ("DELETE", f"/campaigns/{target['shared']}?confirm={bad}", None),
    ):
        reply = api.request(method, path, json=body)
        assert reply.status_code in {404, 405, 422}
        problem(reply, reply.status_code)
    assert everything(api, target) == before


@pytest.mark.parametrize("route", ROUTES)
def test_unknown_field(api: httpx.Client, target: Json, route: str) -> None:
    """A misspelt setting would be ignored, and the default used without a word."""
    method, path, good = requests(target)[route]
    before = everything(api, target)
    problem(api.request(method, path, json=good | {f"<{MARKER}>": MARKER}), 422, "(unknown field)")
    problem(api.request(method, path, json=good | {"regularisation": MARKER}), 422, "regularisation")
    problem(
        api.request(method, path, json=good | {f"$where {MARKER}": 1, "body": 1, "query": 2}), 422, "(unknown field)"
    )
    for name, value in good.items():
        inner = value[0] if isinstance(value, list) else value
        if isinstance(inner, dict):
            worse = inner | {f"<{MARKER}>": MARKER}
            reply = api.request(method, path, json=good | {name: [worse] if isinstance(value, list) else worse})
            expected = f"{name}.0" if isinstance(value, list) else name
            problem(reply, 422, f"{expected}.(unknown field)")
    assert everything(api, target) == before


@pytest.mark.parametrize(
    ("route", "place", "value", "field"),
    [
        ("create", ("seed",), 2**64, "seed"),
        ("create", ("seed",), 2**53, "seed"),
        ("create", ("seed",), 10**400, "seed"),
        ("create", ("seed",), -1, "seed"),
        ("create", ("seed",), 1.5, "seed"),
        ("create", ("model", "dimension"), 0, "model.dimension"),
        ("create", ("model", "dimension"), 513, "model.dimension"),
        ("create", ("model", "dimension"), 2**63, "model.dimension"),
        ("create", ("algorithm", "warmup"), 2**63, "algorithm.warmup"),
        ("create", ("arms", 0, "features", 1), 1.000001e6, "arms.0.features.1"),
        ("create", ("reward", "maximum"), 1.1e9, "reward.maximum"),
        ("create", ("description",), "x" * 2_001, "description"),
        ("create", ("arms",), [{"arm_id": f"arm-{number}"} for number in range(1_001)], "arms"),
        ("add-arm", ("features", 0), -1.000001e6, "features.0"),
        ("add-arm", ("features",), [1.0] * 513, "features"),
        ("select", ("arms", 0, "features", 0), 1e155, "arms.0.features.0"),
        ("select", ("arms", 0, "features", 0), 1e8, "arms.0.features.0"),
        ("select", ("arms",), [], "arms"),
        ("select", ("arms",), [{"arm_id": f"arm-{n}", "features": [0, 0]} for n in range(1_001)], "arms"),
        ("select", ("arms", 1, "arm_id"), "a", "arms.1.arm_id"),
        ("select", ("explore",), 1, "explore"),
        ("select", ("explain",), "true", "explain"),
        ("select-context", ("context", 0), 1.000001e6, "context.0"),
        ("select-context", ("context",), [0.0] * 513, "context"),
        ("reward", ("reward",), 1.000001e9, "reward"),
        ("reward", ("reward",), -2e9, "reward"),
        ("observe", ("items", 0, "reward"), 1e10, "items.0.reward"),
        ("observe", ("items", 0, "features", 0), 2e6, "items.0.features.0"),
        ("create", ("arms", 1, "arm_id"), "a", "arms.1.arm_id"),
        ("create", ("risk",), {"measure": MARKER}, "risk.measure"),
        ("create", ("risk",), {"measure": [MARKER]}, "risk.measure"),
        ("create", ("risk",), {"level": 0.1}, "risk.measure"),
        ("create", ("risk",), MARKER, "risk"),
        ("create", ("risk",), {"measure": "mean", "level": 0.1}, "risk.level"),
        ("create", ("model",), {"type": MARKER}, "model.type"),
        ("create", ("model",), {"type": "multi-armed", "dimension": 1}, "model.dimension"),
        ("create", ("model", "features", 0, "name"), "", "model.features.0.name"),
        ("create", ("algorithm",), {"name": MARKER}, "algorithm.name"),
        ("create", ("algorithm",), {"bonus": MARKER}, "algorithm.bonus"),
        ("create", ("algorithm",), {"conditioning": MARKER}, "algorithm.conditioning"),
        ("create", ("algorithm",), {"radius": MARKER}, "algorithm.radius"),
        ("create", ("algorithm",), {"projection": 1}, "algorithm.projection"),
        ("change", ("status",), MARKER, "status"),
        ("change", ("description",), 1, "description"),
        ("change-arm", ("status",), MARKER, "status"),
        ("change-arm", ("status",), None, "status"),
    ],
    ids=lambda value: str(value)[:60],
)
def test_value_outside_its_range(
    api: httpx.Client, target: Json, route: str, place: Any, value: object, field: str
) -> None:
    """B32, W31, W32, B36. A value that overflows the database or the arithmetic would be accepted."""
    method, path, good = requests(target)[route]
    before = everything(api, target)
    reply = api.request(method, path, content=body_with(good, place, json.dumps(value)), headers=HEADERS)
    problem(reply, 422, field)
    assert everything(api, target) == before


def test_nothing_was_created(api: httpx.Client, target: Json) -> None:
    """A request that was refused would have been carried out all the same."""
    for route in ("create", "select", "add-arm"):
        method, path, good = requests(target)[route]
        problem(api.request(method, path, json=good | {f"<{MARKER}>": 1}), 422)
    problem(api.get("/campaigns/never-created"), 404)
    problem(api.post("/reward", json={"decision_id": "never-made", "reward": 1}), 404)
    assert [arm["arm_id"] for arm in read(api, target["shared"])["arms"]] == ["a", "b"]


def test_what_a_text_must_be_is_said_in_words(api: httpx.Client) -> None:
    """Who mistypes the path of a revenue would be answered with a regular expression."""
    campaign = {"campaign_id": "texts", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
    for events in ({"bought": {"value": "properties..revenue"}}, {"a\x00b": {"constant": 1}}):
        said = problem(api.post("/campaigns", json=campaign | {"reward": {"events": events}}), 422)["detail"]
        assert "pattern" not in said, said
    reply = api.post("/personalizer/texts/personalizer/v1.0/rank", json={"eventId": "a\tb", "actions": [{"id": "\n"}]})
    assert reply.status_code == 400
    assert "pattern" not in reply.json()["error"]["message"]
    described = json.dumps(api.get("/openapi.json").json())
    patterns = {json.loads(f'"{one}"') for one in re.findall(r'"pattern": "((?:[^"\\]|\\.)*)"', described)}
    assert patterns
    assert patterns <= PATTERNS.keys()
