"""A body that is no request, of another type, or at no address: a problem that echoes nothing, and nothing changes."""

import gzip
import json
from typing import Any

import httpx
import pytest

from tests.api.bad_requests import HEADERS, ROUTES, everything, requests
from tests.api.contract import MARKER, Json, new_id, ok, on_sqlite, problem, shared

pytestmark = on_sqlite


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
    assert len(body["errors"]) == 1  # names that are not repeated look alike
    arms = [{"arm_id": f"/{MARKER}{number}"} for number in range(900)]
    body = problem(api.post("/campaigns", json={**shared(), "arms": arms}), 422, "arms.0.arm_id")
    assert len(body["errors"]) == 20
    most = json.dumps({f"{number}": 1 for number in range(70_000)})
    problem(api.post("/select", content=most, headers=HEADERS), 422)
    for path in ("/select/batch", "/reward/batch"):
        (item,) = ok(api.post(path, content=f'{{"items": [{most}]}}', headers=HEADERS))["items"]
        assert (item["status"], len(item["errors"])) == (422, 1)
        (item,) = ok(api.post(path, json={"items": [many]}))["items"]
        assert item["status"] == 422
        assert len(item["errors"]) == 2  # and a field that is missing


def test_duplicate_key(api: httpx.Client, target: Json) -> None:
    """Of a body that says two things, one would be done."""
    campaign_id = new_id("none")
    body = f'{{"campaign_id": "{target["shared"]}", "campaign_id": "{campaign_id}"}}'
    problem(api.post("/select", content=body, headers=HEADERS), 422, "campaign_id")
