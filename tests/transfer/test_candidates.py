"""Decisions of campaigns that log their candidates: exported, moved, verified, and judged by other policies."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from prudent.store.candidates import LoggedCandidates, pack, unpack
from tests.api.contract import Json, ok, problem
from tests.commands import prudent
from tests.conftest import MakeServer
from tests.servers import Server
from tests.transfer.campaigns import bring

ROUNDS = 80
MODELS: dict[str, Json] = {
    "offers": {
        "type": "shared",
        "features": [
            {"name": "brand", "kind": "category", "capacity": 30},
            {"name": "price", "center": 20, "scale": 10, "missing": "indicator"},
        ],
        "context_features": [{"name": "country", "kind": "category", "capacity": 3}],
        "interactions": [["context.country", "arm.brand"]],
    },
    "plain": {"type": "shared", "dimension": 2},
    "routes": {"type": "disjoint", "features": [{"name": "rain"}]},
}
REGISTERED: dict[str, list[Json]] = {
    "offers": [{"arm_id": "house", "features": {"brand": "own", "price": 12}}],
    "plain": [{"arm_id": "house", "features": [1, 0]}],
    "routes": [{"arm_id": arm} for arm in ("a", "b", "c")],
}


def request(name: str, number: int) -> Json:
    """The select of this number."""
    draw = random.Random(f"{name} {number}")  # noqa: S311  # a simulation
    body: Json = {"campaign_id": name, "decision_id": f"{name}-{number:03d}"}
    if name == "routes":
        return body | {"context": {"rain": draw.random()}} | ({"exclude": ["c"]} if number % 3 == 0 else {})
    if name == "plain":
        listed = [{"arm_id": f"x{k}", "features": [draw.random(), draw.random()]} for k in range(3)]
        return body | {"arms": [*listed, {"arm_id": "house"}]}
    brands = [draw.choice(["acme", "bolt", "cord"]) for _ in range(2)]
    listed = [{"arm_id": f"n{number}-{k}", "features": {"brand": brand}} for k, brand in enumerate(brands)]
    listed[0]["features"]["price"] = draw.choice([9, 30])
    return body | {"arms": [{"arm_id": "house"}, *listed], "context": {"country": draw.choice(["de", "fr"])}}


def make(http: httpx.Client, name: str) -> None:
    """A campaign with a past."""
    body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": MODELS[name], "arms": REGISTERED[name]}
    body |= {"log_candidates": True, "algorithm": {"uniform_share": 0.2}}
    assert ok(http.post("/campaigns", json=body), 201)["log_candidates"] is True
    draw = random.Random(name)  # noqa: S311  # a simulation
    for number in range(ROUNDS):
        made = ok(http.post("/select", json=request(name, number)))
        ok(http.post("/reward", json={"decision_id": made["decision_id"], "reward": draw.gauss(1, 0.5)}))


@pytest.fixture(scope="module")
def logged(server: Server) -> Server:
    """The shared server, with a campaign of each model."""
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        for name in MODELS:
            make(http, name)
    return server


def exported(server: Server, name: str, form: str | None = None) -> bytes:
    """The file, as a client receives it."""
    query = {} if form is None else {"format": form}
    reply = httpx.get(f"{server.url}/campaigns/{name}/export", params=query, trust_env=False)
    assert reply.status_code == httpx.codes.OK, reply.text
    return reply.content


def lines_of(content: bytes) -> list[Json]:
    return [orjson.loads(line) for line in content.splitlines()]


@pytest.mark.parametrize("name", MODELS)
def test_dsjson_has_every_candidate_and_its_probability(logged: Server, name: str) -> None:
    """No estimate of another policy is possible of a log that has only what was chosen."""
    lines = lines_of(exported(logged, name, "dsjson"))
    assert len(lines) == ROUNDS
    for number, line in enumerate(lines):
        sent = request(name, number)
        if name == "routes":
            known = {arm: {"arm": arm} for arm in ("a", "b", "c") if arm not in sent.get("exclude", ())}
        else:
            own = {"house": {"brand": "own", "price": 12} if name == "offers" else {"0": 1, "1": 0}}
            known = {
                one["arm_id"]: own[one["arm_id"]] if "features" not in one else dict(enumerate_names(one["features"]))
                for one in sent["arms"]
            }
        assert {one["_tag"]: one["arm"] for one in line["c"]["_multi"]} == known
        assert len(line["p"]) == len(known)
        assert sum(line["p"]) == pytest.approx(1)
        assert line["p"][0] == pytest.approx(line["_label_probability"])


def enumerate_names(features: Any) -> Any:
    """Names and values; what has no name has its place."""
    return features.items() if isinstance(features, dict) else ((str(n), one) for n, one in enumerate(features))


def test_tables_list_the_candidates(logged: Server) -> None:
    """A data frame could not be used to weigh another policy."""
    row = lines_of(exported(logged, "offers", "ndjson"))[5]
    assert list(row["candidates"]) == ["house", "n5-0", "n5-1"] == list(row["propensities"])
    assert row["candidates"]["house"] == {"brand": "own", "price": 12.0}
    assert row["candidates"]["n5-1"]["price"] is None
    assert lines_of(exported(logged, "routes", "ndjson"))[3]["candidates"] == {"a": {}, "b": {}}


@pytest.mark.parametrize("name", MODELS)
def test_candidates_move_with_their_campaign(
    logged: Server, make_server: MakeServer, tmp_path: Path, name: str
) -> None:
    """A campaign that was moved could no longer be judged."""
    content = exported(logged, name)
    other = make_server(f"sqlite:///{tmp_path}/other.db")
    with httpx.Client(base_url=other.url, timeout=60, trust_env=False) as http:
        bring(http, content)
    before, after = (
        [line["candidates"] for line in lines_of(one) if line["kind"] == "decision"]
        for one in (content, exported(other, name))
    )
    assert before == after
    assert None not in before
    assert exported(other, name, "dsjson") == exported(logged, name, "dsjson")


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("offers", b'"features":[null,', b'"features":[', "must be different arms"),
        ("offers", b'"arms":["house"', b'"arms":["stranger"', "an arm has no features"),
        ("offers", b'"names":["brand","price"]', b'"names":["brand"]', "must have a value for each name"),
        ("offers", b'"names":["brand","price"]', b'"names":null', "must be numbers where they have no names"),
        ("routes", b'"arms":["a","b","c"]', b'"arms":["a","b","x"]', "must be registered arms"),
        ("offers", b'"log_candidates":true', b'"log_candidates":false', "the campaign does not log them"),
    ],
)
def test_a_file_with_other_candidates_is_refused(
    logged: Server, make_server: MakeServer, tmp_path: Path, name: str, old: bytes, new: bytes, words: str
) -> None:
    """What no decision can have had would be weighed as if it had been there."""
    content = exported(logged, name)
    assert old in content
    other = make_server(f"sqlite:///{tmp_path}/other.db")
    changed = content.replace(old, new)
    headers = {"Content-Type": "application/x-ndjson"}
    reply = httpx.post(f"{other.url}/import", content=changed, headers=headers, timeout=60, trust_env=False)
    assert words in problem(reply, 422)["detail"]


@pytest.mark.parametrize("name", MODELS)
def test_every_decision_can_be_judged(logged: Server, tmp_path: Path, name: str) -> None:
    """Other risk levels of a shared campaign had no value before, as its candidates were not stored."""
    path = tmp_path / "own.ndjson"
    path.write_bytes(exported(logged, name))
    done = prudent("evaluate", path, "--downside-weight", "4", "--json")
    assert done.returncode == 0, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["judged"], found["left_out"]) == (ROUNDS, {})
    other = next(one for one in found["policies"] if one["name"] == "downside weight 4")
    assert other["mean_weight"] == pytest.approx(1, abs=0.3)


def test_registered_features_are_not_repeated() -> None:
    """A select that lists no arms would write megabytes where a campaign has a thousand arms with features."""
    arms = [f"arm-{n}" for n in range(1000)]
    packed = pack(LoggedCandidates(arms, [1e-3] * 1000, [None] * 1000))
    assert len(packed) < 10_000
    assert unpack(packed, 512) == LoggedCandidates(arms, [1e-3] * 1000, [None] * 1000)


@pytest.mark.parametrize("damage", [b"", b"x", lambda good: good[:-5], lambda _: pack(LoggedCandidates(["a"], [], []))])
def test_damaged_candidates_are_an_error(damage: bytes | Callable[[bytes], bytes]) -> None:
    """Bytes of one row would be read as features of another."""
    good = pack(LoggedCandidates(["a", "b"], [0.5, 0.5], [b"12345678", None]))
    assert unpack(good, 1).features == [b"12345678", None]
    with pytest.raises(ValueError, match="damaged"):
        unpack(damage(good) if callable(damage) else damage, 1)
    with pytest.raises(ValueError, match="damaged"):
        unpack(good, 2)
