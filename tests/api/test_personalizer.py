"""The retired Personalizer's protocol, call by call: what its clients send, and what they must be told."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import psycopg
import pytest

from prudent.api.doors.rank_requests import as_id, event_id_of
from tests.api.contract import Json, create, disjoint, multi_armed, new_id, ok, problem, select
from tests.api.keys import ADMIN_KEY, make_key
from tests.api.test_operations import samples
from tests.conftest import MakeServer, migrate_empty

THEIR_HEADER = "Ocp-Apim-Subscription-Key"
FEATURES = [
    {"name": "taste", "kind": "category", "capacity": 4, "missing": "center"},
    {"name": "nutrition.level", "kind": "number", "center": 0, "scale": 5, "missing": "center"},
    {"name": "grams.1", "kind": "number", "center": 0, "scale": 500, "missing": "center"},
    {"name": "drink", "kind": "boolean"},
]
CONTEXT = [
    {"name": "user.name", "kind": "category", "capacity": 3, "missing": "center"},
    {"name": "slot.size", "kind": "category", "capacity": 3, "missing": "center"},
]
ACTIONS = [
    {"id": "pasta", "features": [{"taste": "salty", "grams": [400, 800]}, {"nutrition": {"level": 5}}]},
    {"id": "ice cream", "features": [{"taste": "sweet", "drink": False, "melts": True}]},
    {"id": "Säfte/Juices", "features": [{"taste": "sweet", "drink": True, "origin": None}]},
    {"id": "salad", "features": [{}]},
]
NAMES = [action["id"] for action in ACTIONS]
RANK: Json = {"contextFeatures": [{"user": {"name": "Bill", "age": 33}, "_ignored": 1}], "actions": ACTIONS}


def meals(**changes: Any) -> Json:
    """A campaign for these actions."""
    model = {"type": "shared", "features": FEATURES, "context_features": CONTEXT}
    crossed = [[f"context.{one['name']}", "arm.taste"] for one in CONTEXT]
    return {
        "campaign_id": new_id("meals"),
        "risk": {"measure": "mean"},
        "model": model | {"interactions": crossed},
        "reward": {"minimum": -1, "maximum": 1},
    } | changes


def path(campaign_id: str, call: str, version: str = "v1.0") -> str:
    return f"/personalizer/{campaign_id}/personalizer/{version}/{call}"


def slots_path(campaign_id: str, call: str) -> str:
    return path(campaign_id, f"multislot/{call}", "v1.1-preview.3")


def rank(api: httpx.Client, campaign_id: str, **changes: Any) -> Json:
    return ok(api.post(path(campaign_id, "rank"), json=RANK | changes), 201)


def refused(reply: httpx.Response, status: int, target: str | None = None) -> Json:
    """The error of a reply that must be one."""
    assert reply.status_code == status, reply.text
    assert reply.headers["content-type"] == "application/json"
    (error,) = reply.json().values()
    codes = {404: "ResourceNotFound", 500: "InternalServerError"}
    assert error["code"] == codes.get(status, "BadRequest")
    assert error["message"]
    assert error.get("target") == target, error
    body: Json = error
    return body


def gained(api: httpx.Client, before: dict[str, float], name: str) -> float:
    return samples(api)[name] - before[name]


def test_probabilities_are_those_of_the_decision(api: httpx.Client) -> None:
    """Whoever evaluates a policy on this log would weigh with probabilities that nothing was drawn with."""
    campaign_id, twin = create(api, meals()), create(api, meals())
    for number in range(6):
        event = rank(api, campaign_id, eventId=f"warm {number}")
        reward = {"value": 0.1 * number}
        assert api.post(path(campaign_id, f"events/warm%20{number}/reward"), json=reward).status_code == 204
        assert len(event["ranking"]) == 4
    ranked = rank(api, campaign_id, eventId="event 1/ä", excludedActions=["ice cream", "not on the list"])
    assert ranked["eventId"] == "event 1/ä"
    assert ranked["ranking"][1] == {"id": "ice cream", "probability": 0.0}
    assert sorted(one["id"] for one in ranked["ranking"]) == sorted(NAMES)
    assert ranked["rewardActionId"] == ranked["ranking"][0]["id"]
    assert sum(one["probability"] for one in ranked["ranking"]) == pytest.approx(1, abs=1e-12)
    decision = ok(api.get(f"/decisions/{event_id_of(campaign_id, 'event 1/ä')}"))
    explained = {arm["arm_id"]: arm["propensity"] for arm in decision["arms"]}
    assert {as_id(one["id"]): one["probability"] for one in ranked["ranking"]} == explained | {"ice~20cream": 0.0}
    assert decision["propensity"] == explained[decision["arm_id"]]
    assert decision["arm_id"] == as_id(ranked["rewardActionId"])
    # and the same as in a native request with the features that were meant
    arms = [
        {"arm_id": "pasta", "features": {"taste": "salty", "grams.1": 800, "nutrition.level": 5, "drink": False}},
        {"arm_id": "juices", "features": {"taste": "sweet", "drink": True}},
        {"arm_id": "salad", "features": {"drink": False}},
    ]
    native = select(api, twin, arms=arms, context={"user.name": "Bill"}, explain=True)
    first = rank(api, create(api, meals()), excludedActions=["ice cream"])
    assert sorted(arm["propensity"] for arm in native["arms"]) == pytest.approx(
        sorted(one["probability"] for one in first["ranking"])[1:], abs=1e-12
    )


def test_features_are_read_as_there(api: httpx.Client) -> None:
    """A feature that is lost, or another one's, is learned wrongly in silence."""
    campaign_id = create(api, meals(log_candidates=True))
    before = samples(api)
    rank(api, campaign_id)
    assert gained(api, before, "prudent_ignored_attributes_total") == 3  # user.age, melts, grams.0
    rows = api.get(f"/campaigns/{campaign_id}/export", params={"format": "ndjson"}).json()
    assert rows["context.user.name"] == "Bill"
    assert rows["candidates"] == {
        "pasta": {"taste": "salty", "nutrition.level": 5, "grams.1": 800, "drink": False},
        "ice~20cream": {"taste": "sweet", "nutrition.level": None, "grams.1": None, "drink": False},
        as_id("Säfte/Juices"): {"taste": "sweet", "nutrition.level": None, "grams.1": None, "drink": True},
        "salad": {"taste": None, "nutrition.level": None, "grams.1": None, "drink": False},
    }


