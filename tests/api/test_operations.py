"""Health, metrics, and the documentation that the service gives of itself."""

import json
import math
import re
from typing import Any
from urllib.parse import urljoin, urlsplit

import httpx
import pytest
from sqlalchemy import text

from prudent.core.measures import MEASURES
from prudent.store.engines import create_write_engine, parse_database_url
from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, read, reward, select, shared
from tests.conftest import MakeServer

OPERATIONS = {
    ("post", "/campaigns"): "createCampaign",
    ("get", "/campaigns"): "listCampaigns",
    ("get", "/campaigns/{campaign_id}"): "getCampaign",
    ("patch", "/campaigns/{campaign_id}"): "changeCampaign",
    ("get", "/campaigns/{campaign_id}/features"): "getFeatures",
    ("delete", "/campaigns/{campaign_id}"): "deleteCampaign",
    ("post", "/campaigns/{campaign_id}/restart"): "restartCampaign",
    ("delete", "/campaigns/{campaign_id}/subjects/{subject}"): "eraseSubject",
    ("post", "/campaigns/{campaign_id}/arms"): "addArm",
    ("patch", "/campaigns/{campaign_id}/arms/{arm_id}"): "changeArm",
    ("post", "/campaigns/{campaign_id}/observations"): "observe",
    ("get", "/campaigns/{campaign_id}/model"): "getModel",
    ("get", "/campaigns/{campaign_id}/report"): "getReport",
    ("get", "/campaigns/{campaign_id}/decisions"): "listDecisions",
    ("get", "/campaigns/{campaign_id}/export"): "exportCampaign",
    ("post", "/import"): "importCampaign",
    ("post", "/select"): "select",
    ("post", "/reward"): "reward",
    ("get", "/decisions/{decision_id}"): "getDecision",
    ("post", "/decisions/{decision_id}/activate"): "activateDecision",
    ("post", "/decisions/{decision_id}/correction"): "correctReward",
    ("post", "/events"): "sendEvent",
    ("post", "/events/batch"): "sendEventBatch",
    ("post", "/ofrep/v1/evaluate/flags"): "evaluateFlags",
    ("post", "/ofrep/v1/evaluate/flags/{key}"): "evaluateFlag",
    ("post", "/select/batch"): "selectBatch",
    ("post", "/reward/batch"): "rewardBatch",
    ("get", "/health/live"): "live",
    ("get", "/health/ready"): "ready",
    ("get", "/metrics"): "metrics",
}
BODILESS = {"get", "delete"}


@pytest.fixture(scope="module")
def openapi(api: httpx.Client) -> Json:
    """The description of the API, read as a strict parser reads it."""

    def refuse(constant: str) -> float:
        raise ValueError(f"{constant} is not JSON")

    reply = api.get("/openapi.json")
    assert reply.status_code == 200
    parsed: Json = json.loads(reply.content, parse_constant=refuse)
    assert json.loads(json.dumps(parsed, allow_nan=False)) == parsed
    return parsed


def test_health(api: httpx.Client) -> None:
    """An orchestrator would take a healthy service for a broken one."""
    for path in ("/health/live", "/health/ready"):
        assert ok(api.get(path))["status"] == "ok"


