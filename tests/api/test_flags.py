"""Feature flags over OFREP: what is answered, in the protocol's own form, on either database."""

import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from prudent.ledger.flags import CLIENT_SIDE_MAX
from tests.api.contract import Json, create, disjoint, multi_armed, ok, on_sqlite, problem, read, select, shared
from tests.api.keys import ADMIN_KEY, make_key
from tests.conftest import MakeServer

FLAGS = "/ofrep/v1/evaluate/flags"
STICKY = {"sticky_seconds": 366 * 86_400}
CODES = {"FLAG_NOT_FOUND": 404, "TARGETING_KEY_MISSING": 400, "INVALID_CONTEXT": 400, "PARSE_ERROR": 400}
ORIGIN = "https://shop.example"
KINDS = ("application/json", "application/json; charset=utf-8", "application/json; charset=UTF-8")
"""As Python's and JavaScript's providers say it, which the fast lane takes, and as it does not."""


def evaluate(api: httpx.Client, flag: str, subject: str | None = None, **attributes: Any) -> Json:
    """Evaluate a flag, which must succeed."""
    context = attributes if subject is None else {"targetingKey": subject} | attributes
    return ok(api.post(f"{FLAGS}/{flag}", json={"context": context}))


def evaluate_all(api: httpx.Client, subject: str) -> dict[str, Json]:
    """Evaluate all flags of web pages; by their keys."""
    return {one["key"]: one for one in ok(api.post(FLAGS, json={"context": {"targetingKey": subject}}))["flags"]}


def refused(reply: httpx.Response, code: str, status: int) -> str:
    """The details of an error, which must be one of OFREP."""
    assert (reply.status_code, reply.headers["content-type"]) == (status, "application/json"), reply.text
    body: dict[str, str] = reply.json()
    assert body.keys() - {"key"} == {"errorCode", "errorDetails"}
    assert body["errorCode"] == code, body
    assert "retry-after" not in reply.headers
    return body["errorDetails"]


def test_a_flag_is_a_decision(api: httpx.Client) -> None:
    """What was shown would not be what is learned."""
    flag = create(api, multi_armed(assignment=STICKY, arms=[{"arm_id": "a", "value": {"x": 1}}]))
    found = evaluate(api, flag, "u")
    decision = ok(api.get(f"/decisions/{found['metadata']['decisionId']}"))
    assert found == {
        "key": flag,
        "value": {"x": 1},
        "variant": "a",
        "reason": "STATIC",
        "metadata": {
            "decisionId": decision["decision_id"],
            "exploring": False,
            "observations": 0,
            "propensity": 1.0,
        },
    }
    assert evaluate(api, flag, "u") == found
    assert select(api, flag, subject="u")["decision_id"] == decision["decision_id"]


def test_a_reason_says_how_it_was_chosen(api: httpx.Client) -> None:
    """Applications log it: what is drawn is not what suits a user."""
    certain = create(api, multi_armed(algorithm={"warmup": 0, "floor": 0, "exploration": 0}))
    assert evaluate(api, certain)["reason"] == "SPLIT"  # between arms that are equal as yet
    learned = [{"arm_id": arm_id, "reward": reward} for arm_id, reward in (("a", 1), ("b", 0), ("c", 0))]
    ok(api.post(f"/campaigns/{certain}/observations", json={"items": learned}))
    assert evaluate(api, certain)["reason"] == "TARGETING_MATCH"
    drawn = create(api, multi_armed(algorithm={"warmup": 0, "floor": 0, "uniform_share": 1}))
    assert evaluate(api, drawn)["reason"] == "SPLIT"


@pytest.mark.parametrize(
    ("values", "texts"), [([1, 2.5], {"1.0", "2.5"}), ([1, 2], {"1", "2"}), ([1.0, 2], {"1.0", "2.0"})]
)
def test_numbers_are_all_of_one_kind(api: httpx.Client, values: list[float], texts: set[str]) -> None:
    """1 is no float to Python: its SDK would take the fallback for one arm of several."""
    arms = [{"arm_id": name, "value": value} for name, value in zip("ab", values, strict=True)]
    flag = create(api, multi_armed(arms=arms, algorithm={"warmup": 1, "floor": 0}))
    seen = {api.post(f"{FLAGS}/{flag}", json={}).text.partition('"value":')[2].partition(",")[0] for _ in range(2)}
    assert seen == texts


