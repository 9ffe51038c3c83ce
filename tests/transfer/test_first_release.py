"""Exports that the first release wrote, in format version 1, are read by this one."""

from pathlib import Path

import httpx
import orjson
import pytest

from prudent.ledger.verification import verify
from prudent.store.engines import create_read_engine, parse_database_url
from tests.api.contract import Json, ok
from tests.conftest import MakeServer
from tests.fixtures.make_exports import CAMPAIGNS, continuation, send
from tests.transfer.campaigns import bring

EXPORTS = Path(__file__).parent.parent / "fixtures" / "exports-1"
PARTS = ("arm_id", "reason", "greedy_arm_id", "propensity", "reward", "duplicate", "learned")


def test_an_export_of_the_first_release_goes_on_here(make_server: MakeServer, database_url: str) -> None:
    """Whoever moves from the first release would lose the campaign, or get other decisions than there."""
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        for name in CAMPAIGNS:
            content = (EXPORTS / f"{name}.ndjson").read_bytes()
            header, *_, trailer = [orjson.loads(line) for line in content.splitlines()]
            assert (header["version"], "observations" in trailer) == (1, True)
            created = bring(http, content)
            learned = header["head"] if header["learn_limit"] is None else header["learn_limit"]
            assert (created["observations"], created["head"]) == (learned, header["head"])
            check_again(http, name)
            answers = [orjson.loads(line) for line in (EXPORTS / f"{name}.answers.ndjson").read_bytes().splitlines()]
            for call, answer in zip(continuation(name), answers, strict=True):
                reply = send(http, call)
                assert reply.status_code == answer["status"], (call, reply.text)
                compare(call[1], reply.json(), answer["body"])
    engine = create_read_engine(parse_database_url(database_url))
    assert {(one.campaign_id, tuple(one.faults)) for one in verify(engine, deep=True)} == {
        (name, ()) for name in CAMPAIGNS
    }
    engine.dispose()


def check_again(http: httpx.Client, name: str) -> None:
    """What is exported here is of version 7, every row with a digest, and can be imported again."""
    exported = http.get(f"/campaigns/{name}/export").content
    header, *rows, trailer = [orjson.loads(line) for line in exported.splitlines()]
    assert (header["version"], trailer["head"]) == (7, header["head"])
    assert all(row["digest"] for row in rows if row["kind"] == "observation")
    assert http.delete(f"/campaigns/{name}", params={"confirm": name}).status_code == 204
    bring(http, exported)
    assert ok(http.get(f"/campaigns/{name}"))["head"] == header["head"]


def compare(path: str, here: Json, there: Json) -> None:
    """The same decision or receipt, in the words of this release; the same estimates up to rounding."""
    for part in PARTS:
        mine, theirs = here.get(part), there.get(part)
        if isinstance(mine, dict):  # the rules of a campaign's rewards, to which later releases have added
            mine = {name: mine[name] for name in theirs}
        assert mine == theirs, part
    for number in ("estimate", "bonus", "index"):
        if number in there:
            assert here[number] == pytest.approx(there[number], rel=1e-7, abs=1e-9)
    if path == "/select" and "arm_id" in there:
        assert here["seen"] == here["observations"] == there["observations"]
    elif path == "/reward":
        assert here["sequence"] == there["observations"]
    elif path.endswith("/model"):
        assert (here["observations"], here["head"]) == (there["observations"], there["head"])
        for mine, theirs in ((here, there), *zip(here["arms"], there["arms"], strict=True)):
            assert (mine["theta"] is None) == (theirs["theta"] is None)
            assert (mine["theta"] or []) == pytest.approx(theirs["theta"] or [], rel=1e-7, abs=1e-9)
