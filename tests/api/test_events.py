"""Events as rewards: in four forms, once each, whatever the order."""

import itertools
import json
from typing import Any

import httpx
import pytest

from prudent_client import Client, ConflictError, Event, EventReceipt, InvalidRequestError
from tests.api.contract import Json, create, model, multi_armed, new_id, ok, problem, read, select
from tests.api.test_operations import samples

STICKY = {"sticky_seconds": 366 * 86_400}
# as the documentation of their senders shows them, with what a campaign does not read
SEGMENT = {
    "anonymousId": "507f191e810c19729de860ea",
    "channel": "browser",
    "context": {"ip": "8.8.8.8", "library": {"name": "analytics.js", "version": "2.11.1"}, "page": {"path": "/pay/"}},
    "event": "Order Completed",
    "integrations": {},
    "messageId": "ajs-next-1680000000000-a1b2c3",
    "properties": {"order_id": "50314b8e", "revenue": 1250, "currency": "EUR", "products": [{"sku": "g-32"}]},
    "type": "track",
    "userId": "97980cfea0067",
    "version": 2,
}
RUDDERSTACK = {
    "channel": "web",
    "context": {"app": {"name": "RudderLabs JavaScript SDK"}, "traits": {}},
    "event": "Order Completed",
    "messageId": "1578564113557-af022c68-429e-4af4-b99b-2b9174056383",
    "properties": {"revenue": 50.5},
    "rudderId": "daf823fb-e8d3-413a-8313-d34cd756f968",
    "type": "track",
    "anonymousId": "an-1",
    "userId": None,
}
CLOUD = {
    "specversion": "1.0",
    "type": "Order Completed",
    "source": "https://shop.example/orders",
    "subject": "cloud-1",
    "id": "C234-1234-1234",
    "datacontenttype": "application/json",
    "data": {"order": {"total": 30}},
}


def names() -> tuple[str, str]:
    """Names of events that no other test uses."""
    return new_id("Order Completed"), new_id("Bounced")


def campaign(api: httpx.Client, order: str, bounced: str, value: str = "properties.revenue", **changes: Any) -> str:
    rules = {order: {"value": value, "scale": 0.01}, bounced: {"constant": -1}}
    return create(api, multi_armed(assignment=STICKY, reward={"events": rules} | changes))


def send(api: httpx.Client, body: Json, status: int = 200) -> list[Json]:
    rewarded: list[Json] = ok(api.post("/events", json=body), status)["rewarded"]
    return rewarded


def naming(api: httpx.Client, name: str, rule: Json, *subjects: str, **rules: Any) -> str:
    """A campaign that names an event, with a decision for each of these subjects."""
    campaign_id = create(api, multi_armed(assignment=STICKY, reward={"events": {name: rule}} | rules))
    for subject in subjects:
        select(api, campaign_id, subject=subject)
    return campaign_id


def own(name: str, subject: str, event_id: str | None = None, **fields: Any) -> Json:
    return {"event_id": event_id or new_id("e"), "event": name, "subject": subject, **fields}


def test_an_event_is_a_reward(api: httpx.Client) -> None:
    """Each outcome would have to be sent twice, in two forms."""
    order, bounced = names()
    one, other = campaign(api, order, bounced), campaign(api, order, bounced)
    decisions = [select(api, one, subject="u")["decision_id"], select(api, other, subject="u")["decision_id"]]
    event = own(order, "u", value=1250)
    rewarded = send(api, event)
    assert [(row["campaign_id"], row["reward"], row["duplicate"]) for row in rewarded] == [
        (name, 12.5, False) for name in sorted((one, other))
    ]
    assert {row["decision_id"] for row in rewarded} == set(decisions)
    assert [row["duplicate"] for row in send(api, event)] == [True, True]
    assert send(api, own(bounced, "u"), 202) == []  # its decision has a reward
    assert send(api, own(bounced, "nobody"), 202) == []
    assert send(api, own(new_id("unknown"), "u"), 202) == []
    assert read(api, one)["observations"] == 1