def test_features_are_named_and_other_attributes_ignored(api: httpx.Client) -> None:
    """SDKs merge an application's own attributes into every context."""

    def ignored() -> float:
        lines = api.get("/metrics").text.splitlines()
        return sum(float(line.split()[1]) for line in lines if line.startswith("prudent_ignored_attributes_total"))

    number, place = {"name": "age"}, {"name": "place", "kind": "category", "categories": ["north", "south"]}
    interactions = {"context_features": [number], "interactions": [["context.age", "arm.size"]]}
    arms = [{"arm_id": name, "features": {"size": size}} for size, name in enumerate("ab")]
    models: list[tuple[Json, set[str]]] = [
        (disjoint(model={"type": "disjoint", "features": [number, place]}), {"age", "place"}),
        (shared(model={"type": "shared", "features": [{"name": "size"}]} | interactions, arms=arms), {"age"}),
        (shared(), set()),
        (multi_armed(), set()),
    ]
    attributes = {"age": 40, "place": "north", "user agent": "x", "page": {"path": "/", "tags": ["a"]}, "none": None}
    for request, names in models:
        flag = create(api, request | {"assignment": STICKY})
        before = ignored()
        found = evaluate(api, flag, "u", **attributes)
        assert ignored() - before == len(attributes) - len(names)
        (decision,) = ok(api.get(f"/campaigns/{flag}/decisions"))["items"]
        assert decision["decision_id"] == found["metadata"]["decisionId"]
        shown = {name: value for name, value in attributes.items() if name in names}
        assert (decision["context"] or {}) == shown
        assert evaluate(api, flag, "u", place=1) == found  # the first decision stands, whatever comes later


BAD_REQUESTS: list[tuple[str, Any, str, str]] = [
    ("unknown", {}, "FLAG_NOT_FOUND", "there is no such campaign"),
    ("no%20id", {}, "FLAG_NOT_FOUND", "there is no such flag"),
    ("a/b", {}, "FLAG_NOT_FOUND", "there is no such flag"),
    ("x" * 129, {}, "FLAG_NOT_FOUND", "there is no such flag"),
    ("", {"age": 1}, "TARGETING_KEY_MISSING", "targetingKey: required"),
    ("", {"targetingKey": "", "age": 1}, "TARGETING_KEY_MISSING", "targetingKey: required"),
    ("", {"targetingKey": 7, "age": 1}, "INVALID_CONTEXT", "context.targetingKey: must be a string, not 7"),
    ("", {"targetingKey": "u" * 257, "age": 1}, "INVALID_CONTEXT", "context.targetingKey"),
    ("", {"targetingKey": "u"}, "INVALID_CONTEXT", "context.age: is required"),
    ("", {"targetingKey": "u", "age": None}, "INVALID_CONTEXT", "context.age: is required"),
    ("", {"targetingKey": "u", "age": "40"}, "INVALID_CONTEXT", "context.age: must be a number"),
    ("", {"targetingKey": "u", "age": 1e300}, "INVALID_CONTEXT", "context.age: must be from"),
    ("", {"targetingKey": "u", "age": [1]}, "INVALID_CONTEXT", "context.age: must be a number, not a list"),
    ("", b'{"context": []}', "INVALID_CONTEXT", "context"),
    ("", b'{"context": {"targetingKey": "u", "age": 1, "age": 2}}', "PARSE_ERROR", "twice"),
    ("", b"", "PARSE_ERROR", "JSON"),
    ("", b"[]", "PARSE_ERROR", "object"),
    ("", b'{"context": {', "PARSE_ERROR", "JSON"),
    ("", b'{"context": {"targetingKey": "\xff"}}', "PARSE_ERROR", "JSON"),
    ("", b"[" * 2**20 + b"x", "PARSE_ERROR", "larger"),
]
"""A flag's key, or none for one that exists; a context, or a whole body; the error, and what its details must say."""


