"""The commands `risk` and `replay`, run as a user would run them."""

import json
import re
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app
from prudent_simulator.custom_environments.loading import EnvironmentFileError
from prudent_simulator.offline_evaluation.campaign import CampaignOptions, described_features
from tests.commands import simulator

WORTH = {"a": 0.2, "b": 1.0}


def answer(*arguments: str | Path) -> dict[str, Any]:
    done = simulator(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    content = json.loads(done.stdout)
    assert isinstance(content, dict)
    return content


def table(path: Path, *, propensity: bool, tilt: float = 0.0) -> Path:
    """A log of 60 choices between two arms and a context; the tilt moves the probabilities of every other row."""
    generator = np.random.default_rng(12)
    lines = ["arm,reward,context.x" + (",propensity" if propensity else "")]
    for number in range(60):
        chance = 0.5 + (tilt if number % 2 else -tilt)
        arm = "a" if generator.random() < chance else "b"
        known = f",{chance if arm == 'a' else 1 - chance}" if propensity else ""
        lines.append(f"{arm},{WORTH[arm] + 0.01 * (number % 5)},{number % 3}{known}")
    path.write_text("\n".join(lines))
    return path


@pytest.mark.parametrize(
    ("propensity", "tilt", "judged", "words"),
    [
        (True, 0.0, "uniform", "over its first"),
        (True, 0.2, "weighted", "effective sample size"),
        (False, 0.0, "shadow", "This is not a value estimate"),
    ],
)
def test_what_is_known_of_the_choices_decides_how_they_are_judged(
    server_url: str, tmp_path: Path, propensity: bool, tilt: float, judged: str, words: str
) -> None:
    """Each way, as a table and as JSON, repeated to the last digit; nothing is left on the service."""
    log = table(tmp_path / "log.csv", propensity=propensity, tilt=tilt)
    options = ("--url", server_url, "--downside-weight", "9", "--resamples", "50")
    run_id = f"test-commands.{judged}"
    shown = simulator("replay", log, *options)
    assert shown.returncode == 0, shown.stderr
    assert words in shown.stdout
    assert "60/60" in shown.stderr or "110/110" in shown.stderr or "160/160" in shown.stderr
    first, second = (answer("replay", log, *options, "--run-id", run_id) for _ in range(2))
    assert first == second
    assert first["judged"] == judged
    assert first["campaign"]["risk"] == {"measure": "expectile", "level": 0.1, "downside_weight": 9.0}
    assert first["campaign"]["model"]["dimension"] == 1
    assert httpx.get(f"{server_url}/campaigns/{run_id}", trust_env=False).status_code == 404


def test_a_campaign_file_rules_and_its_deadlines_do_not(server_url: str, tmp_path: Path) -> None:
    """A default reward learned for a choice that the log did not follow would bend the campaign."""
    campaign = tmp_path / "campaign.json"
    content = {
        "campaign_id": "live-one",
        "risk": {"measure": "entropic", "gamma": -1},
        "model": {"type": "disjoint", "dimension": 1, "features": [{"name": "x", "center": 1}]},
        "arms": [{"arm_id": "a"}, {"arm_id": "b"}, {"arm_id": "new"}],
        "algorithm": {"name": "linucb-onepass-cr", "warmup": 3},
        "reward": {"minimum": 0, "maximum": 2, "timeout_seconds": 0.001, "default": 0},
    }
    campaign.write_text(json.dumps(content))
    log = table(tmp_path / "log.csv", propensity=True, tilt=0.2)
    options = ("--url", server_url, "--campaign", campaign, "--run-id", "test-commands.kept", "--keep")
    found = answer("replay", log, *options, "--resamples", "20", "--fit", "0.5")
    assert (found["fitted"], found["held_out"]) == (30, 30)
    kept = httpx.get(f"{server_url}/campaigns/test-commands.kept", trust_env=False).json()
    assert kept["reward"]["timeout_seconds"] is None
    assert kept["observations"] == 30
    assert (kept["algorithm"]["name"], kept["algorithm"]["warmup"]) == ("linucb-onepass-cr", 3)
    assert [arm["arm_id"] for arm in kept["arms"]] == ["a", "b", "new"]


def test_certain_choices_are_no_propensities(server_url: str, tmp_path: Path) -> None:
    """An incumbent that always knew what it wanted cannot be weighed."""
    path = tmp_path / "log.csv"
    path.write_text("arm,reward,propensity\n" + "a,1,1\n" * 20)
    shown = simulator("replay", path, "--url", server_url, "--mean")
    assert shown.returncode == 0, shown.stderr
    assert "All propensities are 1" in shown.stdout
    assert "not a value estimate" in shown.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "say which risk counts"),
        (["--downside-weight", "9", "--mean"], "give one of --downside-weight, --level, --gamma and --mean"),
        (["--gamma", "-1"], "422: .*reward.minimum"),
        (["--campaign", "OTHER"], "line 3: arm: b is unknown; the campaign has a, c"),
        (["--campaign", "SHARED"], "the campaign's model is shared, and the log has a context"),
        (["--campaign", "NAMES"], "the context is x, and the campaign's features are y"),
        (["--campaign", "BROKEN"], "BROKEN: line 1: "),
        (["--mean", "--context-column", "rain"], "line 1: there is no column rain"),
        (["--mean", "--run-id", "no id"], "422"),
    ],
)
def test_mistakes_are_one_line(server_url: str, tmp_path: Path, options: list[str], message: str) -> None:
    """Whatever is wrong, no traceback, and no campaign is left behind."""
    mean: dict[str, Any] = {"risk": {"measure": "mean"}, "algorithm": {"name": "linucb"}}
    named = {"type": "disjoint", "dimension": 1, "features": [{"name": "y"}]}
    contents = {
        "OTHER": {**mean, "arms": [{"arm_id": "a"}, {"arm_id": "c"}]},
        "SHARED": {**mean, "model": {"type": "shared", "dimension": 1}},
        "NAMES": {**mean, "model": named},
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "BROKEN").write_text("risk: [")
    log = table(tmp_path / "log.csv", propensity=True)
    given = [str(tmp_path / option) if option.isupper() else option for option in options]
    done = simulator("replay", log, "--url", server_url, "--run-id", "test-commands.mistake", *given)
    assert (done.returncode, done.stdout) == (1, "")
    *_, line = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert re.search(message, line), line
    assert httpx.get(f"{server_url}/campaigns/test-commands.mistake", trust_env=False).status_code == 404


