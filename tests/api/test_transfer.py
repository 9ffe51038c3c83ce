"""Export and import over HTTP: what is refused, and that it changes nothing."""

import json
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Any

import httpx
import orjson
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from prudent.transfer.lines import read_line
from prudent.transfer.reading import ImportReader
from tests.api.contract import (
    ARMS,
    Json,
    create,
    disjoint,
    multi_armed,
    new_id,
    ok,
    on_sqlite,
    problem,
    reward,
    select,
    shared,
)
from tests.conftest import MakeServer
from tests.promises import Promise, length
from tests.transfer.campaigns import assert_refused, bring, without_times

NDJSON = {"Content-Type": "application/x-ndjson"}
HEADER, ARM, LOG, DECISION = 0, 1, 3, 8
"""Lines of the exported campaign, counted from 0: two arms, five rows of the log, six decisions, the trailer."""


@pytest.fixture
def exported(api: httpx.Client) -> list[Json]:
    """The lines of a campaign that was deleted since."""
    paper = {"warmup": 0, "exploration_rule": "optimistic"}  # propensities of 1
    campaign_id = create(api, shared(reward={"minimum": -9, "maximum": 9}, algorithm=paper))
    for n in range(6):
        decision = select(api, campaign_id, decision_id=new_id("moved"), explain=n == 2)
        if n < 5:
            reward(api, decision["decision_id"], n / 7)
    content = api.get(f"/campaigns/{campaign_id}/export").content
    assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204
    return [orjson.loads(line) for line in content.splitlines()]


def file_of(lines: list[Json]) -> bytes:
    """The file of these lines, its trailer's digest put right: only what they say is wrong with it."""
    body = b"".join(orjson.dumps(line) + b"\n" for line in lines[:-1])
    digest = blake2b(body, digest_size=32).hexdigest()
    return body + orjson.dumps(lines[-1] | {"digest": digest}) + b"\n"


def test_an_export_is_a_file_that_says_what_it_is(api: httpx.Client) -> None:
    """A browser would show it instead of saving it, and a program could not tell whether it is complete."""
    campaign_id = create(api, disjoint())
    reply = api.get(f"/campaigns/{campaign_id}/export")
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert f'filename="{campaign_id}.ndjson"' in reply.headers["content-disposition"]
    header, *arms, trailer = [orjson.loads(line) for line in reply.content.splitlines()]
    assert (header["kind"], header["version"], header["campaign_id"]) == ("header", 7, campaign_id)
    assert [arm["arm_id"] for arm in arms] == ["a", "b", "c"]
    assert (trailer["kind"], trailer["head"]) == ("trailer", 0)
    problem(api.get(f"/campaigns/{new_id('none')}/export"), 404)


def test_a_deleted_campaign_can_be_brought_back(api: httpx.Client, exported: list[Json]) -> None:
    """The ids of its decisions would still be taken by rows that wait to be purged."""
    content = file_of(exported)
    created = bring(api, content)
    again = api.get(f"/campaigns/{created['campaign_id']}/export").content
    assert without_times(again) == without_times(content)
    assert created["observations"] == 5
    body = problem(api.post("/import", content=content, headers=NDJSON), 409)
    assert "already" in body["detail"]
    assert api.get(f"/campaigns/{created['campaign_id']}/export").content.count(b"\n") == len(exported)


def changed(place: int, **fields: Any) -> Callable[[list[Json]], None]:
    return lambda lines: lines[place].update(fields)


def removed(place: int) -> Callable[[list[Json]], None]:
    return lambda lines: lines.pop(place) and None


def moved(place: int, to: int) -> Callable[[list[Json]], None]:
    return lambda lines: lines.insert(to, lines.pop(place))


def twice(place: int) -> Callable[[list[Json]], None]:
    return lambda lines: lines.insert(place, lines[place])


def within(place: int, name: str, **fields: Any) -> Callable[[list[Json]], None]:
    return lambda lines: lines[place][name].update(fields)


