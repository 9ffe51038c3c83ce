"""A request says each thing once, and nothing that the service does not know: in bodies, files and queries."""

import httpx
import orjson
import pytest

from tests.api.contract import create, disjoint, new_id, ok, on_sqlite, problem, select, shared, stored

JSON = {"Content-Type": "application/json"}


@on_sqlite
def test_a_reward_that_comes_twice_is_refused(api: httpx.Client) -> None:
    """The last of two values would be learned, and nobody would know of the first."""
    campaign_id = create(api, disjoint())
    decision_id = select(api, campaign_id, context=[1, 2])["decision_id"]
    before = stored(api, campaign_id)
    one = f'{{"decision_id":"{decision_id}","reward":1, "reward" : 0}}'
    for path, body in (("/reward", one), ("/reward/batch", f'{{"items":[{one}]}}')):
        found = problem(api.post(path, content=body, headers=JSON), 422, "reward")
        assert found["errors"][0]["message"] == "appears twice in one object: send it once"
    assert stored(api, campaign_id) == before


@on_sqlite
@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/select", '{"campaign_id":"c","explain":true,"explain":false}', "explain"),
        ("/select", '{"campaign_id":"c","context":{"age":1,"age":2}}', "age"),
        ("/select", '{"campaign_id":"c","context":{"a:b":"x:y","a:b":"x:y"}}', "body"),
        ("/select", '{"campaign_id":"c","arms":[{"arm_id":"a"},{"arm_id":"b","arm_id":"c"}]}', "arm_id"),
        ("/select/batch", '{"items":[],"items":[{"campaign_id":"c"}]}', "items"),
        (
            "/campaigns",
            '{"campaign_id":"c","risk":{"measure":"mean","measure":"mean"},"model":{"type":"multi-armed"}}',
            "measure",
        ),
        ("/campaigns/c/observations", '{"items":[{"arm_id":"a","reward":1,"\\u0072eward":2}]}', "reward"),
    ],
)
def test_a_name_that_comes_twice_is_refused_at_any_depth(api: httpx.Client, path: str, body: str, field: str) -> None:
    """A parser takes the last value, others the first."""
    problem(api.post(path, content=body, headers=JSON), 422, field)


@on_sqlite
def test_texts_with_colons_and_quotes_are_no_names(api: httpx.Client) -> None:
    """A description or a time would be taken for a name that comes twice."""
    ok(api.post("/campaigns", json=shared(description='a: b: c "x": "x": \\": :')), 201)
    campaign_id = create(api, disjoint())
    item = {"arm_id": "a", "context": [1, 2], "reward": 1, "observed_at": "2026-01-31T09:30:00+01:00"}
    assert ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": [item, item]}))["accepted"] == 2


@on_sqlite
def test_an_exported_line_with_a_field_twice_is_refused(api: httpx.Client) -> None:
    """A file would be read differently from how it was checked."""
    campaign_id = create(api, shared())
    lines = api.get(f"/campaigns/{campaign_id}/export").content.splitlines(keepends=True)
    for place in (0, 1):
        changed = list(lines)
        changed[place] = changed[place].replace(b"{", b'{"kind":"arm",', 1)
        reply = api.post("/import", content=b"".join(changed), headers={"Content-Type": "application/x-ndjson"})
        assert "has a field twice" in problem(reply, 422)["detail"]


@on_sqlite
@pytest.mark.parametrize(
    ("method", "path", "field"),
    [
        ("GET", "/campaigns?limti=1", "limti"),
        ("GET", "/campaigns?LIMIT=1", "LIMIT"),
        ("GET", "/campaigns?limit=1&limit=2", "limit"),
        ("GET", "/campaigns?%3Cb%3E=1", "(unknown parameter)"),
        ("GET", "/campaigns/{}?explain=true", "explain"),
        ("GET", "/campaigns/{}/model?x=1", "x"),
        ("GET", "/campaigns/{}/decisions?limit=1&after=x", "after"),
        ("DELETE", "/campaigns/{}?confrim={}", "confrim"),
        ("POST", "/select?explain=true", "explain"),
        ("POST", "/reward?x", "x"),
        ("POST", "/campaigns?dry_run=1", "dry_run"),
    ],
)
def test_an_unknown_query_parameter_is_refused(api: httpx.Client, method: str, path: str, field: str) -> None:
    """A misspelt limit would be the default."""
    campaign_id = create(api, shared())
    body = orjson.dumps({"campaign_id": campaign_id}) if method == "POST" else None
    reply = api.request(method, path.replace("{}", campaign_id), content=body, headers=JSON)
    problem(reply, 422, field)
    ok(api.get(f"/campaigns/{campaign_id}"))


def test_known_query_parameters_are_taken(api: httpx.Client) -> None:
    """Strictness would have closed what is documented."""
    campaign_id = create(api, shared(campaign_id=new_id("queried")))
    assert len(ok(api.get("/campaigns?limit=1"))["items"]) == 1
    assert api.get("/health/live?probe=1").status_code == 200
    assert api.delete(f"/campaigns/{campaign_id}?confirm={campaign_id}").status_code == 204
