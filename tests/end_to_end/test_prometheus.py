"""Prometheus itself, on a real server: it scrapes, knows every rule, and every panel of the board has an answer.

Prometheus is not a Python package: Debian's is called prometheus, and brings promtool.
"""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.api.contract import create, multi_armed, reward, select
from tests.api.keys import ADMIN_KEY
from tests.end_to_end.test_demo import ALERTS, BOARD, SCRAPING
from tests.machine import missing
from tests.servers import HOST, ROOT, Server, free_port

FILES = ROOT / "deploy/prometheus"
WAIT_SECONDS = 120


def promtool(*arguments: str | Path, given: bytes = b"") -> str:
    """What promtool prints; fails with it if it finds a fault."""
    if shutil.which("promtool") is None:
        missing("promtool is not installed: apt install prometheus")
    done = subprocess.run(
        ["promtool", *arguments],  # noqa: S607
        input=given,
        capture_output=True,
        timeout=120,
        check=False,
    )
    said = (done.stdout + done.stderr).decode()
    assert done.returncode == 0, said
    return said


def test_the_rules_are_rules() -> None:
    """Prometheus would not start with them."""
    assert f"{len(ALERTS)} rules found" in promtool("check", "rules", FILES / "rules.yaml")


def test_the_rules_ring_when_they_should(tmp_path: Path) -> None:
    """The first failure of all made a counter that is 1 from the beginning: it has no rate, and nobody was told."""
    assert "SUCCESS" in promtool("test", "rules", FILES / "rules.test.yaml")


class Prometheus:
    """A Prometheus that scrapes one server, with the rules of ours."""

    def __init__(self, server: Server, folder: Path) -> None:
        if shutil.which("prometheus") is None:
            missing("prometheus is not installed: apt install prometheus")
        (job,) = SCRAPING["scrape_configs"]
        own = {name: value for name, value in job.items() if name != "dns_sd_configs"}
        (folder / "key").write_text(ADMIN_KEY, encoding="ascii")
        own["authorization"] = {"credentials_file": str(folder / "key")}
        own["static_configs"] = [{"targets": [f"{HOST}:{server.port}"]}]
        often = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        shutil.copy(FILES / "rules.yaml", folder)
        (folder / "prometheus.yaml").write_text(
            yaml.safe_dump({"global": often, "rule_files": SCRAPING["rule_files"], "scrape_configs": [own]}),
            encoding="utf-8",
        )
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        with (folder / "prometheus.log").open("wb") as log:
            self.process = subprocess.Popen(
                [  # noqa: S607
                    "prometheus",
                    f"--config.file={folder / 'prometheus.yaml'}",
                    f"--storage.tsdb.path={folder / 'data'}",
                    f"--web.listen-address={HOST}:{port}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API."""
        reply = httpx.get(f"{self.url}/api/v1/{path}", params=parameters, timeout=30, trust_env=False)
        assert reply.status_code == 200, reply.text
        return reply.json()["data"]

    def is_ready(self) -> bool:
        """Whether it answers questions: at first nobody listens, and then it still reads its storage."""
        try:
            return httpx.get(f"{self.url}/-/ready", timeout=30, trust_env=False).is_success
        except httpx.TransportError:
            return False

    def wait_for(self, expression: str) -> list[Any]:
        """The result of an expression, once it has one."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            found: list[Any] = self.ask("query", query=expression)["result"] if self.is_ready() else []
            if found:
                return found
            time.sleep(0.2)
        raise AssertionError(f"{expression} has no result after {WAIT_SECONDS} s")


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """Prometheus beside a server with keys, a watched campaign and some traffic."""
    folder = tmp_path_factory.mktemp("scraped")
    environment = {"PRUDENT_ADMIN_KEY": ADMIN_KEY, "PRUDENT_METRICS_CAMPAIGNS": "couriers"}
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "log", environment=environment)
    watching: Prometheus | None = None
    try:
        server.start()
        watching = Prometheus(server, folder)
        with httpx.Client(base_url=server.url, headers={"X-API-Key": ADMIN_KEY}, trust_env=False) as api:
            create(api, multi_armed(campaign_id="couriers"))
            for _ in range(5):
                reward(api, select(api, "couriers")["decision_id"], 1.0)
        watching.wait_for("prudent_rewards_total == 5")
        yield watching
    finally:
        if watching is not None:
            watching.process.kill()
            watching.process.wait()
        server.kill()


def test_prometheus_scrapes_with_the_key(scraped: Prometheus) -> None:
    """A scrape that is answered 401 looks like a worker that is down."""
    assert [one["value"][1] for one in scraped.wait_for('up{job="prudent"}')] == ["1"]
    (target,) = scraped.ask("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_every_rule_is_evaluated(scraped: Prometheus) -> None:
    """A rule that fails is told only on Prometheus's own page."""
    deadline = time.monotonic() + WAIT_SECONDS
    expected, found = {rule["alert"]: ("ok", "inactive") for rule in ALERTS}, {}
    while found != expected and time.monotonic() < deadline:  # the first evaluation may come before the first scrape
        rules = [rule for group in scraped.ask("rules")["groups"] for rule in group["rules"]]
        found = {rule["name"]: (rule["health"], rule["state"]) for rule in rules}
        time.sleep(0.2)
    assert found == expected


def test_every_panel_of_the_board_has_an_answer(scraped: Prometheus) -> None:
    """A query with a fault shows an empty panel."""
    for panel in BOARD["panels"]:
        for target in panel["targets"]:
            scraped.ask("query", query=re.sub(r"\$__\w+", "1m", target["expr"]))


def test_what_is_printed_is_as_prometheus_wants_it(tmp_path: Path, sqlite_database: str) -> None:
    """promtool knows the conventions for names and units."""
    server = Server(sqlite_database, tmp_path / "log", arguments=["--demo"])
    server.start()
    try:
        promtool("check", "metrics", given=httpx.get(f"{server.url}/metrics", trust_env=False).content)
    finally:
        server.kill()
