"""What HTTP asks of every path: HEAD as GET, all methods in Allow, and an address that says what was meant."""

import httpx
import pytest

from tests.api.contract import create, multi_armed, ok, on_sqlite, problem

pytestmark = on_sqlite


@pytest.mark.parametrize("path", ["/campaigns", "/campaigns/{id}", "/campaigns/{id}/model", "/health/live", "/docs"])
def test_head_is_answered_as_get_without_the_body(api: httpx.Client, path: str) -> None:
    """A monitor or a proxy that asks with HEAD would take the service for broken."""
    path = path.replace("{id}", create(api, multi_armed()))
    got, asked = api.get(path), api.head(path)
    assert (asked.status_code, asked.content) == (200, b"")
    differ = {"date", "x-request-id"}
    assert {name for name in got.headers if name not in differ} == {
        name for name in asked.headers if name not in differ
    }
    assert asked.headers["content-length"] == got.headers["content-length"] != "0"
    missing = api.head("/campaigns/none")
    assert (missing.status_code, missing.content) == (404, b"")
    assert 'method="HEAD",route="/campaigns/{campaign_id}",status="404"' in api.get("/metrics").text


def test_allow_has_all_methods_of_a_path(api: httpx.Client) -> None:
    """Each method is a route of its own, and a framework names those of the first one only."""
    campaign = create(api, multi_armed())
    reply = api.put(f"/campaigns/{campaign}", json={})
    problem(reply, 405)
    assert reply.headers["allow"] == "DELETE, GET, HEAD, PATCH"
    assert "DELETE and GET and HEAD and PATCH" in reply.json()["detail"]
    assert api.get("/select").headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("method", "path", "meant"),
    [
        ("POST", "/select/", "/select"),
        ("POST", "/selct", "/select"),
        ("POST", "/rewards", "/reward"),
        ("POST", "/select/batches", "/select/batch"),
        ("GET", "/campaigns/x/modle", "/campaigns/{campaign_id}/model"),
        ("GET", "/campaign/x", "/campaigns/{campaign_id}"),
        ("GET", "/health/reddy", "/health/ready"),
        ("GET", "/nothing/like/it", None),
        ("GET", "/" + "a" * 5_000, None),
    ],
)
def test_a_path_that_does_not_exist_is_told_the_nearest(
    api: httpx.Client, method: str, path: str, meant: str | None
) -> None:
    """A slash at the end is one of the first mistakes that everybody makes."""
    reply = api.request(method, path)
    problem(reply, 404)
    detail = reply.json()["detail"]
    assert detail == f"no such path: {'see /docs' if meant is None else f'did you mean {meant}?'}"


def test_the_good_paths_are_untouched(api: httpx.Client) -> None:
    """HEAD may not become a way around a method."""
    campaign = create(api, multi_armed())
    assert api.head("/select").status_code == 405
    assert ok(api.get(f"/campaigns/{campaign}"))["campaign_id"] == campaign
