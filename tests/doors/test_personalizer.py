"""The retired Personalizer's own clients, unmodified, against a service whose address alone is new to them."""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from prudent.__main__ import app
from prudent.api.doors.rank_requests import as_id, event_id_of
from tests import node
from tests.api.contract import Json, new_id, ok
from tests.machine import missing
from tests.servers import Server, clean_environment

HERE = Path(__file__).resolve().parent / "personalizer"
RUN_SECONDS_MAX = 300
VISITS = [("morning", 1), ("evening", 3), ("night", 2)]
LOG = [
    {
        "contextFeatures": [{"timeOfDay": time}, {"user": {"profile": {"tastes": "sweet"}, "visits": visits}}],
        "actions": [
            {"id": "pasta", "features": [{"taste": "salty", "spiceLevel": "medium", "nutritionLevel": 5}]},
            {"id": "ice cream", "features": [{"taste": "sweet", "spiceLevel": "none"}]},
            {
                "id": "juice",
                "features": [{"taste": "sweet", "spiceLevel": "none"}, {"nutritionLevel": 5, "drink": True}],
            },
            {"id": "salad", "features": [{"taste": "salty", "spiceLevel": "low", "nutritionLevel": 8}]},
        ],
    }
    for time, visits in VISITS
]
"""What an application has sent so far."""


def prudent(*arguments: str | Path) -> Result:
    """Run a command in this process, where it takes no second to start."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program as its users do."""
    return subprocess.run(
        command,
        cwd=folder,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )


def prepare_python(_folder: Path) -> list[str | Path]:
    """How to run the Python client's program; without the client the test is skipped."""
    if importlib.util.find_spec("msrest") is None:
        missing("azure-cognitiveservices-personalizer is not installed")
    return [sys.executable, HERE / "quickstart.py"]


def prepare_node(folder: Path) -> list[str | Path]:
    """How to run the JavaScript client's program; without Node or a registry the test is skipped."""
    for path in HERE.glob("*.js*"):
        shutil.copy(path, folder)
    node.install(folder)
    return ["node", "quickstart.js"]


def create_from_log(url: str, folder: Path) -> str:
    """A campaign made of a log of rank requests, as docs/personalizer.md says; its id."""
    log = folder / f"{new_id('meals')}.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in LOG), encoding="utf-8")
    inferred = prudent("features", "infer", log)
    assert inferred.exit_code == 0, inferred.stderr
    campaign = json.loads(inferred.stdout)
    ok(httpx.post(f"{url}/campaigns", json=campaign, trust_env=False), 201)
    assert campaign["campaign_id"] == log.stem
    return log.stem


@pytest.mark.parametrize("prepare", [prepare_python, prepare_node], ids=["python", "javascript"])
def test_the_quickstart_runs_unmodified(server: Server, tmp_path: Path, prepare: object) -> None:
    """Whoever moves would have to touch every application, not only its settings."""
    assert callable(prepare)
    command = prepare(tmp_path)
    campaign = create_from_log(server.url, tmp_path)
    done = run([*command, server.url, campaign, "any-key"], tmp_path)
    assert done.returncode == 0, done.stderr
    told: Json = json.loads(done.stdout)
    with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
        check_loop(http, campaign, told["loop"])
        check_later(http, campaign, told["later"])
        check_slots(http, campaign, told["slots"])
        report = ok(http.get(f"/campaigns/{campaign}/report"))
    assert told["refused"]["status"] == 400
    assert told["refused"]["code"] == "BadRequest"
    assert told["refused"]["message"].startswith("actions.0.features.taste: must be a text")
    assert sum(arm["plays"] for arm in report["arms"]) == 4
    assert sum(arm["rewards"]["n"] for arm in report["arms"]) == 3


def check_loop(http: httpx.Client, campaign: str, told: Json) -> None:
    """A rank with an id of any text, its reward, a second reward, and the same rank again."""
    ranked = told["ranked"]
    assert told["again"] == ranked
    assert ranked["eventId"] == "a visit, 1/2"
    assert ranked["ranking"][2] == {"id": "juice", "probability": 0}  # excluded, in its place
    assert ranked["rewardActionId"] == ranked["ranking"][0]["id"]
    assert {one["id"] for one in ranked["ranking"]} == {"pasta", "ice cream", "juice", "salad"}
    decision = ok(http.get(f"/decisions/{event_id_of(campaign, 'a visit, 1/2')}"))
    true = {arm["arm_id"]: arm["propensity"] for arm in decision["arms"]}
    assert {as_id(one["id"]): one["probability"] for one in ranked["ranking"]} == true | {"juice": 0}
    assert sum(true.values()) == pytest.approx(1, abs=1e-12)
    assert decision["rewarded"]
    (logged,) = (
        one
        for one in ok(http.get(f"/campaigns/{campaign}/decisions"))["items"]
        if one["decision_id"] == decision["decision_id"]
    )
    assert logged["reward"]["reward"] == 1.0


