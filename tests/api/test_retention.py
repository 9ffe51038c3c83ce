"""`retention_days` in the API: for how long decisions are kept, and what an export is without them."""

from typing import Any

import httpx
import pytest
from sqlalchemy import text

from prudent.store.engines import create_write_engine, parse_database_url
from tests.api.contract import create, multi_armed, ok, problem, read, reward, select
from tests.servers import Server
from tests.waiting import wait_for

DAY = 86_400 * 1_000_000


def age(server: Server, campaign_id: str, days: int) -> None:
    """Have the decisions of a campaign been made so many days earlier."""
    engine = create_write_engine(parse_database_url(server.database_url))
    own = "key = (SELECT key FROM campaigns WHERE campaign_id = :id)"
    statement = text(f"UPDATE decisions SET created_at = created_at - :age WHERE {own}")  # noqa: S608 (our own names)
    with engine.begin() as connection:
        connection.execute(statement, {"age": days * DAY, "id": campaign_id})
    engine.dispose()


def test_it_is_set_and_changed(api: httpx.Client) -> None:
    """Nobody could tell for how long decisions are kept, or change it."""
    campaign_id = create(api, multi_armed(retention_days=30))
    assert read(api, campaign_id)["retention_days"] == 30
    for days in (7, 0):
        assert ok(api.patch(f"/campaigns/{campaign_id}", json={"retention_days": days}))["retention_days"] == days
        ok(api.patch(f"/campaigns/{campaign_id}", json={"description": f"kept for {days}"}))
        assert read(api, campaign_id)["retention_days"] == days
    assert read(api, create(api, multi_armed()))["retention_days"] == 0


@pytest.mark.parametrize("days", [-1, 36_501, 1.5, "week", True])
def test_it_is_a_number_of_days(api: httpx.Client, days: Any) -> None:
    """A typing error could delete everything."""
    reply = api.post("/campaigns", json=multi_armed(campaign_id="never-made", retention_days=days))
    assert problem(reply, 422)["errors"][0]["field"] == "retention_days"
    campaign_id = create(api, multi_armed(retention_days=30))
    reply = api.patch(f"/campaigns/{campaign_id}", json={"retention_days": days})
    assert problem(reply, 422)["errors"][0]["field"] == "retention_days"
    assert read(api, campaign_id)["retention_days"] == 30


@pytest.mark.parametrize(
    "needs",
    [
        {"reward": {"timeout_seconds": 8 * 86_400.0, "default": 0.0}},
        {"assignment": {"sticky_seconds": 4 * 86_400}},
    ],
)
def test_it_leaves_what_may_still_be_asked_for(api: httpx.Client, needs: dict[str, Any]) -> None:
    """A decision would go before its deadline, or before its subject comes back."""
    reply = api.post("/campaigns", json=multi_armed(campaign_id="never-made", retention_days=7, **needs))
    found = problem(reply, 422)["errors"][0]
    assert (found["field"], "at least 8" in found["message"]) == ("retention_days", True)
    campaign_id = create(api, multi_armed(retention_days=8, **needs))
    problem(api.patch(f"/campaigns/{campaign_id}", json={"retention_days": 7}), 422)
    ok(api.patch(f"/campaigns/{campaign_id}", json={"retention_days": 0}))


def test_an_export_without_its_old_decisions_is_whole(api: httpx.Client, api_server: Server) -> None:
    """A campaign with retention could not be moved, or would be called damaged where it arrives."""
    campaign_id = create(api, multi_armed(retention_days=30))
    for value in (1.0, 2.0):
        reward(api, select(api, campaign_id)["decision_id"], value)
    age(api_server, campaign_id, 31)
    last = select(api, campaign_id)["decision_id"]
    reward(api, last, 3.0)
    path = f"/campaigns/{campaign_id}/decisions"
    wait_for(lambda: [one["decision_id"] for one in ok(api.get(path))["items"]] == [last])
    report = ok(api.get(f"/campaigns/{campaign_id}/report"))
    file = api.get(f"/campaigns/{campaign_id}/export").raise_for_status().content
    api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).raise_for_status()
    headers = {"Content-Type": "application/x-ndjson"}
    ok(api.post("/import", content=file, headers=headers), 201)
    moved = ok(api.get(f"/campaigns/{campaign_id}/report"))
    assert (moved["plays"], moved["observations"]) == (report["plays"], report["observations"]) == (3, 3)
    assert read(api, campaign_id)["retention_days"] == 30


@pytest.mark.parametrize("changes", [{}, {"retention_days": 8}, {"retention_days": 0}])
def test_a_log_outlives_its_decisions(api: httpx.Client, changes: dict[str, Any]) -> None:
    """A reward would be learned twice: its decision is there, and that it had a reward is not."""
    ridge = {"algorithm": {"name": "linucb"}, "log_retention_days": 7}
    reply = api.post("/campaigns", json=multi_armed(campaign_id="never-made", **ridge, **changes))
    found = problem(reply, 422)["errors"][0]
    assert (found["field"], "at least retention_days" in found["message"]) == ("log_retention_days", True)
    campaign_id = create(api, multi_armed(**ridge, retention_days=3))
    path = f"/campaigns/{campaign_id}"
    assert problem(api.patch(path, json={"log_retention_days": 2}), 422)["errors"][0]["field"] == "log_retention_days"
    problem(api.patch(path, json={"log_retention_days": 7, "retention_days": 8}), 422)
    assert [read(api, campaign_id)[name] for name in ("retention_days", "log_retention_days")] == [3, 7]
    ok(api.patch(path, json={"retention_days": 0, "log_retention_days": 0}))


@pytest.mark.parametrize("days", [-1, 36_501, 1.5, "week", True])
def test_a_log_is_kept_for_a_number_of_days(api: httpx.Client, days: Any) -> None:
    """A typing error could replace everything."""
    reply = api.post(
        "/campaigns", json=multi_armed(campaign_id="never-made", retention_days=1, log_retention_days=days)
    )
    assert problem(reply, 422)["errors"][0]["field"] == "log_retention_days"


def test_what_is_computed_from_the_whole_log_keeps_it(api: httpx.Client) -> None:
    """There is no snapshot of the exact minimiser's state to begin with."""
    exact = {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"name": "linucb-cr", "exact_until": None}}
    kept = {"retention_days": 3, "log_retention_days": 7}
    body = multi_armed(campaign_id="never-made", **{**exact, **kept})
    refused = problem(api.post("/campaigns", json=body), 422)
    assert refused["errors"][0]["field"] == "log_retention_days"
    campaign_id = create(api, multi_armed(**{**exact, "algorithm": {"name": "linucb-cr", "exact_until": 50}, **kept}))
    refused = problem(api.patch(f"/campaigns/{campaign_id}", json={"algorithm": {"exact_until": None}}), 422)
    assert refused["errors"][0]["field"] == "log_retention_days"