def samples(api: httpx.Client) -> dict[str, float]:
    """The metrics as a scraper reads them."""
    reply = api.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain")
    lines = [line for line in reply.text.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_metrics_count(api: httpx.Client) -> None:
    """B30. A dashboard would show a service that nobody uses, or miss the rewards that found no decision."""
    orphans = 'prudent_requests_total{method="POST",route="/reward",status="404"}'
    before = samples(api)
    campaign_id = create(api, multi_armed())
    first, second = (select(api, campaign_id)["decision_id"] for _ in range(2))
    reward(api, first, 1)
    reward(api, first, 1)
    ok(api.post(f"/campaigns/{campaign_id}/observations", json={"items": [{"arm_id": "a", "reward": 1}] * 3}))
    problem(api.post("/reward", json={"decision_id": new_id("orphan"), "reward": 1}), 404)
    after = samples(api)
    gained = {name: value - before.get(name, 0) for name, value in after.items()}
    assert gained["prudent_decisions_total"] == 2
    assert gained["prudent_observations_total"] == 4
    assert gained[orphans] == 1
    assert gained['prudent_requests_total{method="POST",route="/select",status="200"}'] == 2
    assert (
        gained['prudent_requests_total{method="POST",route="/campaigns/{campaign_id}/observations",status="200"}'] == 1
    )
    assert after["prudent_states"] >= 0
    assert second not in api.get("/metrics").text


def test_metrics_hold_no_ids(api: httpx.Client) -> None:
    """Every campaign, decision and arm would become a time series of its own, and fill the monitoring."""
    campaign_id = create(api, shared(campaign_id=new_id("secret-campaign"), arms=[]))
    read(api, campaign_id)
    arms = [{"arm_id": "secret-arm", "features": [1, 2]}]
    select(api, campaign_id, decision_id=new_id("secret-decision"), arms=arms)
    api.patch(f"/campaigns/{campaign_id}/arms/secret-arm", json={"status": "paused"})
    api.get("/secret-address")
    api.delete(f"/campaigns/{campaign_id}", params={"confirm": "secret-confirmation"})
    text = api.get("/metrics").text
    assert "secret" not in text
    elsewhere = ("/dashboard", "/guide", "/personalizer/")
    found = {route for route in re.findall(r'route="([^"]*)"', text) if not route.startswith(elsewhere)}
    assert found <= {path for _, path in OPERATIONS} | {
        "other",
        "unparsed",
        "/",
        "/docs",
        "/docs/static/{name}",
        "/openapi.json",
    }


def test_docs_need_no_network(api: httpx.Client) -> None:
    """Behind a firewall the documentation would be an empty page."""
    page = api.get("/docs")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "/openapi.json" in page.text
    found = re.findall(r"""(?:src|href)=["']([^"']+)["']""", page.text)
    assert any(urlsplit(address).path.endswith(".js") for address in found)
    assert any(urlsplit(address).path.endswith(".css") for address in found)
    for address in found:
        absolute = urljoin(str(page.url), address)
        assert urlsplit(absolute).netloc == page.url.netloc.decode()
        asset = api.get(address)
        assert asset.status_code == 200, address
        assert len(asset.content) > 100
    assert not re.findall(r"https?://(?!127\.0\.0\.1)", page.text)


def test_front_page(api: httpx.Client) -> None:
    """Someone who opens the address in a browser would see an error."""
    reply = api.get("/", follow_redirects=True)
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/html")


def test_openapi_operations(openapi: Json) -> None:
    """W48. A client generator would fail, or name its methods after our functions."""
    assert openapi["openapi"].startswith("3.1")
    found = {
        (method, path): operation["operationId"]
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }
    assert {place: found.get(place) for place in OPERATIONS} == OPERATIONS
    assert len(set(found.values())) == len(found)
    assert all(re.fullmatch(r"[a-z][A-Za-z]*", name) for name in found.values())
    for (method, _path), name in found.items():
        operation = next(o for p in openapi["paths"].values() for m, o in p.items() if o["operationId"] == name)
        assert ("requestBody" in operation) is (method not in BODILESS and name != "activateDecision"), name
        assert operation["summary"]
        for status, answer in operation["responses"].items():
            assert answer["description"]
            assert answer.get("content") or status in {"204", "304"}, (name, status)
        if name in {"evaluateFlag", "evaluateFlags"}:
            failure = operation["responses"]["default"]["content"]["application/json"]
            assert failure["schema"] == {"$ref": "#/components/schemas/FlagFailure"}
        elif name not in {"live", "ready", "metrics"}:
            problems = operation["responses"]["default"]["content"]["application/problem+json"]
            assert problems["schema"] == {"$ref": "#/components/schemas/Problem"}


def test_openapi_references(openapi: Json) -> None:
    """W48. A schema that the description refers to would be missing from it."""
    text = json.dumps(openapi)
    for name in set(re.findall(r'"\$ref": "([^"]+)"', text)):
        assert name.startswith("#/components/schemas/")
        assert name.rpartition("/")[2] in openapi["components"]["schemas"]
    assert "HTTPValidationError" not in text  # the framework's, which we never send


def test_openapi_unions_have_discriminators(openapi: Json) -> None:
    """A generated client could not tell an expectile from a mean."""
    for schema in ("CampaignConfiguration", "CampaignReply"):
        properties = openapi["components"]["schemas"][schema]["properties"]
        for name, tag, kinds in (
            ("risk", "measure", {measure.name for measure in MEASURES}),
            ("model", "type", {"shared", "disjoint", "multi-armed"}),
        ):
            union = properties[name]
            assert union["discriminator"]["propertyName"] == tag
            assert set(union["discriminator"]["mapping"]) == kinds
            assert {one["$ref"] for one in union["oneOf"]} == set(union["discriminator"]["mapping"].values())


def test_openapi_states_the_ranges(openapi: Json) -> None:
    """A user would learn a limit only by meeting it."""
    schemas = openapi["components"]["schemas"]
    dimension, _ = schemas["SharedModel"]["properties"]["dimension"]["anyOf"]  # or null, where features are named
    assert (dimension["minimum"], dimension["maximum"]) == (1, 512)
    assert schemas["CampaignConfiguration"]["properties"]["arms"]["maxItems"] == 1_000
    assert schemas["CampaignConfiguration"]["properties"]["seed"]["maximum"] == 2**53 - 1
    assert "4,000,000" in schemas["DisjointModel"]["description"]
    reward_ = schemas["RewardRequest"]["properties"]["reward"]
    assert (reward_["minimum"], reward_["maximum"]) == (-1e9, 1e9)
    for name in (
        "CampaignConfiguration",
        "Algorithm",
        "SelectRequest",
        "RewardRequest",
        "ObservationItem",
        "CampaignChange",
        "ArmRequest",
    ):
        schema = schemas[name]
        assert schema["additionalProperties"] is False
        for field, described in schema["properties"].items():
            for variant in described.get("anyOf", [described]):
                if variant.get("type") in {"number", "integer"}:
                    bounds = variant.keys() & {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
                    assert len(bounds) == 2, f"{name}.{field}"
                    assert all(math.isfinite(variant[bound]) for bound in bounds)


def test_openapi_examples_work_as_printed(openapi: Json, api: httpx.Client) -> None:
    """The first thing that a newcomer tries in /docs would fail."""
    examples: dict[str, Any] = {}
    for methods in openapi["paths"].values():
        for operation in methods.values():
            if "requestBody" in operation and operation["operationId"] != "importCampaign":  # that takes a file
                media = operation["requestBody"]["content"]["application/json"]
                assert media["schema"]["$ref"].startswith("#/components/schemas/")
                examples[operation["operationId"]] = media["example"]
    campaign_id = examples["createCampaign"]["campaign_id"]
    api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id})  # made-up requests may have made it
    try:
        ok(api.post("/campaigns", json=examples["createCampaign"]), 201)
        path = f"/campaigns/{campaign_id}"
        ok(api.patch(path, json=examples["changeCampaign"]))
        ok(api.post(f"{path}/arms", json=examples["addArm"]), 201)
        ok(api.patch(f"{path}/arms/{examples['addArm']['arm_id']}", json=examples["changeArm"]))
        ok(api.post("/select", json=examples["select"]))
        ok(api.post("/reward", json=examples["reward"]))
        assert ok(api.post(f"{path}/observations", json=examples["observe"]))["accepted"] == 1
        for name, route in (("selectBatch", "/select/batch"), ("rewardBatch", "/reward/batch")):
            assert {one["status"] for one in ok(api.post(route, json=examples[name]))["items"]} == {200}
    finally:
        api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id})


