"""What installs the service elsewhere: systemd's unit and the Helm chart fit the program, its image and its rules."""

import json
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema_rs import Draft7Validator

from prudent.environment import PREFIX
from prudent.settings import IN_FILES, Limits, Settings
from tests.machine import missing
from tests.servers import ROOT

UNIT = (ROOT / "deploy/systemd/prudent.service").read_text(encoding="utf-8")
CHART = ROOT / "deploy/helm/prudent"
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
GIVEN = {"databaseUrl": "postgresql://prudent:secret@db/prudent", "adminKey": "k" * 32}
SETTINGS = {name.upper() for name in (*Settings.model_fields, *Limits.model_fields)}


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """systemd ignores a line that it does not understand, and says so in a log that nobody reads."""
    if shutil.which("systemd-analyze") is None:
        missing("systemd-analyze is not installed: apt install systemd")
    installed = UNIT.replace("/opt/prudent/bin/prudent", sys.executable)
    assert installed != UNIT
    path = tmp_path / "prudent.service"
    path.write_text(installed, encoding="utf-8")
    done = subprocess.run(
        ["systemd-analyze", "verify", path],  # noqa: S607
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_unit_gives_what_the_service_needs() -> None:
    """A stop that is cut short leaves commands in the queue; the folder is the only one that it may write to."""
    assert int(re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)[0]) >= 20
    assert int(re.findall(r"^LimitNOFILE=(\d+)$", UNIT, re.MULTILINE)[0]) > 2 * Limits().connections_max
    assert "StateDirectory=prudent" in UNIT
    assert "WorkingDirectory=%S/prudent" in UNIT
    assert re.search(r"^ExecStart=/opt/prudent/bin/prudent serve$", UNIT, re.MULTILINE)


def test_the_charts_values_fit_their_schema() -> None:
    """What is misspelt in a file of values is ignored in silence, unless the schema refuses it."""
    check = Draft7Validator(SCHEMA)
    check.validate(VALUES)
    check.validate(VALUES | GIVEN)
    for wrong in (
        {"replica": 3},
        {"replicas": 0},
        {"adminKey": "short"},
        {"databaseUrl": "sqlite:///prudent.db"},
        {"settings": {"ADMIN_KEY": "x"}},
        {"settings": {"log_level": "debug"}},
        {"image": {"tag": "1"}},
    ):
        assert list(check.iter_errors(VALUES | wrong)), wrong
    assert set(SCHEMA["properties"]) - {"global"} == set(VALUES)
    assert set(SCHEMA["properties"]["settings"]["propertyNames"]["not"]["enum"]) <= SETTINGS


def test_the_chart_is_of_this_version_and_has_its_rules() -> None:
    """A chart installs the image that it names."""
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert chart["version"] == chart["appVersion"] == version("prudent")
    assert (CHART / "rules.yaml").read_bytes() == (ROOT / "deploy/prometheus/rules.yaml").read_bytes()


def test_the_chart_sets_what_exists() -> None:
    """The names are written twice, and a misspelt setting keeps a worker from starting."""
    text = "".join(path.read_text(encoding="utf-8") for path in CHART.glob("templates/*"))
    named = set(re.findall(r"name: PRUDENT_([A-Z_]+)$", text, re.MULTILINE))
    assert named <= SETTINGS | {f"{name.upper()}_FILE" for name in IN_FILES}
    assert {"DATABASE_URL_FILE", "ADMIN_KEY_FILE"} <= named
    files = set(re.findall(r"value: /run/prudent/([a-z-]+)$", text, re.MULTILINE))
    assert files == set(re.findall(r"^  ([a-z-]+): \{\{ required", text, re.MULTILINE)) == {"database-url", "admin-key"}
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert f"runAsUser: {user}" in text
    (port,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    assert f"containerPort: {port}" in text
    assert PREFIX == "PRUDENT_"


@pytest.mark.skipif(shutil.which("helm") is None, reason="helm is not installed; the schema and the names are checked")
@pytest.mark.parametrize("kind", ["made", "existing"])
def test_helm_accepts_the_chart(kind: str) -> None:
    """A template that does not render is found by whoever installs it."""
    given = GIVEN if kind == "made" else {"existingSecret": "own"}
    everything = {"ingress.enabled": "true", "ingress.path": "/prudent", "monitoring.enabled": "true"} | given
    options = [f"--set={name}={value}" for name, value in everything.items()] + ["--set=settings.LOG_LEVEL=debug"]
    for command in (["helm", "lint", "--strict", CHART], ["helm", "template", "test", CHART]):
        done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    documents = [one for one in yaml.safe_load_all(done.stdout) if one]
    kinds = {one["kind"] for one in documents}
    assert kinds == {
        "Deployment",
        "Ingress",
        "Job",
        "PodDisruptionBudget",
        "PrometheusRule",
        "Service",
        "ServiceMonitor",
    } | ({"Secret"} if kind == "made" else set())
    (workers,) = (one for one in documents if one["kind"] == "Deployment")
    (container,) = workers["spec"]["template"]["spec"]["containers"]
    values = {one["name"]: one["value"] for one in container["env"]}
    assert values["PRUDENT_ROOT_PATH"] == "/prudent"
    assert values["PRUDENT_LOG_LEVEL"] == "debug"
    (rule,) = (one for one in documents if one["kind"] == "PrometheusRule")
    assert rule["spec"] == yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8"))