@pytest.mark.parametrize(
    ("body", "subject", "path", "reward"),
    [
        (SEGMENT, "97980cfea0067", "properties.revenue", 12.5),
        (RUDDERSTACK, "an-1", "properties.revenue", 0.505),
        (CLOUD, "cloud-1", "data.order.total", 0.3),
    ],
    ids=["segment", "rudderstack", "cloudevents"],
)
def test_what_others_send_is_taken_unchanged(
    api: httpx.Client, body: Json, subject: str, path: str, reward: float
) -> None:
    """An adapter would have to be run for each sender."""
    order, bounced = names()
    known = campaign(api, order, bounced, path)
    decision = select(api, known, subject=subject)["decision_id"]
    sent = body | ({"type": order} if "specversion" in body else {"event": order})
    sent |= {"id": new_id("c")} if "specversion" in body else {"messageId": new_id("m")}
    expected = {"campaign_id": known, "decision_id": decision, "reward": pytest.approx(reward), "duplicate": False}
    assert send(api, sent) == [expected]
    assert send(api, sent) == [expected | {"duplicate": True}]
    different: Json = json.loads(json.dumps(sent).replace(subject, "another"))
    assert send(api, different, 202) == []  # its sender could do nothing about a 409
    if "specversion" not in body:
        assert send(api, sent | {"type": "identify"}, 202) == []


def test_any_order_and_any_number_of_times(api: httpx.Client) -> None:
    """Queues deliver at least once, and not in order."""
    order, bounced = names()
    known = campaign(api, order, bounced)
    for number in range(4):
        select(api, known, subject=f"u{number}")
    events = [own(order, f"u{number}", value=100 * number) for number in range(4)]
    for round_ in itertools.permutations(events, 4):
        items = ok(api.post("/events/batch", json={"items": [*round_, round_[0]]}))["items"]
        assert {item["status"] for item in items} == {200}
    report = ok(api.get(f"/campaigns/{known}/report"))
    assert sum(arm["rewards"]["n"] for arm in report["arms"]) == 4
    assert report["pending"] == 0


def test_an_id_is_of_one_event(api: httpx.Client) -> None:
    """A second purchase under the first one's id is a defect of the sender, which must learn of it."""
    order, bounced = names()
    known = campaign(api, order, bounced)
    for subject in "uv":
        select(api, known, subject=subject)
    event = own(order, "u", value=100)
    send(api, event)
    for change in ({"subject": "v"}, {"value": 101}, {"event": bounced}):
        problem(api.post("/events", json=event | change), 409, "event_id")
    assert read(api, known)["observations"] == 1


def test_bad_events_change_nothing(api: httpx.Client) -> None:
    """A reward that was read wrongly is worse than none."""
    order, bounced = names()
    known = campaign(api, order, bounced, maximum=5)
    select(api, known, subject="u")
    good = own(order, "u", value=100)
    for field, bad in (
        ("event_id", ""),
        ("event_id", 7),
        ("event", ""),
        ("subject", "x" * 257),
        ("value", "12"),
        ("value", 1e10),
        ("at", "yesterday"),
        ("extra", 1),
    ):
        problem(api.post("/events", json=good | {field: bad}), 422, field)
    for missing in ("event_id", "event", "subject"):
        problem(api.post("/events", json={k: v for k, v in good.items() if k != missing}), 422, missing)
    problem(api.post("/events", json=own(order, "u")), 422, "value")
    problem(api.post("/events", json=own(order, "u", value=501)), 422, "reward")  # above the campaign's maximum
    track = {"messageId": new_id("m"), "event": order, "userId": "u", "properties": {"revenue": "12"}}
    problem(api.post("/events", json=track), 422, "properties.revenue")
    for nobody in ({}, {"userId": "", "anonymousId": ""}):
        problem(api.post("/events", json={"messageId": "m", "event": order, "properties": {}} | nobody), 422, "userId")
    problem(api.post("/events", json=CLOUD | {"specversion": "0.3"}), 422, "specversion")
    problem(api.post("/events", json=[good]), 422)
    items = ok(api.post("/events/batch", json={"items": [good | {"value": "x"}, good]}))["items"]
    assert [item["status"] for item in items] == [422, 200]
    assert read(api, known)["observations"] == 1
    for rules in (
        {"x": {}},
        {"x": {"value": "a", "constant": 1}},
        {"x": {"value": "a..b"}},
        {"": {"constant": 1}},
        {"x": {"constant": 1e10}},
        {"x": {"constant": 2}},  # above the campaign's maximum: every such event would be refused
    ):
        reply = api.post("/campaigns", json=multi_armed(assignment=STICKY, reward={"maximum": 1, "events": rules}))
        assert problem(reply, 422)["errors"][0]["field"].startswith("reward.events")
    without = multi_armed(reward={"events": {"x": {"constant": 1}}})
    problem(api.post("/campaigns", json=without), 422, "assignment.sticky_seconds")