DAMAGES: dict[str, tuple[int, Callable[[list[Json]], None]]] = {
    "other-format": (1, changed(HEADER, format="something")),
    "other-version": (1, changed(HEADER, version=8)),
    "version-of-nothing": (1, changed(HEADER, version=0)),
    "first-version-with-the-second's-trailer": (15, changed(HEADER, version=1)),
    "no-header": (1, removed(HEADER)),
    "unknown-status": (1, changed(HEADER, status="deleted")),
    "learn-limit-of-nothing": (1, changed(HEADER, learn_limit=3)),
    "learn-limit-past-the-head": (1, changed(HEADER, status="paused", learn_limit=6)),
    "two-ids": (1, changed(HEADER, campaign_id="another")),
    "impossible-configuration": (1, within(HEADER, "creation", risk={"measure": "expectile", "level": 2.0})),
    "another-configuration": (1, within(HEADER, "configuration", seed=7)),
    "unknown-field": (1, changed(HEADER, more=1)),
    "arm-missing": (2, removed(ARM)),
    "last-arm-missing": (3, removed(ARM + 1)),
    "arm-twice": (3, twice(ARM)),
    "arm-changed": (2, changed(ARM, features=[2.0, 0.0])),
    "arm-late": (3, moved(ARM + 1, LOG + 1)),
    "row-missing": (4, removed(LOG)),
    "last-row-missing": (8, removed(LOG + 4)),
    "row-twice": (5, twice(LOG)),
    "row-late": (8, moved(LOG + 4, DECISION)),
    "row-after-the-decisions": (10, lambda lines: lines.insert(DECISION + 1, lines[LOG] | {"sequence": 6})),
    "arm-after-the-log": (9, lambda lines: lines.insert(DECISION, lines[ARM])),
    "reserved-kind": (4, changed(LOG, kind="correction")),
    "reward-out-of-bounds": (4, changed(LOG, reward=9.5)),
    "reward-infinite": (4, changed(LOG, reward=1e400)),
    "reward-a-text": (4, changed(LOG, reward="1")),
    "too-few-features": (4, changed(LOG, features=[1.0])),
    "unknown-source": (4, changed(LOG, source="guess")),
    "no-decision": (4, changed(LOG, decision_id=None)),
    "bad-id": (4, changed(LOG, arm_id="a b")),
    "bad-time": (4, changed(LOG, observed_at="yesterday")),
    "created-at-the-end-of-time": (1, changed(HEADER, created_at="9999-12-31T23:59:59.999999Z")),
    "decided-at-the-end-of-time": (9, changed(DECISION, created_at="9999-12-31T23:59:59.999999Z")),
    "shown-at-the-end-of-time": (9, changed(DECISION, activation="9999-12-31T23:59:59.999999Z")),
    "decision-twice-in-the-log": (5, lambda lines: lines[LOG + 1].update(decision_id=lines[LOG]["decision_id"])),
    "decision-twice": (10, twice(DECISION)),
    "decision-of-the-future": (9, changed(DECISION, seen=6)),
    "decision-with-other-features": (9, changed(DECISION, features=[0.25, 0.5])),
    "decision-without-estimate": (9, changed(DECISION, estimate=None)),
    "bad-digest": (9, changed(DECISION, request_digest="00")),
    "bad-explanation": (11, changed(DECISION + 2, explanation=[{"arm_id": "a"}])),
    "due-without-timeout": (9, changed(DECISION, due_at="2026-01-01T00:00:00.000000Z")),
    "decision-missing": (14, removed(DECISION)),
    "miscounted": (15, changed(-1, head=4)),
    "no-trailer": (15, removed(-1)),
    "after-the-trailer": (16, lambda lines: lines.append(lines[-1])),
}


@pytest.mark.parametrize("damage", DAMAGES)
@on_sqlite
def test_a_file_that_does_not_hold_together(api: httpx.Client, exported: list[Json], damage: str) -> None:
    """An import would answer 500, or bring a campaign that cannot be folded or answers what was never decided."""
    line, apply = DAMAGES[damage]
    original = file_of(exported)
    if damage == "no-trailer":
        content = original[: original.rindex(b"\n", 0, -1) + 1]
    else:
        copy = orjson.loads(orjson.dumps(exported))
        apply(copy)
        content = file_of(copy).replace(b'"reward":null', b'"reward":1e400')
    body = assert_refused(api, content, 422, f"line {line}")
    if damage == "other-version":
        assert "received 8" in body["detail"]
    bring(api, original)


