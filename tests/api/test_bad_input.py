"""Whatever is sent: a problem that names the field, echoes nothing, and changes nothing."""

import gzip
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.api.contract import MARKER, Json, create, disjoint, new_id, ok, problem, read, select, shared, stored

HEADERS = {"Content-Type": "application/json"}
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


@pytest.fixture(scope="module")
def target(api: httpx.Client) -> Iterator[Json]:
    """A shared and a disjoint campaign, each with a decision that waits for its reward."""
    one, other = create(api, shared()), create(api, disjoint(reward={"maximum": 100}))
    yield {
        "shared": one,
        "disjoint": other,
        "decision": select(api, one)["decision_id"],
        "other_decision": select(api, other, context=[1, 2])["decision_id"],
    }
    ok(api.post("/select", json={"campaign_id": one}))  # still in service, and nothing of it was used up


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
NUMBERS: list[tuple[str, tuple[str | int, ...], str]] = [
    ("create", ("model", "dimension"), "model.dimension"),
    ("create", ("model", "features", 0, "center"), "model.features.0.center"),
    ("create", ("model", "features", 0, "scale"), "model.features.0.scale"),
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


@pytest.mark.parametrize("route", ROUTES)
def test_body_that_is_no_object(api: httpx.Client, target: Json, route: str) -> None:
    """W06. A truncated or nested body would take the process down, or be a server error."""
    method, path, _ = requests(target)[route]
    before = everything(api, target)
    bodies = [b"", b" ", b"[]", b"null", b"1", b"true", f'"{MARKER}"'.encode(), b"{", b'{"a":', b"{'a': 1}", b"{}}"]
    bodies += [MARKER.encode(), b"\xff\xfe\x00", b'{"campaign_id": "\xff"}', b'{"\xc3\x28": 1}', b"\xef\xbb\xbf{}"]
    bodies += [b"[" * 20_000, b"[" * 20_000 + b"]" * 20_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000]
    bodies += [b'{"campaign_id":' + b"[" * 1_000_000, b'{"items":' * 100_000, b"[" * 1_000_000]
    for body in bodies:
        problem(api.request(method, path, content=body, headers=HEADERS), 422, "body")
    problem(api.request(method, path, json={"campaign_id": nested(150)}), 422)
    assert everything(api, target) == before


@pytest.mark.parametrize("path", ["/select/batch", "/reward/batch"])
def test_body_of_a_batch_that_is_none(api: httpx.Client, target: Json, path: str) -> None:
    """W06. The routes with the largest bodies would be the ones that can be taken down."""
    before = everything(api, target)
    bodies = [b"", b"{", MARKER.encode(), b"\xff", b'{"items": [' + b"[" * 1_000_000, b"[" * 1_000_000]
    bodies += [b'{"items": [' + b"[" * 20_000 + b"]" * 20_000 + b"]}", b'{"items": ["\\ud800"]}']
    for body in bodies:
        problem(api.post(path, content=body, headers=HEADERS), 422, "body")
    assert everything(api, target) == before


def nested(depth: int) -> Any:
    """Lists in lists."""
    made: Any = 1
    for _ in range(depth):
        made = [made]
    return made


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
        ("create", ("risk",), {"measure": MARKER}, "risk"),
        ("create", ("risk",), {"measure": [MARKER]}, "risk"),
        ("create", ("risk",), {"level": 0.1}, "risk"),
        ("create", ("risk",), MARKER, "risk"),
        ("create", ("risk",), {"measure": "mean", "level": 0.1}, "risk.level"),
        ("create", ("model",), {"type": MARKER}, "model"),
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


def test_values_at_the_edge_of_their_range(api: httpx.Client) -> None:
    """B32. The largest values that the documentation allows would be refused, or overflow."""
    request = shared(seed=2**53 - 1, reward={"minimum": -1e9, "maximum": 1e9}, description="x" * 2_000)
    campaign_id = create(api, request)
    for value in (1e9, -1e9):
        arms = [{"arm_id": "x" * 128, "features": [1e6, -1e6]}, {"arm_id": "y", "features": [5e-324, 1e-300]}]
        decision = select(api, campaign_id, arms=arms, explain=True)
        assert all(isinstance(one["index"], float) for one in decision["arms"])
        ok(api.post("/reward", json={"decision_id": decision["decision_id"], "reward": value}))
    assert read(api, campaign_id)["observations"] == 2


def test_nothing_was_created(api: httpx.Client, target: Json) -> None:
    """A request that was refused would have been carried out all the same."""
    for route in ("create", "select", "add-arm"):
        method, path, good = requests(target)[route]
        problem(api.request(method, path, json=good | {f"<{MARKER}>": 1}), 422)
    problem(api.get("/campaigns/never-created"), 404)
    problem(api.post("/reward", json={"decision_id": "never-made", "reward": 1}), 404)
    assert [arm["arm_id"] for arm in read(api, target["shared"])["arms"]] == ["a", "b"]


@pytest.mark.parametrize("route", [*ROUTES, "batch"])
def test_media_type(api: httpx.Client, target: Json, route: str) -> None:
    """W08. A form from another site could write with a visitor's access, or a bomb be inflated."""
    before = everything(api, target)
    batch = ("POST", "/select/batch", {"items": [{"campaign_id": target["shared"]}]})
    method, path, good = (requests(target) | {"batch": batch})[route]
    body = json.dumps(good).encode()
    kinds = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
    for kind in [*kinds, f"application/{MARKER}", "text/xapplication/json"]:
        problem(api.request(method, path, content=body, headers={"Content-Type": kind}), 415)
    for encoding in ("gzip", "br", "deflate", f"identity, {MARKER}"):
        zipped = gzip.compress(body) if encoding == "gzip" else body
        headers = {**HEADERS, "Content-Encoding": encoding}
        problem(api.request(method, path, content=zipped, headers=headers), 415)
    assert everything(api, target) == before


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"])
def test_media_type_that_is_json(api: httpx.Client, target: Json, kind: str) -> None:
    """Clients that add a charset, as many do, would be refused."""
    body = json.dumps({"campaign_id": target["shared"]})
    ok(api.post("/select", content=body, headers={"Content-Type": kind}))
    ok(api.post("/select", content=body, headers={"Content-Type": kind, "Content-Encoding": "identity"}))


def test_body_without_a_type(api: httpx.Client, target: Json) -> None:
    """A page of another site could write with a visitor's access: its bodies need no type, unlike other clients'."""
    body = json.dumps({"campaign_id": target["shared"]}).encode()
    assert "content-type" not in api.build_request("POST", "/select", content=body).headers
    ok(api.post("/select", content=body))
    before = everything(api, target)
    problem(api.post("/select", content=body, headers={"Origin": f"https://{MARKER}.example"}), 415)
    assert everything(api, target) == before


def test_address_and_method(api: httpx.Client) -> None:
    """A mistyped address would be answered with a page, or in a form that clients do not understand."""
    problem(api.get(f"/{MARKER}"), 404)
    problem(api.post("/campaigns/a/b/c/d"), 404)
    for method, path in (("PUT", "/campaigns"), ("GET", "/select"), ("DELETE", "/reward"), ("POST", "/health/live")):
        reply = api.request(method, path)
        problem(reply, 405)
        assert reply.headers["allow"]


def test_many_errors(api: httpx.Client, target: Json) -> None:
    """A thousand mistakes would make a reply of megabytes, or take seconds to list."""
    many = {f"<{MARKER}{number}>": number for number in range(1_000)}
    body = problem(api.post("/select", json={"campaign_id": target["shared"], **many}), 422)
    assert len(body["errors"]) == 20
    arms = [{"arm_id": f"/{MARKER}{number}"} for number in range(900)]
    body = problem(api.post("/campaigns", json={**shared(), "arms": arms}), 422, "arms.0.arm_id")
    assert len(body["errors"]) == 20
    most = json.dumps({f"{number}": 1 for number in range(70_000)})
    problem(api.post("/select", content=most, headers=HEADERS), 422)
    for path in ("/select/batch", "/reward/batch"):
        (item,) = ok(api.post(path, content=f'{{"items": [{most}]}}', headers=HEADERS))["items"]
        assert (item["status"], len(item["errors"])) == (422, 1)


def test_duplicate_key(api: httpx.Client, target: Json) -> None:
    """A body that says two things would be a server error."""
    campaign_id = new_id("none")
    body = f'{{"campaign_id": "{target["shared"]}", "campaign_id": "{campaign_id}"}}'
    problem(api.post("/select", content=body, headers=HEADERS), 404)
