"""A service of the simulator's own: it comes up, it works, and nothing of it stays."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from prudent_client import UnreachableError
from prudent_simulator.client import Client
from prudent_simulator.environments import environment_of
from prudent_simulator.postgres import own_postgres
from prudent_simulator.processes import clean_environment, log_tail
from prudent_simulator.report import as_json
from prudent_simulator.runner import RunPlan, run
from prudent_simulator.server import Database, own_server
from prudent_simulator.settings import AlgorithmName, Layout, paper_settings


def gone(url: str) -> bool:
    with Client(url, attempts=1) as client:
        try:
            client.health()
        except UnreachableError:
            return True
    return False


def file_of_a_run(url: str) -> dict[str, Any]:
    environment = environment_of(2)
    algorithms = (AlgorithmName.LINUCB, AlgorithmName.LINUCB_CR, AlgorithmName.LINUCB_OGD_CR)
    settings = paper_settings(environment, Layout.SHARED)
    plan = RunPlan(environment, Layout.SHARED, algorithms, settings, replications=2, rounds=25, seed=0, run_id="same")
    with Client(url) as client:
        content: dict[str, Any] = json.loads(as_json(run(client, plan, clock=time.perf_counter)))
    return content


def test_the_same_seed_gives_the_same_file_on_an_own_service(server_url: str) -> None:
    """Runs on two services differ in their timings alone, to the last digit; the own one is gone afterwards."""
    with own_server(Database.SQLITE) as own:
        assert own.startswith("http://127.0.0.1:")
        first, second = file_of_a_run(own), file_of_a_run(server_url)
    assert first.pop("timings")["pairs"] == second.pop("timings")["pairs"] == 3 * 2 * 25
    assert first == second
    assert gone(own)


def test_an_own_service_has_no_settings_of_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the folder of a compose file, .env may hold the key of the service there: ours would refuse us."""
    (tmp_path / ".env").write_text(f"PRUDENT_ADMIN_KEY={'k' * 32}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRUDENT_ADMIN_KEY", "k" * 32)
    with own_server(Database.SQLITE) as own, Client(own) as client:
        assert client.create_campaign(
            {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
        )


def test_an_own_service_on_postgres_is_ready_and_gone_afterwards() -> None:
    """Database, migration and two workers come up, and end with the run."""
    with own_server(Database.POSTGRES) as own:
        assert not gone(own)
    assert gone(own)


def test_an_own_postgres_leaves_nothing() -> None:
    """Its folder, and with it its socket and data, is gone."""
    with own_postgres() as url:
        folder = Path(url.partition("host=")[2])
        assert (folder / "data" / "postmaster.pid").exists()
        process = int((folder / "data" / "postmaster.pid").read_text().splitlines()[0])
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_settings_of_another_service_do_not_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key or a database meant for the user's own service must not reach ours."""
    monkeypatch.setenv("PRUDENT_DATABASE_URL", "postgresql://production")
    monkeypatch.setenv("PGHOST", "production")
    monkeypatch.setenv("HARMLESS", "1")
    kept = clean_environment()
    assert kept["HARMLESS"] == "1"
    assert kept.keys().isdisjoint({"PRUDENT_DATABASE_URL", "PGHOST"})


def test_the_end_of_a_log_fits_one_line(tmp_path: Path) -> None:
    """Errors are one line, logs are many."""
    log = tmp_path / "log"
    assert log_tail(log) == "it wrote nothing"
    log.write_text("one\n\ntwo \nthree\nfour\n\n")
    assert log_tail(log) == "two | three | four"