def test_replies_hold_what_is_documented(openapi: Json, api: httpx.Client) -> None:
    """A typed client would fail on a field that is there and not documented, or the other way round."""
    schemas = openapi["components"]["schemas"]
    campaign_id = create(api, multi_armed())
    decision = select(api, campaign_id, chosen_arm_id="a", explain=True, subject="u")
    replies = {
        "CampaignReply": read(api, campaign_id),
        "SelectReply": decision,
        "StoredDecisionReply": ok(api.get(f"/decisions/{decision['decision_id']}")),
        "RewardReply": reward(api, decision["decision_id"], 1),
        "ModelReply": ok(api.get(f"/campaigns/{campaign_id}/model")),
        "CampaignListReply": ok(api.get("/campaigns")),
        "ArmReply": read(api, campaign_id)["arms"][0],
        "Problem": problem(api.get("/campaigns/none-of-this-name"), 404),
        "ReportReply": ok(api.get(f"/campaigns/{campaign_id}/report")),
        "DecisionListReply": ok(api.get(f"/campaigns/{campaign_id}/decisions")),
    }
    replies["ExplainedArmReply"] = decision["arms"][0]
    replies["ArmModelReply"] = replies["ModelReply"]["arms"][0]
    replies["LoggedDecisionReply"] = replies["DecisionListReply"]["items"][0]
    replies["LoggedRewardReply"] = replies["LoggedDecisionReply"]["reward"]
    replies["ArmReportReply"] = replies["ReportReply"]["arms"][0]
    replies["RewardsReply"] = replies["ArmReportReply"]["rewards"]
    replies["RewardSourcesReply"] = replies["RewardsReply"]["sources"]
    replies["ExternalReply"] = replies["ReportReply"]["external"]
    replies["PriceOfCautionReply"] = replies["ReportReply"]["price_of_caution"]
    replies["LearningReply"] = replies["ReportReply"]["learning"]
    replies["UnlistedReply"] = replies["ReportReply"]["unlisted"]
    held = create(api, multi_armed(holdout={"share": 0.5, "policy": "uniform"}))
    replies["HoldoutReply"] = ok(api.get(f"/campaigns/{held}/report"))["holdout"]
    replies["HoldoutGroupReply"] = replies["HoldoutReply"]["decided"]
    kept = create(api, multi_armed(algorithm={"baseline": {"arm_id": "a"}}))
    replies["BaselineReply"] = ok(api.get(f"/campaigns/{kept}/report"))["baseline"]
    with_features = create(api, disjoint())
    reward(api, select(api, with_features, context=[1, 2])["decision_id"], 1)
    replies["PolicyReply"] = ok(api.get(f"/campaigns/{with_features}/report"))["policy"]
    replies["PolicyArmReply"] = replies["PolicyReply"]["arms"][0]
    replies["EstimateAtReply"] = replies["PolicyArmReply"]["estimates"][0]
    for name, body in replies.items():
        assert set(body) == set(schemas[name]["properties"]), name


def test_damaged_settings_are_not_the_readers_mistake(make_server: MakeServer, sqlite_database: str) -> None:
    """A monitor would be told that its body is no JSON, and a browser be shown the API's words for it."""
    server = make_server(sqlite_database)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as client:
        good, bad = create(client, multi_armed()), create(client, multi_armed())
        engine = create_write_engine(parse_database_url(sqlite_database))
        with engine.begin() as connection:
            damage = "UPDATE campaigns SET configuration = substr(configuration, 1, 40) WHERE campaign_id = :id"
            connection.execute(text(damage), {"id": bad})
        engine.dispose()
        for path in ("", "/report", "/decisions"):
            said = problem(client.get(f"/campaigns/{bad}{path}"), 503)
            assert "settings cannot be read" in said["detail"]
        for path in (f"campaigns/{bad}/try", f"manage/campaigns/{bad}/clone"):
            page = client.get(f"/dashboard/{path}")
            assert (page.status_code, page.headers["content-type"].partition(";")[0]) == (503, "text/html"), path
        assert [one["campaign_id"] for one in ok(client.get("/campaigns"))["items"]] == [good]