@pytest.mark.parametrize(
    ("kind", "field"), [("category", "feature"), ("category", "value"), ("correction", "detail")], ids=lambda name: name
)
def test_a_line_has_no_text_that_cannot_be_stored(kind: str, field: str) -> None:
    """An import would be an internal error on PostgreSQL, and bring what cannot be moved there on SQLite."""
    fields: dict[str, Json] = {
        "category": {"feature": "f", "position": 1, "value": "v"},
        "correction": {"sequence": 1, "decision_id": "d", "arm_id": "a", "reward": 1.0, "detail": "x", "digest": None}
        | {"observed_at": "2026-01-01T00:00:00.000000Z"},
    }
    line = {"kind": kind, **fields[kind]}
    assert read_line(orjson.dumps(line), 7)
    with pytest.raises(ValidationError, match="NUL"):
        read_line(orjson.dumps(line | {field: "a\x00b"}), 7)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.8, 0.999])
def test_a_truncated_file(api: httpx.Client, exported: list[Json], share: float) -> None:
    """The first part of a campaign would pass for all of it."""
    content = file_of(exported)
    assert_refused(api, content[: int(len(content) * share)], 422)
    bring(api, content)


def test_a_changed_byte(api: httpx.Client, exported: list[Json]) -> None:
    """A reward that was changed on the way would be learned."""
    content = file_of(exported)
    for old, new in ((b'"propensity":1.0', b'"propensity":0.5'), (b'"exploration":1.0', b'"exploration":2.0')):
        assert old in content
        assert "digest" in assert_refused(api, content.replace(old, new, 1), 422)["detail"]
    for garbage in (b"\x00", b"\xff\xfe", b"[" * 100_000, b"{}", b"null", b"\n", b'{"kind":"header"}', b"PK\x03\x04"):
        assert_refused(api, garbage, 422, "line 1")
    bring(api, content)


VALUES = [
    None,
    True,
    0,
    -1,
    1,
    7,
    2**53,
    2**70,
    -0.0,
    0.5,
    1e308,
    "",
    "a",
    "b",
    "paused",
    "x" * 200,
    "☃",
    [],
    {},
    [0.5],
    [1, 2],
]
EDITS_MAX = 3
EXAMPLES = length("EXAMPLES", 200) // 5


@st.composite
def edits(draw: st.DrawFn) -> list[tuple[int, int, int, Any]]:
    """Which line, which field, which field of that, and what to put there; numbers are taken modulo what there is."""
    number = st.integers(0, 99)
    return draw(st.lists(st.tuples(number, number, number, st.sampled_from(VALUES)), min_size=1, max_size=EDITS_MAX))


def edited(lines: list[Json], changes: list[tuple[int, int, int, Any]]) -> bytes:
    copy: list[Json] = orjson.loads(orjson.dumps(lines))
    for line, field, inner, value in changes:
        place: Any = copy[line % len(copy)]
        name = list(place)[field % len(place)]
        if isinstance(place[name], dict) and place[name]:
            place, name = place[name], list(place[name])[inner % len(place[name])]
        place[name] = value
    body = b"".join(json.dumps(line).encode() + b"\n" for line in copy[:-1])
    return body + json.dumps(copy[-1] | {"digest": blake2b(body, digest_size=32).hexdigest()}).encode()