def test_a_bad_request_has_an_error_of_ofrep(api: httpx.Client) -> None:
    """SDKs read nothing but their own errors: an application would not learn what is wrong with its context."""
    flag = create(api, disjoint(model={"type": "disjoint", "features": [{"name": "age"}]}, assignment=STICKY))
    for key, sent, code, words in BAD_REQUESTS:
        body = sent if isinstance(sent, bytes) else json.dumps({"context": sent}).encode()
        replies = [api.post(f"{FLAGS}/{key or flag}", content=body, headers={"Content-Type": kind}) for kind in KINDS]
        for reply in replies:
            assert words in refused(reply, code, CODES[code]), (key, sent)
            assert reply.content == replies[0].content
        assert replies[0].json()["key"] == (key.replace("%20", " ") or flag)
    assert ok(api.get(f"/campaigns/{flag}/decisions"))["items"] == []


def test_a_body_that_is_no_json_is_refused(api: httpx.Client) -> None:
    """A form of any web page could evaluate flags, without the browser asking whether it may."""
    flag = create(api, multi_armed())
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        assert "JSON" in refused(
            api.post(f"{FLAGS}/{flag}", content=b"{}", headers={"Content-Type": kind}), "PARSE_ERROR", 400
        )
    refused(api.get(f"{FLAGS}/{flag}"), "GENERAL", 400)


def test_features_without_names_are_no_flag(api: httpx.Client) -> None:
    """An application would send attributes for ever and never be told that there are none."""
    flag = create(api, disjoint())
    details = refused(api.post(f"{FLAGS}/{flag}", json={"context": {"age": 1}}), "INVALID_CONTEXT", 400)
    assert "no features by name" in details
    empty = create(api, shared(arms=[]))
    refused(api.post(f"{FLAGS}/{empty}", json={}), "GENERAL", 400)


def test_both_ways_have_the_same_answer(api: httpx.Client) -> None:
    """The fast lane and the application would drift apart."""
    flag = create(api, multi_armed(assignment=STICKY))
    body = json.dumps({"context": {"targetingKey": "u"}, "later": 1})
    replies = [api.post(f"{FLAGS}/{flag}", content=body, headers={"Content-Type": kind}) for kind in KINDS]
    replies.append(api.post(f"{FLAGS}/{flag}?flagConfigEtag=x", content=body, headers={"Content-Type": KINDS[0]}))
    for reply in replies:
        assert reply.content == replies[0].content
        assert [*reply.headers] == [*replies[0].headers]
    counted = 'prudent_requests_total{method="POST",route="/ofrep/v1/evaluate/flags/{key}",status="200"}'
    assert counted in api.get("/metrics").text


def test_a_flag_without_a_subject_can_be_rewarded(api: httpx.Client) -> None:
    """A campaign that decides anew for each request needs no targeting key; its decision's id is in the metadata."""
    flag = create(api, multi_armed())
    found = evaluate(api, flag)
    rewarded = ok(api.post("/reward", json={"decision_id": found["metadata"]["decisionId"], "reward": 1}))
    assert rewarded["arm_id"] == found["variant"]
    ids = {evaluate(api, flag, "u")["metadata"]["decisionId"] for _ in range(2)}
    assert len(ids) == 2


# All flags at once


def test_all_flags_are_those_of_web_pages(api: httpx.Client) -> None:
    """A page would take part in every campaign of the service, and be told the values of all."""
    own = create(api, multi_armed(assignment=STICKY, client_side=True))
    other = create(api, multi_armed(assignment=STICKY))
    try:
        found = evaluate_all(api, "u")
        assert own in found
        assert other not in found
        assert read(api, own)["client_side"] is True
        assert ok(api.get(f"/decisions/{found[own]['metadata']['decisionId']}"))["due_at"] is None
        assert found[own] == evaluate_all(api, "u")[own]
        ok(api.patch(f"/campaigns/{other}", json={"client_side": True}))
        assert other in evaluate_all(api, "u")
        ok(api.patch(f"/campaigns/{own}", json={"client_side": False}))
        assert own not in evaluate_all(api, "u")
        ok(api.patch(f"/campaigns/{other}", json={"status": "paused"}))
        assert evaluate_all(api, "u")[other]["reason"] == "DISABLED"
    finally:
        for campaign in (own, other):
            api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})


