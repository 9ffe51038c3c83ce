"""What a client reads of a campaign as a whole: report, decisions, files, data frames; and what it is created with."""

import json
import subprocess
import sys
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

import pandas as pd
import pytest
from pydantic import BaseModel

from prudent_client import (
    Client,
    InvalidRequestError,
    NewCampaign,
    NotFoundError,
    Report,
    UnreachableError,
    new_id,
)
from prudent_client.reports import DecisionPage
from tests.client.conftest import Player
from tests.scripted import Script
from tests.servers import clean_environment


@pytest.fixture(scope="module")
def campaign(server_url: str) -> str:
    """Five decisions with a context, three of them rewarded."""
    body: NewCampaign = {
        "campaign_id": new_id(),
        "risk": {"measure": "expectile", "level": 0.2},
        "model": {
            "type": "disjoint",
            "features": [{"name": "age", "scale": 10}, {"name": "mobile", "kind": "boolean"}],
        },
        "arms": [{"arm_id": "a", "value": 1}, {"arm_id": "b", "value": 2}],
        "holdout": {"share": 0.1, "arm_id": "a"},
        "algorithm": {"warmup": 1},
    }
    with Client(server_url, deadline_seconds=60) as client:
        name = client.create_campaign(body).campaign_id
        contexts = [{"age": 30 + number, "mobile": number % 2 == 0} for number in range(5)]
        selects = [{"campaign_id": name, "decision_id": f"{name}-{one['age']}", "context": one} for one in contexts]
        made = client.select_batch(selects)
        rewards = [{"decision_id": one["decision_id"], "reward": 0.5} for one in selects[:3]]
        assert [type(one).__name__ for one in [*made, *client.reward_batch(rewards)]] == ["Decision"] * 5 + [
            "Receipt"
        ] * 3
    return name


def test_a_report(server_url: str, play: Player, campaign: str) -> None:
    """Who reads a report by its fields would have to guess them."""
    report = play(server_url, lambda client: client.report(campaign))
    assert isinstance(report, Report)
    assert (report.plays, report.pending, report.risk["level"]) == (5, 2, 0.2)
    assert sum(arm.rewards.n for arm in report.arms) == 3
    assert report.holdout is not None
    assert report.policy is not None
    assert report.policy.feature_names == ("age", "mobile")
    with pytest.raises(NotFoundError):
        play(server_url, lambda client: client.report("no-such-campaign"))


def read_all(kind: str, client: Any, name: str, *arguments: Any) -> Any:
    """All that an iterator of either client gives."""
    found = getattr(client, name)(*arguments)
    if kind == "sync":
        return list(found)

    async def read() -> list[Any]:
        return [one async for one in found]

    return read()