def check_later(http: httpx.Client, campaign: str, ranked: Json) -> None:
    """A rank whose id the service made, and which has been activated."""
    decision = ok(http.get(f"/decisions/{event_id_of(campaign, ranked['eventId'])}"))
    assert decision["due_at"] is not None
    assert not decision["rewarded"]


def check_slots(http: httpx.Client, campaign: str, filled: Json) -> None:
    """Two slots, each with an action of its own."""
    chosen = {slot["id"]: slot["rewardActionId"] for slot in filled["slots"]}
    assert list(chosen) == ["Big Hero", "sidebar"]
    assert chosen["Big Hero"] != "salad"
    assert len(set(chosen.values())) == 2


def test_the_campaign_that_a_log_gives(tmp_path: Path) -> None:
    """It would learn something else than the loop that it replaces."""
    log = tmp_path / "meals.jsonl"
    slots = [{"id": "hero", "features": [{"size": "large"}], "baselineAction": "pasta"}]
    rows = [*LOG, LOG[0] | {"slots": slots}]
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    campaign = json.loads(prudent("features", "infer", log).stdout)
    model = campaign["model"]
    assert [(one["name"], one["kind"]) for one in model["features"]] == [
        ("taste", "category"),
        ("spiceLevel", "category"),
        ("nutritionLevel", "number"),
        ("drink", "boolean"),
    ]
    size = ((25 + 25 + 64) / 3) ** 0.5  # numbers count in proportion: in their own size, from 0
    level = {"name": "nutritionLevel", "kind": "number", "center": 0, "scale": pytest.approx(size, rel=0.01)}
    assert model["features"][2] == level | {"missing": "center"}
    names = ["timeOfDay", "user.profile.tastes", "user.visits", "slot.size"]
    assert [one["name"] for one in model["context_features"]] == names
    assert len(model["interactions"]) == 4 * 4
    assert {"arm_id": "ice~20cream", "value": "ice cream"} in campaign["arms"]
    assert campaign["reward"] == {"minimum": -1, "maximum": 1, "timeout_seconds": 600, "default": 0}


def test_what_does_not_fit_into_a_model_is_left_out_aloud(tmp_path: Path) -> None:
    """A log with many texts would give a campaign that the service refuses, or that lacks half of them in silence."""
    log = tmp_path / "wide.jsonl"
    rows = [
        {
            "contextFeatures": [{"city": f"city-{number % 40}", "id": f"id-{number}", "mixed": [1, "a"][number % 2]}],
            "actions": [{"id": f"{n}", "features": [{"title": f"title-{n}", "price": n}]} for n in range(30)],
        }
        for number in range(120)
    ]
    log.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    inferred = prudent("features", "infer", log)
    model = json.loads(inferred.stdout)["model"]
    assert [one["name"] for one in model["context_features"]] == ["city"]
    assert model["interactions"] == [["context.city", "arm.price"]]
    for said in ("id (context): left out", "mixed (context): left out", "context.city x arm.title: left out"):
        assert said in inferred.stderr
    rows = [{"contextFeatures": [{"city": "x"}], "actions": [{"id": "a", "features": []}, {"id": "b", "features": []}]}]
    log.write_text(json.dumps(rows[0]), encoding="utf-8")
    assert json.loads(prudent("features", "infer", log).stdout)["model"]["type"] == "disjoint"
    log.write_text(json.dumps({"actions": [{"id": "a"}]}), encoding="utf-8")
    assert json.loads(prudent("features", "infer", log).stdout)["model"]["type"] == "multi-armed"
    for wrong, said in (
        ({"actions": [{"features": []}]}, "line 1: actions.0.id: "),
        ({"actions": [{"id": "a", "features": [{"x": 1}, {"x": 2}]}]}, "line 1: features: has two values"),
    ):
        log.write_text(json.dumps(wrong), encoding="utf-8")
        refused = prudent("features", "infer", log)
        assert refused.exit_code == 1
        assert said in refused.stderr