def test_one_flag_that_fails_does_not_fail_the_others(api: httpx.Client) -> None:
    """A feature that one campaign needs would switch off all flags of a page."""
    good = create(api, multi_armed(assignment=STICKY, client_side=True))
    model = {"type": "disjoint", "features": [{"name": "age"}]}
    needy = create(api, disjoint(model=model, assignment=STICKY, client_side=True))
    try:
        found = evaluate_all(api, "u")
        assert found[good]["variant"] in "abc"
        assert found[needy] == {
            "key": needy,
            "errorCode": "INVALID_CONTEXT",
            "errorDetails": 'context.age: is required: send it, or create the campaign with "missing": "center" or '
            '"indicator" for it',
        }
        (missing,) = (one for one in ok(api.post(FLAGS, json={}))["flags"] if one["key"] == good)
        assert missing["errorCode"] == "TARGETING_KEY_MISSING"
    finally:
        for campaign in (good, needy):
            api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})


def test_what_has_not_changed_is_not_sent_again(api: httpx.Client) -> None:
    """Browsers ask again at each load and whenever a page becomes visible."""
    flag = create(api, multi_armed(assignment=STICKY, client_side=True))
    try:
        body = {"context": {"targetingKey": "u"}}
        etag = api.post(FLAGS, json=body).headers["etag"]
        assert etag.startswith('"')
        again = api.post(
            FLAGS, json=body | {"context": body["context"] | {"page": "/"}}, headers={"If-None-Match": etag}
        )
        assert (again.status_code, again.headers["etag"], again.content) == (304, etag, b"")
        other = api.post(FLAGS, json={"context": {"targetingKey": "v"}}, headers={"If-None-Match": etag})
        assert other.status_code == 200
        ok(api.patch(f"/campaigns/{flag}", json={"status": "paused"}))
        assert api.post(FLAGS, json=body, headers={"If-None-Match": etag}).status_code == 200
    finally:
        api.delete(f"/campaigns/{flag}", params={"confirm": flag})


@on_sqlite
def test_there_are_at_most_a_hundred(api: httpx.Client) -> None:
    """The flag after the last that is sent would be missing from pages, and nobody told."""
    made = []
    try:
        while len(made) <= CLIENT_SIDE_MAX:
            request = multi_armed(assignment=STICKY, client_side=True)
            reply = api.post("/campaigns", json=request)
            if reply.status_code != 201:
                break
            made.append(request["campaign_id"])
        while api.post(FLAGS, json={"context": {"targetingKey": "u"}}).status_code == 500:
            pass  # a busy machine does not load a hundred campaigns in time
        assert len(evaluate_all(api, "u")) == CLIENT_SIDE_MAX
        assert problem(reply, 422)["errors"][0]["field"] == "client_side"
        late = create(api, multi_armed())
        assert (
            problem(api.patch(f"/campaigns/{late}", json={"client_side": True}), 422)["errors"][0]["field"]
            == "client_side"
        )
        ok(api.patch(f"/campaigns/{made[0]}", json={"client_side": True}))  # as it is
        ok(api.patch(f"/campaigns/{made[0]}", json={"client_side": False}))
        ok(api.patch(f"/campaigns/{late}", json={"client_side": True}))
        made.append(late)
    finally:
        for campaign in made:
            api.delete(f"/campaigns/{campaign}", params={"confirm": campaign})


def test_a_flag_of_web_pages_moves_as_one(api: httpx.Client) -> None:
    """After a move to another server, pages would get the fallback."""
    flag = create(api, multi_armed(assignment=STICKY))
    ok(api.patch(f"/campaigns/{flag}", json={"client_side": True}))
    before = evaluate_all(api, "u")[flag]
    exported = api.get(f"/campaigns/{flag}/export").content
    api.delete(f"/campaigns/{flag}", params={"confirm": flag})
    assert flag not in evaluate_all(api, "u")
    try:
        ok(api.post("/import", content=exported, headers={"Content-Type": "application/x-ndjson"}), 201)
        assert evaluate_all(api, "u")[flag] == before
    finally:
        api.delete(f"/campaigns/{flag}", params={"confirm": flag})


# Who may


