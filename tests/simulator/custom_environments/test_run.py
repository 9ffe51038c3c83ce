"""Environment files played through the real service, from the command line to the figure."""

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app
from prudent_simulator.client import Client
from prudent_simulator.custom_environments.environment import OwnSampler
from prudent_simulator.custom_environments.loading import load_environment, shipped_names
from prudent_simulator.custom_environments.plan import OwnPlan
from prudent_simulator.runner import RunError, play
from tests.commands import simulator

pytestmark = pytest.mark.slow

ROUNDS = int(os.environ.get("SOAK_ROUNDS", "250"))
REPLICATIONS = 3
FULL = ROUNDS >= 1_500


def plan_of(name: str, run_id: str, **changes: Any) -> OwnPlan:
    sizes = {"replications": REPLICATIONS, "rounds": 30, "seed": 2, **changes}
    return OwnPlan(environment=load_environment(name), run_id=f"test-own.{run_id}", **sizes)


@pytest.mark.parametrize("name", shipped_names())
def test_regret_is_that_of_the_chosen_arms_at_the_files_risk(server_url: str, name: str) -> None:
    """Every model is accepted and every reward learned; what LinUCB does is judged by the risk too."""
    plan = plan_of(name, f"regret.{name}", coverage=True)
    with Client(server_url) as client:
        played = play(client, plan, clock=time.perf_counter)
    drawn = OwnSampler(plan.environment, plan.seed, range(REPLICATIONS)).draw(plan.rounds)
    for label, outcome in played.outcomes.items():
        np.testing.assert_array_equal(outcome.regret, drawn.regret(outcome.arms).cumsum(axis=1))
        assert outcome.model["observations"] == plan.rounds
        assert (outcome.covered is None) == (label == "linucb")


@pytest.mark.parametrize("name", shipped_names())
def test_the_risk_aware_algorithm_does_better_than_the_mean(server_url: str, name: str) -> None:
    """The reason to ship them. At full length (SOAK_ROUNDS=1500) a third; the short run has mostly exploration."""
    plan = plan_of(name, f"better.{name}", rounds=ROUNDS, replications=20 if FULL else REPLICATIONS)
    with Client(server_url) as client:
        played = play(client, plan, clock=time.perf_counter)
    final = {label: float(np.median(outcome.regret[:, -1])) for label, outcome in played.outcomes.items()}
    assert final["linucb-cr"] < final["linucb"] * (1 / 3 if FULL else 3 / 4), final


def test_only_given_settings_are_sent(tmp_path: Path) -> None:
    """The rest are the service's defaults, which a newcomer would get; two of a kind need labels."""
    path = tmp_path / "own.yaml"
    path.write_text(
        "name: own\nrisk: {measure: expectile, level: 0.2}\nmodel: multi-armed\nalgorithms:\n"
        "  - {name: linucb-cr}\n  - {name: linucb-cr, label: wide, bonus: local, noise_scale: 2, projection: false}\n"
        "arms:\n  - {arm_id: a, reward: {law: normal, deviation: 1}}\n"
        "  - {arm_id: b, reward: {law: uniform, minimum: 0, maximum: 1}}\n"
    )
    plan = plan_of(str(path), "settings")
    assert plan.algorithms == ("linucb-cr", "wide")
    request = plan.campaign_request("wide", 0)
    assert request["algorithm"] == {"name": "linucb-cr", "bonus": "local", "noise_scale": 2.0, "projection": False}
    assert request["risk"] == {"measure": "expectile", "level": 0.2}
    assert plan.campaign_request("linucb-cr", 0)["algorithm"] == {"name": "linucb-cr"}
    assert plan.campaign_request("wide", 0)["seed"] != plan.campaign_request("wide", 1)["seed"]


def test_from_a_name_to_tables_json_and_figure(server_url: str, tmp_path: Path) -> None:
    """As a user types it."""
    options = ("--url", server_url, "--replications", "2", "--rounds", "15", "--output", str(tmp_path / "new"))
    done = simulator("run", "--environment", "dosing", *options)
    assert done.returncode == 0, done.stderr
    assert "Final regret in the risk measure" in done.stdout
    assert "100mg" in done.stdout
    content = json.loads((tmp_path / "new" / "dosing.json").read_bytes())
    assert np.shape(content["algorithms"]["linucb-cr"]["regret"]) == (2, 15)
    assert content["truth"]["misspecification"] < 1e-9
    assert content["environment"]["arms"][2]["arm_id"] == "100mg"
    assert sorted(path.suffix for path in (tmp_path / "new").iterdir()) == [".json", ".png", ".svg"]


def test_a_wrong_file_is_one_line(tmp_path: Path) -> None:
    """No traceback, and nothing is started."""
    path = tmp_path / "wrong.yaml"
    path.write_text("name: [")
    done = simulator("run", "--environment", str(path), "--url", "http://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {path}: line 1: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "either --experiment or --environment"),
        (["--experiment", "1", "--environment", "dosing"], "either --experiment or --environment"),
        (["--environment", "dosing", "--bonus", "local", "--no-projection"], "--bonus, --projection: goes with"),
    ],
)
def test_options_that_contradict_are_explained(arguments: list[str], message: str) -> None:
    """An option that was silently ignored would be believed to have worked."""
    result = CliRunner().invoke(app, ["run", *arguments, "--url", "http://127.0.0.1:9"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert message in result.output


def test_help_lists_the_shipped_environments() -> None:
    """Nobody finds a name that is not shown."""
    result = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"})
    plain = re.sub(r"\x1b\[[0-9;]*m|[│\s]+", " ", result.output)
    assert "ad-revenue, couriers, crop-advice, dosing, worst-tenth" in plain


def test_plans_that_make_no_sense_are_refused() -> None:
    """As for the paper's experiments."""
    with pytest.raises(RunError, match="rounds"):
        plan_of("dosing", "nothing", rounds=0)