def test_decisions_are_read_page_by_page(
    server_url: str, play: Player, campaign: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those beyond the first page would be missing."""
    monkeypatch.setattr("prudent_client.calls.PAGE_ITEMS", 2)
    found = play(server_url, lambda client: read_all(play.kind, client, "decisions", campaign))
    assert [one.decision_id for one in found] == [f"{campaign}-{age}" for age in (34, 33, 32, 31, 30)]
    assert [one.state for one in found] == ["pending"] * 2 + ["rewarded"] * 3
    assert found[2].reward.reward == 0.5
    assert found[2].context == {"age": 32, "mobile": True}


def test_an_export_is_a_file(server_url: str, play: Player, campaign: str) -> None:
    """A campaign of gigabytes must not have to be in memory."""
    content = b"".join(play(server_url, lambda client: read_all(play.kind, client, "export", campaign)))
    first, *_, last = map(json.loads, content.splitlines())
    assert (first["campaign_id"], last["kind"]) == (campaign, "trailer")
    table = b"".join(play(server_url, lambda client: read_all(play.kind, client, "export", campaign, "csv")))
    assert table.startswith(b"decision_id,decided_at,arm")
    with pytest.raises(InvalidRequestError, match="format"):
        play(server_url, lambda client: read_all(play.kind, client, "export", campaign, "xlsx"))


def test_an_export_that_breaks_off_is_an_error(scripted: Script, play: Player) -> None:
    """Half a file would be taken for all of it."""
    scripted.answers = [(200, {"content-length": "1000"}, b"half")]
    with pytest.raises(UnreachableError):
        play(scripted.url, lambda client: read_all(play.kind, client, "export", "c"))


def test_a_data_frame(server_url: str, play: Player, campaign: str) -> None:
    """What every analysis begins with."""
    frame = play(server_url, lambda client: client.frame(campaign))
    assert len(frame) == 5
    assert frame["context.age"].tolist() == [30, 31, 32, 33, 34]
    assert frame["context.mobile"].tolist() == [True, False, True, False, True]
    assert frame["reward"].isna().tolist() == [False] * 3 + [True] * 2
    assert str(frame["decided_at"].dt.tz) == str(frame["rewarded_at"].dt.tz) == "UTC"
    assert frame["rewarded_at"].isna().tolist() == [False] * 3 + [True] * 2


def test_a_data_frame_of_nothing(server_url: str, play: Player) -> None:
    """A notebook for a new campaign would fail on its first line."""
    name = new_id()
    with Client(server_url, deadline_seconds=60) as client:
        client.create_campaign({"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}})
    frame = play(server_url, lambda client: client.frame(name))
    assert isinstance(frame, pd.DataFrame)
    assert frame.empty
    assert {"decision_id", "arm", "reward"} <= set(frame.columns)
    assert str(frame["decided_at"].dt.tz) == "UTC"


def test_without_pandas_it_says_what_to_install() -> None:
    """A missing extra must not look like a broken client."""
    program = """
import sys
sys.modules["pandas"] = None
from prudent_client import Client
try:
    Client("http://127.0.0.1:1").frame("c")
except ImportError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=clean_environment(), capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "a data frame needs pandas: pip install 'prudent-client[pandas]'\n"


@pytest.fixture(scope="module")
def schemas(server_url: str) -> dict[str, Any]:
    """Of /openapi.json."""
    with Client(server_url, deadline_seconds=60) as client:
        found: dict[str, Any] = client.request("GET", "/openapi.json")["components"]["schemas"]
    return found


def resolved(schema: Any, schemas: dict[str, Any]) -> list[dict[str, Any]]:
    """The objects that a schema allows, through its references, unions and lists."""
    if "$ref" in schema:
        return resolved(schemas[schema["$ref"].rpartition("/")[2]], schemas)
    parts = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    parts += [schema[name] for name in ("items", "additionalProperties") if isinstance(schema.get(name), dict)]
    parts += schema.get("patternProperties", {}).values()
    own = [schema] if "properties" in schema else []
    return own + [found for part in parts for found in resolved(part, schemas)]


def own_types(hint: Any) -> list[Any]:
    """The models and typed dictionaries in a hint."""
    if is_typeddict(hint) or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return [hint]
    return [found for part in get_args(hint) for found in own_types(part)]


def literals(hint: Any) -> set[Any]:
    """The values that a hint lists."""
    if get_origin(hint) is Literal:
        return set(get_args(hint))
    is_union = get_origin(hint) in {Union, UnionType}
    return {found for part in get_args(hint) for found in literals(part)} if is_union else set()


def listed(schema: dict[str, Any]) -> set[Any]:
    """The values that a schema lists."""
    parts = [*schema.get("anyOf", []), *schema.get("oneOf", [])]
    own = {schema["const"]} if "const" in schema else set(schema.get("enum", ()))
    return own | {found for part in parts for found in listed(part)}


def compare(kind: Any, allowed: list[dict[str, Any]], schemas: dict[str, Any], place: str) -> None:
    """That a type has the fields of these schemas together, and lists the same values, and so on within them."""
    fields: dict[str, list[dict[str, Any]]] = {}
    for schema in allowed:
        for name, field in schema["properties"].items():
            fields.setdefault(name, []).append(field)
    hints = get_type_hints(kind)
    if not is_typeddict(kind):
        hints = {name: hints[name] for name in kind.model_fields}
    assert set(hints) == set(fields), place
    for name, hint in hints.items():
        below = f"{place}.{name}"
        if literals(hint):
            assert literals(hint) == {value for field in fields[name] for value in listed(field)}, below
        for own in own_types(hint):
            compare(own, [one for field in fields[name] for one in resolved(field, schemas)], schemas, below)


def test_what_a_campaign_is_created_with_has_types(schemas: dict[str, Any]) -> None:
    """An editor would not know a field, or would offer one that the service refuses."""
    compare(NewCampaign, [schemas["CampaignConfiguration"]], schemas, "campaign")
    assert NewCampaign.__required_keys__ == {"campaign_id", "risk", "model"}


def test_reports_and_decisions_have_all_their_fields(schemas: dict[str, Any]) -> None:
    """A field that the client does not have is one that its users cannot read."""
    compare(Report, [schemas["ReportReply"]], schemas, "report")
    compare(DecisionPage, [schemas["DecisionListReply"]], schemas, "decisions")


def test_types_are_checked(tmp_path: Any) -> None:
    """A misspelt field would be found by the service, in production."""
    good = {"campaign_id": "c", "risk": {"measure": "cvar", "level": 0.1}, "model": {"type": "multi-armed"}}
    lines = [
        "from prudent_client import Client",
        "client = Client('http://127.0.0.1:1')",
        f"client.create_campaign({good!r})",
        f"client.create_campaign({json.loads(json.dumps(good).replace('level', 'levle'))!r})",
        "client.select_batch([{'campaign_id': 'c'}])",
    ]
    (tmp_path / "program.py").write_text("\n".join(lines), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "program.py"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert 'program.py:4: error: Extra key "levle"' in done.stdout, done.stdout
    assert "Found 1 error in 1 file" in done.stdout


def test_closing_an_export_early_is_no_error(server_url: str, campaign: str) -> None:
    """Who wants the first lines only would have to read them all, or leave the connection open."""
    with Client(server_url, deadline_seconds=60) as client:
        pieces = client.export(campaign)
        assert next(pieces).startswith(b"{")
        pieces.close()  # type: ignore[attr-defined]  # a generator
        assert client.health().status == "ok"


def test_dictionaries_are_as_good(server_url: str) -> None:
    """Rows of a file or a frame would each have to be made an object first."""
    with Client(server_url, deadline_seconds=60) as client:
        name = new_id()
        client.create_campaign(
            {
                "campaign_id": name,
                "risk": {"measure": "mean"},
                "model": {"type": "multi-armed"},
                "arms": [{"arm_id": "a"}],
                "assignment": {"sticky_seconds": 366 * 86_400},
                "reward": {"events": {name: {"constant": 1}}},
            }
        )
        client.select_batch([{"campaign_id": name, "subject": one} for one in "uv"])
        (receipt,) = client.reward_batch([{"campaign_id": name, "subject": "u", "reward": 2}])
        assert getattr(receipt, "reward", receipt) == 2
        (event,) = client.send_events([{"event": name, "subject": "v"}])
        assert len(getattr(event, "rewarded", ())) == 1
        assert client.observe(name, [{"arm_id": "a", "reward": 1.0}]).accepted == 1
        with pytest.raises(TypeError, match="subjekt"):
            client.select_batch([{"campaign_id": name, "subjekt": "u"}])