def test_an_evaluator_evaluates_and_nothing_is_learned_of_it(make_server: MakeServer, sqlite_database: str) -> None:
    """Its key is in a web page: whoever reads it could have defaults learned, or find out what else there is."""
    server = make_server(
        sqlite_database, environment={"PRUDENT_ADMIN_KEY": ADMIN_KEY, "PRUDENT_KEYS_REFRESH_SECONDS": "1"}
    )
    headers = {"X-API-Key": make_key(sqlite_database, "page", "evaluator")}
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False, headers={"X-API-Key": ADMIN_KEY}) as api:
        rules = {"timeout_seconds": 3_600, "default": 0}
        flag = create(api, multi_armed(assignment=STICKY, reward=rules))
        body = {"context": {"targetingKey": "u"}}
        while (reply := api.post(f"{FLAGS}/{flag}", json=body, headers=headers)).status_code == 401:
            time.sleep(0.05)
        decision = f"/decisions/{ok(reply)['metadata']['decisionId']}"
        assert ok(api.get(decision))["due_at"] is None
        evaluate(api, flag, "u")  # by an application that shows it
        assert ok(api.get(decision))["due_at"] is not None
        unknown = api.post(f"{FLAGS}/{flag}x", json=body, headers=headers)
        assert refused(unknown, "FLAG_NOT_FOUND", 404) == "there is no such flag"
        reader = {"X-API-Key": make_key(sqlite_database, "board", "reader")}
        while (reply := api.post(FLAGS, json=body, headers=reader)).status_code == 401:
            time.sleep(0.05)
        assert "needs the role evaluator" in refused(reply, "GENERAL", 403)
        assert "not valid" in refused(api.post(FLAGS, json=body, headers={"X-API-Key": "wrong"}), "GENERAL", 401)


def test_pages_of_listed_origins_only(make_server: MakeServer, sqlite_database: str) -> None:
    """Any page on the web could use the network that a browser is in, or all of the service instead of its flags."""
    server = make_server(sqlite_database, environment={"PRUDENT_FLAG_ORIGINS": ORIGIN, "PRUDENT_ADMIN_KEY": ADMIN_KEY})
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, if-none-match, x-api-key",
    }
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as api:
        for path in (FLAGS, f"{FLAGS}/x"):
            allowed = api.options(path, headers=asked | {"Origin": ORIGIN})
            assert allowed.status_code == 200
            assert allowed.headers["access-control-allow-origin"] == ORIGIN
            other = api.options(path, headers=asked | {"Origin": f"{ORIGIN}.evil.example"})
            assert "access-control-allow-origin" not in other.headers
            reply = api.post(path, json={}, headers={"Origin": ORIGIN})
            refused(reply, "GENERAL", 401)  # no key; and the page may read that
            assert reply.headers["access-control-allow-origin"] == ORIGIN
            assert reply.headers["access-control-expose-headers"] == "ETag"
            assert "origin" in reply.headers["vary"].lower()
        for path in ("/select", "/reward", "/campaigns", "/", "/ofrep"):
            for reply in (
                api.options(path, headers=asked | {"Origin": ORIGIN}),
                api.get(path, headers={"Origin": ORIGIN}),
            ):
                assert not any(name.startswith("access-control") for name in reply.headers)


def test_without_origins_no_page_may(api: httpx.Client) -> None:
    """A service is closed to pages unless it is told of them."""
    for reply in (api.options(FLAGS, headers={"Origin": ORIGIN}), api.post(FLAGS, json={}, headers={"Origin": ORIGIN})):
        assert not any(name.startswith("access-control") for name in reply.headers)


# When the database does not answer


def test_a_database_that_is_busy_for_a_moment_is_waited_for(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path
) -> None:
    """SDKs do not try again: one moment would show every user the fallback; and that of JavaScript waits for ever."""
    server = make_server(sqlite_database)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as api:
        flag = create(api, multi_armed(assignment=STICKY, client_side=True))
        other = sqlite3.connect(tmp_path / "prudent.db", isolation_level=None, check_same_thread=False)
        other.execute("BEGIN IMMEDIATE")
        timer = threading.Timer(0.5, other.rollback)
        timer.start()
        found = evaluate(api, flag, "u")
        timer.join()
        assert found["variant"] in "abc"
        other.execute("BEGIN IMMEDIATE")
        for kind in KINDS:
            reply = api.post(
                f"{FLAGS}/{flag}", content=b'{"context":{"targetingKey":"v"}}', headers={"Content-Type": kind}
            )
            refused(reply, "GENERAL", 500)
        refused(api.post(FLAGS, json={"context": {"targetingKey": "v"}}), "GENERAL", 500)
        assert other.in_transaction  # it was not waited for until the end
        other.rollback()
        other.close()
        assert evaluate_all(api, "u")[flag] == found