def test_made_up_files(api: httpx.Client, exported: list[Json], promise: Promise) -> None:
    """R18. A field that nobody thought of would be a 500, at the import or when the campaign is used."""
    statuses: Counter[int] = Counter()

    @settings(max_examples=EXAMPLES, derandomize=True, database=None, phases=[Phase.generate])
    @given(changes=edits())
    def send(changes: list[tuple[int, int, int, Any]]) -> None:
        reply = api.post("/import", content=edited(exported, changes), headers=NDJSON)
        statuses[reply.status_code] += 1
        assert reply.status_code in {201, 409, 422}, f"{reply.text}: {changes}"
        if reply.status_code != 201:
            return
        campaign_id = reply.json()["campaign_id"]
        assert ok(api.get(f"/campaigns/{campaign_id}/model"))["head"] == 5
        assert api.get(f"/campaigns/{campaign_id}/export").status_code == 200
        assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204

    send()
    promise("R18", f"{sum(statuses.values())} made-up files: {dict(sorted(statuses.items()))}, 5xx 0")
    assert statuses[422]


def test_decisions_of_another_campaign_are_not_taken_over(api: httpx.Client, exported: list[Json]) -> None:
    """A reward would be learned by another campaign than the one that decided."""
    rewarded = exported[LOG]["decision_id"]
    waiting = exported[DECISION + 5]["decision_id"]
    campaign_id = create(api, multi_armed())
    for taken in (rewarded, waiting):
        select(api, campaign_id, decision_id=taken)
    moved = bring(api, file_of(exported))["campaign_id"]
    for taken in (rewarded, waiting):
        problem(api.post("/reward", json={"decision_id": taken, "reward": 0.5}), 409, "campaign_id")
        assert reward(api, taken, 0.5, campaign_id=campaign_id)["campaign_id"] == campaign_id
    assert reward(api, waiting, 0.25, campaign_id=moved)["campaign_id"] == moved
    problem(api.post("/reward", json={"decision_id": rewarded, "reward": 5, "campaign_id": moved}), 409, "reward")


def test_an_import_must_say_that_it_is_one(api: httpx.Client, exported: list[Json]) -> None:
    """A page on another site could send a file through a visitor's browser, or a form would be parsed as one."""
    content = file_of(exported)
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/json"}, {"Origin": "http://x"}):
        assert "application/x-ndjson" in problem(api.post("/import", content=content, headers=headers), 415)["detail"]
    problem(api.post("/import", content=content, headers=NDJSON | {"Content-Encoding": "gzip"}), 415)
    bring(api, content)


def test_files_have_limits(make_server: MakeServer, database_url: str) -> None:
    """A file could fill the memory by one line, or the disk, or keep a connection for good."""
    limits = {"PRUDENT_IMPORT_BODY_BYTES_MAX": "4000000", "PRUDENT_BODY_BYTES_MAX": "500000"}
    server = make_server(database_url, environment=limits)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        problem(http.post("/import", content=b"x" * 4_000_001, headers=NDJSON), 413)
        body = problem(http.post("/import", content=iter([b"x" * 2_200_000]), headers=NDJSON), 422, "line 1")
        assert "longer" in body["detail"]
        # who is still sending gets to see what is wrong, and not a closed connection
        problem(http.post("/import", content=iter([b"{}\n", *[b"x" * 100_000] * 35]), headers=NDJSON), 422, "line 1")
        ok(http.get("/campaigns"))


def test_a_file_in_pieces_of_any_size_is_the_same(exported: list[Json]) -> None:
    """What the network does to a file would decide whether it can be read."""
    content = file_of(exported)
    found = []
    for size in (1, 7, 1_000, len(content)):
        reader = ImportReader(2**20)
        steps = [step for at in range(0, len(content), size) for step in reader.feed(content[at : at + size])]
        found.append([*steps, *reader.close()])
    assert [[type(step) for step in steps] for steps in found] == [[type(step) for step in found[0]]] * len(found)
    assert all(steps[1].rows == found[0][1].rows and steps[2].rows == found[0][2].rows for steps in found)


def test_a_campaign_may_be_empty(api: httpx.Client) -> None:
    """A campaign that nobody has used yet could not be moved."""
    for arms in (ARMS, []):
        campaign_id = create(api, shared(arms=arms))
        content = api.get(f"/campaigns/{campaign_id}/export").content
        assert api.delete(f"/campaigns/{campaign_id}", params={"confirm": campaign_id}).status_code == 204
        assert len(bring(api, content.rstrip(b"\n"))["arms"]) == len(arms)