def test_a_campaign_that_refuses_an_event_keeps_no_other_from_it(api: httpx.Client) -> None:
    """Who is told that nothing was learned corrects the event, and what has learned it refuses the correction."""
    name = new_id("Buy")
    one = naming(api, name, {"value": "p.v"}, "u", "v")
    narrow = naming(api, name, {"value": "p.v"}, "u", "v", minimum=0, maximum=1)
    other = naming(api, name, {"value": "p.v"}, "u", "v")
    before = samples(api)
    refusal = {"campaign_id": narrow, "detail": "reward: must be at most 1, the campaign's maximum"}
    track = {"messageId": new_id("m"), "event": name, "userId": "v", "p": {"v": 5}}
    for event in (own(name, "u", value=5), track):
        for duplicate in (False, True):
            reply = ok(api.post("/events", json=event))
            found = [(row["campaign_id"], row["duplicate"]) for row in reply["rewarded"]]
            assert found == [(campaign_id, duplicate) for campaign_id in sorted((one, other))]
            assert reply["refused"] == [refusal]
        (item,) = ok(api.post("/events/batch", json={"items": [event]}))["items"]
        assert (item["status"], item["refused"]) == (200, [refusal])
    assert [read(api, campaign_id)["observations"] for campaign_id in (one, narrow, other)] == [2, 0, 2]
    refused = 'prudent_events_total{outcome="refused"}'
    assert samples(api)[refused] - before[refused] == 6
    assert model(api, narrow)["refused_rewards"] == 6  # what its alarm counts


def test_an_event_that_every_campaign_refuses_says_which_one(api: httpx.Client) -> None:
    """With many campaigns, nobody would know whose bounds or whose rule to look at."""
    name = new_id("Buy")
    narrow = naming(api, name, {"value": "p.v"}, "u", maximum=1)
    naming(api, name, {"constant": 1})  # has no decision for anybody
    event = own(name, "u", value=5)
    body = problem(api.post("/events", json=event), 422, "reward")
    assert body["detail"] == f"reward: must be at most 1, the campaign's maximum (campaign {narrow})"
    (item,) = ok(api.post("/events/batch", json={"items": [event]}))["items"]
    assert (item["status"], item["detail"]) == (422, body["detail"])
    negative = naming(api, name, {"value": "p.v"}, "u", maximum=-1)
    body = problem(api.post("/events", json=event), 422, "reward")
    assert body["detail"].endswith(f"(campaign {min(narrow, negative)}, and 1 more refused it)")
    assert [read(api, campaign_id)["observations"] for campaign_id in (narrow, negative)] == [0, 0]


def test_a_rule_that_does_not_fit_an_event_is_its_own_campaigns_matter(api: httpx.Client) -> None:
    """A later campaign, even one that is archived, would take an event away from all that have learned from it."""
    name = new_id("Signup")
    known = naming(api, name, {"constant": 2}, "u", "v")
    late = naming(api, name, {"value": "properties.amount"}, "v")
    ok(api.patch(f"/campaigns/{late}", json={"status": "archived"}))
    track = {"messageId": new_id("m"), "event": name, "userId": "u"}
    reply = ok(api.post("/events", json=track))
    assert ([row["campaign_id"] for row in reply["rewarded"]], reply["refused"]) == ([known], [])
    assert ok(api.post("/events", json=own(name, "nobody")), 202) == {"rewarded": [], "refused": []}
    reply = ok(api.post("/events", json=own(name, "v")))
    assert [row["campaign_id"] for row in reply["rewarded"]] == [known]
    detail = "value: must be a number: the campaign's reward is made of it"
    assert reply["refused"] == [{"campaign_id": late, "detail": detail}]