def test_the_first_request_of_an_event_counts(api: httpx.Client) -> None:
    """A retry would be an error, or show something else than what will be rewarded."""
    campaign_id = create(api, meals())
    first = rank(api, campaign_id, eventId="e")
    assert rank(api, campaign_id, eventId="e") == first
    assert rank(api, campaign_id, eventId="e", deferActivation=True) == first
    other = rank(api, campaign_id, eventId="e", actions=[{"id": "soup", "features": [{}]}])
    assert other["rewardActionId"] == first["rewardActionId"]
    assert {"id": "soup", "probability": 0.0} in other["ranking"]
    assert [one for one in other["ranking"] if one["id"] != "soup"] == first["ranking"]
    ok(api.patch(f"/campaigns/{campaign_id}", json={"status": "archived"}))
    assert rank(api, campaign_id, eventId="e") == first
    refused(api.post(path(campaign_id, "rank"), json=RANK), 400)
    # ids are of one loop there
    assert rank(api, create(api, meals()), eventId="e")["eventId"] == "e"


def test_a_second_reward_and_a_late_one_are_counted(api: httpx.Client) -> None:
    """Its clients raise at anything but a 204, in programs that nobody looks at any more."""
    campaign_id = create(api, meals(reward={"timeout_seconds": 0.05, "default": 0.0}))
    before = samples(api)
    in_time = create(api, meals())
    rank(api, in_time, eventId="e")
    for value in (1, 1, 0.5):
        assert api.post(path(in_time, "events/e/reward"), json={"value": value}).status_code == 204
    for outcome in ("learned", "repeated", "different"):
        assert gained(api, before, f'prudent_personalizer_rewards_total{{outcome="{outcome}"}}') == 1
    rank(api, campaign_id, eventId="e", deferActivation=True)
    assert api.post(path(campaign_id, "events/e/activate")).status_code == 204
    assert api.post(path(campaign_id, "events/e/activate")).status_code == 204
    while ok(api.get(f"/campaigns/{campaign_id}"))["observations"] == 0:
        time.sleep(0.1)  # until the default has been learned
    assert api.post(path(campaign_id, "events/e/reward"), json={"value": 1}).status_code == 204
    assert gained(api, before, 'prudent_personalizer_rewards_total{outcome="late"}') == 1
    refused(api.post(path(in_time, "events/nobody/reward"), json={"value": 1}), 404)
    refused(api.post(path(in_time, "events/nobody/activate")), 404)
    assert ok(api.get(f"/campaigns/{in_time}"))["observations"] == 1


