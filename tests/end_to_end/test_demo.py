"""The demo with Prometheus and Grafana: its files fit each other, and the names that the service prints."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
import yaml

from prudent_simulator.__main__ import app as simulator
from tests.servers import ROOT, Server

COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
DEMO: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.demo.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = DEMO["services"]
SCRAPING: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yaml").read_text(encoding="utf-8"))
RULES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text(encoding="utf-8"))
BOARD: dict[str, Any] = json.loads((ROOT / "deploy/grafana/prudent.json").read_text(encoding="utf-8"))
SOURCES: dict[str, Any] = yaml.safe_load((ROOT / "deploy/grafana/datasource.yaml").read_text(encoding="utf-8"))
PROVIDERS: dict[str, Any] = yaml.safe_load((ROOT / "deploy/grafana/boards.yaml").read_text(encoding="utf-8"))

ALERTS = [rule for group in RULES["groups"] for rule in group["rules"]]
EXPRESSIONS = [rule["expr"] for rule in ALERTS]
EXPRESSIONS += [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]
OF_PROMETHEUS = {"up", "instance", "job"}
_SELECTOR = re.compile(r"\{([^}]*)\}")


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """What a real server prints, after a request, of a campaign that is watched."""
    folder = tmp_path_factory.mktemp("exposed")
    watched = {"PRUDENT_METRICS_CAMPAIGNS": "demo"}
    server = Server(f"sqlite:///{folder}/p.db", folder / "log", environment=watched, arguments=["--demo"])
    server.start()
    try:
        text = ""
        for _ in range(2):  # the second time with the first one counted
            text = httpx.get(f"{server.url}/metrics", trust_env=False).text
        yield text
    finally:
        server.kill()


def test_every_metric_of_board_and_rules_is_printed(exposed: str) -> None:
    """A panel that stays empty, or an alarm that never rings, looks like a healthy service."""
    printed = set(re.findall(r"^(prudent_[a-z_]+)", exposed, re.MULTILINE))
    used = {name for one in EXPRESSIONS for name in re.findall(r"\bprudent_[a-z_]+", one)}
    assert used <= printed | {"prudent_replica_lag_seconds"}  # with a standby: tests/trust/test_replica.py
    assert len(used) > 15


def test_every_label_of_board_and_rules_is_printed(exposed: str) -> None:
    """A misspelt label adds up everything, or selects nothing."""
    printed = set(re.findall(r'[{,]([a-z_]+)="', exposed)) | OF_PROMETHEUS
    used: set[str] = set()
    for one in EXPRESSIONS:
        used |= {name for text in _SELECTOR.findall(one) for name in re.findall(r"([a-z_]+)(?:=|!)", text)}
        used |= {name.strip() for text in re.findall(r"by \(([^)]*)\)", one) for name in text.split(",")}
    legends = [target.get("legendFormat", "") for panel in BOARD["panels"] for target in panel["targets"]]
    used |= {name for one in legends for name in re.findall(r"\{\{(\w+)\}\}", one)}
    assert used <= printed
    assert {"route", "status", "le"} <= used


def test_every_metric_is_on_the_board(exposed: str) -> None:
    """What is counted and shown nowhere is forgotten."""
    families = set(re.findall(r"^# TYPE (prudent_\w+?)(?<!_created) ", exposed, re.MULTILINE))
    shown = " ".join(target["expr"] for panel in BOARD["panels"] for target in panel["targets"])
    assert {name for name in families if name not in shown} == set()


def test_the_rules_say_what_to_do() -> None:
    """Somebody is woken by them."""
    assert len({rule["alert"] for rule in ALERTS}) == len(ALERTS) >= 6
    for rule in ALERTS:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert len(rule["annotations"]["summary"]) > 15


def test_the_board_is_whole() -> None:
    """Grafana shows a board with a broken panel, and says nothing."""
    (source,) = SOURCES["datasources"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(set(ids)) == len(ids)
    places: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        assert panel["datasource"]["uid"] == source["uid"]
        place = panel["gridPos"]
        covered = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not covered & places, panel["title"]
        assert place["x"] + place["w"] <= 24
        places |= covered


def test_files_are_mounted_where_they_are_looked_for() -> None:
    """A container starts with an empty folder in the place of a file that is not there."""
    for name, one in SERVICES.items():
        for volume in one.get("volumes", []):
            source, target, *_ = volume.split(":")
            if source.startswith("./"):
                assert (ROOT / source).exists(), f"{name}: {volume}"
            else:
                assert source in {**DEMO["volumes"], **COMPOSE["volumes"]}, f"{name}: {volume}"
            assert target.startswith("/")
    (provider,) = PROVIDERS["providers"]
    boards = [volume.split(":")[1] for volume in SERVICES["grafana"]["volumes"] if "prudent.json" in volume]
    assert [str(Path(board).parent) for board in boards] == [provider["options"]["path"]]
    assert SERVICES["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == boards[0]
    assert "--config.file=/etc/prometheus/prometheus.yaml" in SERVICES["prometheus"]["command"]
    assert SCRAPING["rule_files"] == ["rules.yaml"]


def test_prometheus_finds_the_workers_and_grafana_finds_prometheus() -> None:
    """Three files name the same services and ports; /metrics needs a key."""
    (job,) = SCRAPING["scrape_configs"]
    (found,) = job["dns_sd_configs"]
    assert found["names"] == ["worker"]
    assert "worker" in COMPOSE["services"]
    (exposed_port,) = re.findall(r"^EXPOSE (\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    assert found["port"] == int(exposed_port)
    assert job["job_name"] == "prudent"
    assert 'up{job="prudent"}' in " ".join(EXPRESSIONS)
    key = job["authorization"]["credentials_file"]
    assert COMPOSE["services"]["worker"]["environment"]["PRUDENT_ADMIN_KEY_FILE"] == key
    assert "secrets:/run/prudent:ro" in SERVICES["prometheus"]["volumes"]
    (source,) = SOURCES["datasources"]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in SERVICES


def test_the_images_of_the_demo_are_named_with_their_versions() -> None:
    """Another Grafana may read a board in another way. (Ports and passwords: test_compose.py.)"""
    for name, one in SERVICES.items():
        _, _, tag = one["image"].partition(":")
        assert re.fullmatch(r"v?\d+\.\d+\.\d+(@sha256:[0-9a-f]{64})?", tag), name
    assert not COMPOSE["services"].keys() & SERVICES.keys()


def test_the_traffic_is_a_call_that_the_simulator_takes() -> None:
    """It would fail, and be started again, for ever."""
    service = SERVICES["traffic"]
    assert service["image"] == COMPOSE["services"]["simulator"]["image"]
    assert service["build"] == COMPOSE["services"]["simulator"]["build"]
    assert service["restart"] == "always"
    command = service["command"]
    known = {
        option
        for parameter in typer.main.get_command(simulator).commands[command[0]].params  # type: ignore[attr-defined]
        for option in parameter.opts
    }
    assert {argument.partition("=")[0] for argument in command[1:]} <= known
    assert COMPOSE["services"]["simulator"]["command"][1] == command[1]