def test_an_id_that_one_campaign_knows_is_a_conflict_of_that_one(api: httpx.Client) -> None:
    """The correction of a refused event could not be learned, or nobody would hear who has learned the first one."""
    name = new_id("Buy")
    one = naming(api, name, {"value": "p.v"}, "u")
    narrow = naming(api, name, {"value": "p.v"}, "u", maximum=1)
    event = own(name, "u", value=5)
    send(api, event)
    reply = ok(api.post("/events", json=event | {"value": 0.5}))
    assert [(row["campaign_id"], row["reward"]) for row in reply["rewarded"]] == [(narrow, 0.5)]
    conflict = {"campaign_id": one, "detail": "event_id: this event_id was already used for another event"}
    assert reply["refused"] == [conflict]
    track = {"messageId": event["event_id"], "event": name, "userId": "u", "p": {"v": 0.7}}
    reply = ok(api.post("/events", json=track), 202)  # its sender could do nothing about a 409
    assert reply["rewarded"] == []
    assert [row["campaign_id"] for row in reply["refused"]] == sorted((one, narrow))


def test_the_time_of_an_event_says_which_window_it_belongs_to(api: httpx.Client) -> None:
    """An event that is sent late would reward what was decided since."""
    order, bounced = names()
    known = campaign(api, order, bounced)
    select(api, known, subject="u")
    assert send(api, own(order, "u", value=1, at="1999-12-31T23:59:59Z"), 202) == []
    assert len(send(api, own(order, "u", value=1, at="2099-01-01T00:00:00Z"))) == 1  # a clock that is ahead


def test_events_move_with_their_campaign(api: httpx.Client) -> None:
    """A repeated event would be learned twice after a move, or find no campaign."""
    order, bounced = names()
    known = campaign(api, order, bounced)
    for subject in "uv":
        select(api, known, subject=subject)
    event = own(order, "u", value=100)
    send(api, event)
    exported = api.get(f"/campaigns/{known}/export")
    api.delete(f"/campaigns/{known}", params={"confirm": known})
    headers = {"Content-Type": "application/x-ndjson"}
    assert api.post("/import", content=exported.content, headers=headers).status_code == 201
    assert [row["duplicate"] for row in send(api, event)] == [True]
    assert [row["reward"] for row in send(api, own(bounced, "v"))] == [-1.0]
    assert ok(api.delete(f"/campaigns/{known}/subjects/u"))["rows"] == 1
    assert send(api, event, 202) == []


def test_the_client_sends_events(api: httpx.Client) -> None:
    """What the service can do, the client can."""
    order, bounced = names()
    known = campaign(api, order, bounced)
    narrow = campaign(api, order, bounced, maximum=2)
    for subject in "uvwx":
        select(api, known, subject=subject)
    select(api, narrow, subject="x")
    with Client(str(api.base_url), deadline_seconds=60) as client:
        receipt = client.send_event(order, "u", 100, event_id=f"{known}-1")
        assert (receipt.rewarded[0].reward, receipt.rewarded[0].duplicate) == (1.0, False)
        with pytest.raises(ConflictError):
            client.send_event(order, "u", 200, event_id=f"{known}-1")
        receipt = client.send_event(order, "x", 300)
        assert [one.campaign_id for one in receipt.rewarded] == [known]
        assert [(one.campaign_id, one.detail.partition(":")[0]) for one in receipt.refused] == [(narrow, "reward")]
        sent = [Event(event=bounced, subject=name) for name in ("v", "nobody")] + [Event(event=order, subject="w")]
        answers = client.send_events(sent)
        assert [len(one.rewarded) for one in answers[:2] if isinstance(one, EventReceipt)] == [1, 0]
        assert isinstance(answers[2], InvalidRequestError)