def test_campaigns_that_learn_each_action_by_itself(api: httpx.Client) -> None:
    """A campaign that exists could not be asked through this door."""
    arms = [{"arm_id": as_id(name), "value": name} for name in NAMES[:3]]
    model = {"type": "disjoint", "features": CONTEXT[:1]}
    ids = [create(api, disjoint(model=model, arms=arms)), create(api, multi_armed(arms=arms))]
    for campaign_id in ids:
        ranked = rank(api, campaign_id, actions=ACTIONS[:3], excludedActions=["pasta"])
        assert ranked["ranking"][0] == {"id": "pasta", "probability": 0.0}
        assert ranked["rewardActionId"] == ranked["ranking"][1]["id"]
        refused(api.post(path(campaign_id, "rank"), json=RANK), 400, "actions.3.id")
        ok(api.patch(f"/campaigns/{campaign_id}/arms/ice~20cream", json={"status": "paused"}))
        ranked = rank(api, campaign_id, actions=ACTIONS[:2])
        assert ranked["ranking"] == [{"id": "pasta", "probability": 1.0}, {"id": "ice cream", "probability": 0.0}]


def test_the_configuration_has_a_counterpart(api: httpx.Client) -> None:
    """A script that sets the share of exploration would fail, or be answered without an effect."""
    rules = {"timeout_seconds": 600, "default": 0, "minimum": -1, "maximum": 1}
    campaign_id = create(api, meals(reward=rules))
    address = path(campaign_id, "configurations/service", "v1.1-preview.3")
    shown = ok(api.get(address))
    assert shown == {
        "rewardWaitTime": "PT10M",
        "defaultReward": 0.0,
        "rewardAggregation": "earliest",
        "explorationPercentage": 0.0,
        "modelExportFrequency": "PT0S",
        "logRetentionDays": -1,
        "learningMode": "Online",
    }
    wanted = shown | {"explorationPercentage": 0.2, "modelExportFrequency": "PT5M"}
    assert ok(api.put(address, json=wanted))["explorationPercentage"] == 0.2
    assert ok(api.get(f"/campaigns/{campaign_id}"))["algorithm"]["uniform_share"] == 0.2
    ranked = rank(api, campaign_id)
    assert min(one["probability"] for one in ranked["ranking"]) >= 0.2 / 4
    for field, value in (
        ("explorationPercentage", 20),
        ("rewardWaitTime", "PT1H"),
        ("rewardWaitTime", "ten minutes"),
        ("defaultReward", 1),
        ("rewardAggregation", "sum"),
        ("learningMode", "Apprentice"),
    ):
        refused(api.put(address, json=wanted | {field: value}), 400, field)
    without = create(api, meals())
    assert ok(api.get(path(without, "configurations/service")))["rewardWaitTime"] is None
    refused(api.get(path("nobody", "configurations/service")), 404)
    refused(api.put(path("nobody", "configurations/service"), json=wanted), 404)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("actions", {"actions": []}),
        ("actions", {"actions": None}),
        ("actions.0.id", {"actions": [{"features": []}]}),
        ("actions.0.id", {"actions": [{"id": ""}]}),
        ("actions.0.id", {"actions": [{"id": "x" * 257}]}),
        ("actions.0.id", {"actions": [{"id": "a\nb"}]}),
        ("actions.0.id", {"actions": [{"id": 7}]}),
        ("actions.1.id", {"actions": [{"id": "a"}, {"id": "a"}]}),
        ("actions.0.features.0", {"actions": [{"id": "a", "features": ["salty"]}]}),
        ("actions.0.features", {"actions": [{"id": "a", "features": {"taste": "salty"}}]}),
        ("actions.0.features", {"actions": [{"id": "a", "features": [{"taste": "sweet"}, {"taste": "salty"}]}]}),
        ("actions.0.features.taste", {"actions": [{"id": "a", "features": [{"taste": 7}]}]}),
        ("actions.0.features.drink", {"actions": [{"id": "a", "features": [{"drink": "yes"}]}]}),
        ("actions.0.features.nutrition.level", {"actions": [{"id": "a", "features": [{"nutrition": {"level": "5"}}]}]}),
        ("contextFeatures.0", {"contextFeatures": [7]}),
        ("contextFeatures.user.name", {"contextFeatures": [{"user": {"name": 7}}]}),
        ("excludedActions.0", {"excludedActions": [7]}),
        ("actions", {"excludedActions": NAMES}),
        ("eventId", {"eventId": ""}),
        ("eventId", {"eventId": 7}),
        ("eventId", {"eventId": "x" * 257}),
        ("deferActivation", {"deferActivation": "no"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_ranks_change_nothing(api: httpx.Client, field: str, change: Json) -> None:
    """What is wrong must be said in the form that its clients can show, and nothing be recorded."""
    campaign_id = create(api, meals())
    refused(api.post(path(campaign_id, "rank"), json=RANK | change), 400, field)
    assert ok(api.get(f"/campaigns/{campaign_id}/report"))["plays"] == 0


def test_a_rank_without_an_action_is_refused_in_its_own_words(api: httpx.Client) -> None:
    """Its clients would look for fields that only our own requests have."""
    reply = api.post(path(create(api, meals()), "rank"), json=RANK | {"excludedActions": NAMES})
    refused(reply, 400, "actions")
    assert "excludedActions" in reply.text
    assert "eligible" not in reply.text


def test_long_names_are_not_multiplied(api: httpx.Client) -> None:
    """A request of a megabyte would take all of the machine's memory: a name is repeated for each value below it."""
    campaign_id = create(api, meals())
    many: Json = {"x" * 20_000: [1] * 10_000}
    refused(api.post(path(campaign_id, "rank"), json=RANK | {"contextFeatures": [many]}), 400, "contextFeatures")
    actions = [{"id": "pasta", "features": [many]}]
    refused(api.post(path(campaign_id, "rank"), json=RANK | {"actions": actions}), 400, "actions.0.features")
    slots = [{"id": "top", "features": [many], "baselineAction": "pasta"}]
    refused(api.post(path(campaign_id, "multislot/rank"), json=RANK | {"slots": slots}), 400, "slots.0.features")
    rank(api, campaign_id, contextFeatures=[{"user": {"text": {"embedding": [0.5] * 10_000}}}])


def test_bad_calls_change_nothing(api: httpx.Client) -> None:
    """The same for everything else that can be wrong."""
    campaign_id = create(api, meals())
    rank(api, campaign_id, eventId="e")
    for value in (2, -1.5, 1e10, "1", None, True):
        refused(api.post(path(campaign_id, "events/e/reward"), json={"value": value}), 400, "value")
    refused(api.post(path(campaign_id, "events/e/reward"), json={}), 400, "value")
    refused(api.post(path(campaign_id, "events/e/reward"), content=b"{"), 400, "body")
    refused(api.post(path(campaign_id, "rank"), content=b"\xff"), 400, "body")
    refused(api.post(path(campaign_id, "rank"), content=b"x" * (2**20 + 1)), 413)
    refused(api.post(path(campaign_id, "rank"), content=b"a=1", headers={"Content-Type": "text/plain"}), 415)
    refused(api.get(path(campaign_id, "rank")), 405)
    refused(api.post(path(campaign_id, "model")), 404)
    refused(api.post(path(campaign_id, "rank", "v2.0"), json=RANK), 400, "version")
    refused(api.post(path("no such id", "rank"), json=RANK), 400, "campaign_id")
    refused(api.post(path("nobody", "rank"), json=RANK), 404)
    unnamed = create(api, meals(model={"type": "shared", "dimension": 2}))
    refused(api.post(path(unnamed, "rank"), json={"actions": ACTIONS}), 400, "actions.0.features")
    assert ok(api.get(f"/campaigns/{campaign_id}"))["observations"] == 0


def test_keys_come_in_their_own_header(make_server: MakeServer, sqlite_database: str) -> None:
    """An application's key could do more than it may, or its clients, which send no other header, nothing at all."""
    migrate_empty(sqlite_database)
    keys = {role: make_key(sqlite_database, role, role) for role in ("reader", "writer")} | {"admin": ADMIN_KEY}
    server = make_server(sqlite_database, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY})
    slot = {"id": "s", "baselineAction": "pasta"}
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        campaign_id = ok(http.post("/campaigns", json=meals(), headers={"X-API-Key": ADMIN_KEY}), 201)["campaign_id"]
        calls: list[tuple[str, str, Any, str]] = [
            ("POST", path(campaign_id, "rank"), RANK | {"eventId": "e/1"}, "writer"),
            ("POST", path(campaign_id, "events/e%2F1/activate"), None, "writer"),
            ("POST", path(campaign_id, "events/e%2F1/reward"), {"value": 1}, "writer"),
            ("POST", slots_path(campaign_id, "rank"), RANK | {"eventId": "e", "slots": [slot]}, "writer"),
            ("POST", slots_path(campaign_id, "events/e/activate"), None, "writer"),
            ("POST", slots_path(campaign_id, "events/e/reward"), {"reward": [{"slotId": "s", "value": 1}]}, "writer"),
            ("GET", path(campaign_id, "configurations/service"), None, "reader"),
            ("PUT", path(campaign_id, "configurations/service"), {"explorationPercentage": 0.1}, "admin"),
        ]
        roles = ("reader", "writer", "admin")
        for method, address, body, needed in calls:
            for role in roles:
                reply = http.request(method, address, json=body, headers={THEIR_HEADER: keys[role]})
                if roles.index(role) < roles.index(needed):
                    assert needed in refused(reply, 403)["message"]
                else:
                    assert reply.is_success, f"{role} {method} {address}: {reply.text}"
            for headers in ({}, {THEIR_HEADER: "wrong"}, {THEIR_HEADER: ADMIN_KEY, "X-API-Key": "wrong"}):
                refused(http.request(method, address, json=body, headers=headers), 401)
        # and nowhere else
        problem(http.get("/campaigns", headers={THEIR_HEADER: ADMIN_KEY}), 401)


def test_what_passes_is_not_told(make_server: MakeServer, postgres_database: str) -> None:
    """One client raises at the first 503, in a program that nobody looks at any more; another waits half a minute."""
    server = make_server(postgres_database)
    with (
        httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http,
        ThreadPoolExecutor() as threads,
        psycopg.connect(postgres_database) as console,
    ):
        campaign_id = create(http, meals())
        rank(http, campaign_id, eventId="e")
        console.execute("LOCK TABLE decisions, observations IN SHARE MODE")
        calls = [
            threads.submit(http.post, path(campaign_id, "rank"), json=RANK),
            threads.submit(http.post, path(campaign_id, "events/e/reward"), json={"value": 1}),
        ]
        arms = [{"arm_id": "a", "features": {"drink": True}}]
        problem(http.post("/select", json={"campaign_id": campaign_id, "arms": arms}), 503)
        assert not any(call.done() for call in calls)
        console.rollback()
        assert [call.result().status_code for call in calls] == [201, 204]


def test_an_endpoint_may_have_any_form_that_its_clients_need(api: httpx.Client) -> None:
    """Its documentation ends endpoints with a slash, and JavaScript's client drops the path of one."""
    campaign_id = create(api, meals())
    for address in (
        f"/personalizer/{campaign_id}//personalizer/v1.0/rank",
        f"/personalizer/v1.0/rank?campaign={campaign_id}",
    ):
        assert ok(api.post(address, json=RANK), 201)["ranking"]
    refused(api.post("/personalizer/v1.0/rank", json=RANK), 404)
    refused(api.post("/personalizer/v1.0/rank?campaign=nobody", json=RANK), 404)
    refused(api.post("/personalizer/v1.0/rank?campaign=a%2Fb", json=RANK), 404)