def test_what_is_said_of_the_propensities_is_true(server_url: str, tmp_path: Path) -> None:
    """Equal ones do not differ; rounded ones are uniform; and arms that the log lacks are counted."""
    path = tmp_path / "log.csv"
    options = ("--url", server_url, "--mean", "--resamples", "10")
    path.write_text("arm,reward,propensity\n" + "a,1,0.333\nb,2,0.333\nc,3,0.333\n" * 40)
    assert "choices were uniformly random" in simulator("replay", path, *options).stdout
    path.write_text("arm,reward,propensity\n" + "a,1,0.0294\nb,2,0.0294\nc,3,0.0294\n" * 40)
    shown = simulator("replay", path, *options).stdout
    assert "choices were uniformly random" in shown
    assert "By their propensity there were 31 more arms, which the log lacks" in shown
    path.write_text("arm,reward,propensity\n" + "a,1,0.9\nb,2,0.9\n" * 40)
    shown = simulator("replay", path, *options).stdout
    assert "Every propensity is 0.9, which is not 1 / (number of arms), so the campaign was fitted" in shown
    assert "differ" not in shown


@pytest.mark.parametrize("option", ["--downside-weight", "--level", "--gamma", "--minimum", "--maximum", "--fit"])
@pytest.mark.parametrize("value", ["nan", "inf"])
def test_a_number_that_is_none_is_refused(option: str, value: str, tmp_path: Path) -> None:
    """It went out as null, so that a log was judged without the bounds that were asked for."""
    log = table(tmp_path / "log.csv", propensity=False)
    done = CliRunner().invoke(app, ["replay", str(log), "--url", "http://127.0.0.1:9", "--mean", option, value])
    assert (done.exit_code, "Invalid value" in done.stderr) == (2, True), done.output


@pytest.mark.parametrize(
    "written", ["reward: {minimum: .nan}", "arms: &a [*a]", "description: 2020-01-01", 'description: "\\uD800"']
)
def test_a_campaign_that_json_cannot_say_is_refused(written: str, tmp_path: Path) -> None:
    """What is not a number went out as null, a date as a text, and half of a character ended in a traceback."""
    file = tmp_path / "campaign.yaml"
    file.write_text(written)
    with pytest.raises(EnvironmentFileError, match="cannot be sent as JSON"):
        described_features(CampaignOptions(file))


def test_where_to_play_must_be_said(tmp_path: Path) -> None:
    """Neither a service nor a wish to start one."""
    done = simulator("replay", table(tmp_path / "log.csv", propensity=False), "--mean")
    assert done.returncode == 2
    assert "either --url or --server" in done.stderr


def test_the_risk_command_in_words_and_as_json(tmp_path: Path) -> None:
    """No service is needed to look at a log."""
    path = tmp_path / "couriers.csv"
    path.write_text("courier,worth\n" + "steady,0.6\n" * 200 + "bold,0.9\n" * 180 + "bold,-1\n" * 20)
    options = ("--arm-column", "courier", "--reward-column", "worth", "--resamples", "50")
    shown = simulator("risk", path, *options)
    assert shown.returncode == 0, shown.stderr
    (row,) = [line for line in shown.stdout.splitlines() if "bold" in line and "0.71" in line]
    assert "*0.71" in row
    assert "-0.05" in row
    assert "From a downside weight of 1.69 on, steady is better than bold." in shown.stdout
    found = answer("risk", path, *options)
    assert found["risks"][1][3] == pytest.approx(-0.05)
    assert found["changes"][0]["downside_weight"] == pytest.approx(1.6875)
    missing = simulator("risk", path)
    assert missing.returncode == 1
    assert missing.stderr == f"Error: {path}: line 1: there is no column arm; found: courier, worth\n"
