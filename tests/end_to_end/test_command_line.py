"""The command line refuses what would not be safe, in one line, and finds what is wrong in a log."""

import json
import os
import re
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from sqlalchemy import text
from typer.testing import CliRunner

from prudent.__main__ import app
from prudent.store.engines import create_write_engine, parse_database_url
from tests.commands import prudent
from tests.conftest import MakeServer, migrate_empty
from tests.scripted import Script
from tests.servers import HOST


def run(*arguments: str) -> Result:
    """Run a command in this process: where only what it prints is judged, no start of Python is needed."""
    return CliRunner().invoke(app, arguments, env={"COLUMNS": "200"})


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("mysql://x/y", "not supported"),
        ("sqlite://", "needs a file"),
        ("nonsense", "must have the form"),
        ("sqlite:////nowhere/at/all/x.db", "folder"),
        ("postgresql://nobody@127.0.0.1:1/none", "does not answer"),
    ],
)
def test_serve_refuses_a_database_that_it_cannot_use(url: str, reason: str) -> None:
    """One clear line, no traceback, exit code 1."""
    done = prudent("serve", "--port", "0", "--database-url", url)
    assert done.returncode == 1
    assert reason in done.stderr.replace("\n", " ")
    assert "Traceback" not in done.stderr


def test_serve_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    """After a banner with an address, a traceback from a library; and a database made for nothing."""
    with socket.socket() as taken:
        taken.bind((HOST, 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = prudent("serve", "--demo", "--port", port, "--database-url", f"sqlite:///{tmp_path}/none.db")
    said = " ".join(done.stderr.split())
    assert (done.returncode, done.stdout) == (1, "")
    assert f"port {port} of {HOST} is in use by another program: choose another one with --port" in said
    assert not list(tmp_path.iterdir())
    done = prudent("serve", "--host", "192.0.2.1", "--port", "0", "--database-url", f"sqlite:///{tmp_path}/none.db")
    assert (done.returncode, "cannot listen on port 0 of 192.0.2.1" in done.stderr) == (1, True)


def test_the_version_is_told() -> None:
    """What a report of a fault begins with."""
    assert run("--version").stdout == f"prudent {version('prudent')}\n"


def test_serve_refuses_an_unmigrated_postgres(postgres_database: str) -> None:
    """Each server migrating by itself would break those that run."""
    done = prudent("serve", "--port", "0", "--database-url", postgres_database)
    assert (done.returncode, "prudent migrate" in done.stderr) == (1, True)


def test_a_second_server_on_one_sqlite_file_is_refused(make_server: MakeServer, sqlite_database: str) -> None:
    """Two servers on a file would each believe to be the only writer."""
    make_server(sqlite_database)
    done = prudent("serve", "--port", "0", "--database-url", sqlite_database)
    assert (done.returncode, "another server" in done.stderr) == (1, True)


def test_a_setting_that_is_no_number_is_named() -> None:
    """A typing error in the environment must not surface later as something else."""
    done = prudent("serve", environment={"PRUDENT_QUEUE_ITEMS_MAX": "many"})
    assert done.returncode == 1
    assert "PRUDENT_QUEUE_ITEMS_MAX" in done.stderr


def test_verify_finds_a_gap_and_a_changed_reward(make_server: MakeServer, database_url: str) -> None:
    """Verification that cannot find a fault is no verification."""
    server = make_server(database_url, environment={"PRUDENT_SNAPSHOT_OBSERVATIONS": "3"})
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        body = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
        algorithm = {"name": "linucb"}
        http.post("/campaigns", json={**body, "arms": [{"arm_id": "a"}], "algorithm": algorithm}).raise_for_status()
        for number in range(5):
            http.post("/select", json={"campaign_id": "c", "decision_id": f"d{number}"}).raise_for_status()
            http.post("/reward", json={"decision_id": f"d{number}", "reward": number}).raise_for_status()
    assert server.stop() == 0
    good = run("verify", "--database-url", database_url)
    # at the third observation or, where the chores come late, after it
    found = re.search("equal at [345] ", good.stdout) is not None
    assert (good.exit_code, found) == (0, True), good.stdout + good.stderr
    engine = create_write_engine(parse_database_url(database_url))
    with engine.begin() as connection:
        connection.execute(text("UPDATE observations SET reward = 7 WHERE sequence = 2"))
    assert "differs" in run("verify", "--database-url", database_url).stdout
    with engine.begin() as connection:
        connection.execute(text("DELETE FROM observations WHERE sequence = 2"))
    bad = run("verify", "--database-url", database_url)
    assert (bad.exit_code, "has 4 rows" in bad.stdout) == (1, True)
    engine.dispose()


def test_a_row_with_half_of_a_number_is_found_and_hides_no_other_campaign(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path
) -> None:
    """The command that looks for damage ended in a traceback at it, and said nothing of the campaigns behind it."""
    server = make_server(sqlite_database)
    with httpx.Client(base_url=server.url, trust_env=False) as http:
        for name in ("bad", "good"):
            body = {"campaign_id": name, "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
            http.post("/campaigns", json={**body, "arms": [{"arm_id": "a"}]}).raise_for_status()
            http.post("/select", json={"campaign_id": name, "decision_id": name}).raise_for_status()
            http.post("/reward", json={"decision_id": name, "reward": 1}).raise_for_status()
    assert server.stop() == 0
    engine = create_write_engine(parse_database_url(sqlite_database))
    with engine.begin() as connection:
        connection.execute(text("PRAGMA ignore_check_constraints = ON"))
        connection.execute(text("UPDATE observations SET features = zeroblob(5) WHERE key = 1"))
    engine.dispose()
    found = run("verify", "--database-url", sqlite_database)
    assert (found.exit_code, re.search(r"│ good .* ok +│", found.stdout) is not None) == (1, True), found.output
    assert "row 1 of the log is damaged" in found.stdout
    to_file = ("--output", str(tmp_path / "bad.ndjson"))
    gone = run("export", "bad", "--database-url", sqlite_database, *to_file)
    assert (gone.exit_code, "is damaged: run prudent verify" in gone.stderr) == (1, True), gone.output


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["prudent verify", "prudent --version", "prudent_simulator --help"])
def test_a_full_disk_under_the_output_is_one_line(command: str, unbuffered: str, sqlite_database: str) -> None:
    """Whoever kept the output of a nightly check got a traceback of a library in place of a reason."""
    migrate_empty(sqlite_database)
    full = ("/bin/sh", "-c", f"exec {sys.executable} -m {command} > /dev/full")
    own = {"PRUDENT_DATABASE_URL": sqlite_database, "PRUDENT_ENV_FILE": "", "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(full, capture_output=True, text=True, env=os.environ | own, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(": [Errno 28] No space left on device")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


@pytest.mark.parametrize("module", ["prudent", "prudent_simulator"])
def test_no_standard_output_is_no_error(module: str) -> None:
    """A service that is started without one would end in a traceback."""
    closed = ["/bin/sh", "-c", f"exec {sys.executable} -m {module} --help >&-"]
    own = os.environ | {"PRUDENT_ENV_FILE": ""}
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, env=own, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_seen_enough_is_no_error(unbuffered: str) -> None:
    """`prudent --help | head -1` would end in words about a pipe."""
    cut = f"{sys.executable} -m prudent --help | (sleep 0.1; true)"
    own = {"PRUDENT_ENV_FILE": "", "PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(["/bin/sh", "-c", cut], capture_output=True, text=True, env=os.environ | own, check=False)
    assert done.stderr == ""


@pytest.mark.parametrize("variable", ["PRUDENT_ENV_FILE", "PRUDENT_API_KEY_FILE"])
@pytest.mark.parametrize("content", [None, b"PRUDENT_PORT=\xff"])
def test_a_file_of_settings_that_cannot_be_read_is_one_line(
    variable: str, content: bytes | None, tmp_path: Path
) -> None:
    """A mistyped name of a file was said at the end of a traceback."""
    if content is not None:
        (tmp_path / "settings").write_bytes(content)
    done = prudent("--version", environment={variable: str(tmp_path / "settings")})
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert str(tmp_path / "settings") in done.stderr


def test_verify_says_that_a_server_is_another_one(scripted: Script, sqlite_database: str, tmp_path: Path) -> None:
    """The port of another program ended in a traceback about JSON."""
    migrate_empty(sqlite_database)
    arms = [{"arm_id": "a"}]
    body = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}, "arms": arms}
    (tmp_path / "c.json").write_text(json.dumps(body), encoding="utf-8")
    created = run("campaigns", "create", str(tmp_path / "c.json"), "--database-url", sqlite_database)
    assert created.exit_code == 0, created.output
    for content in (b"<html>", b"[]", b"{}"):
        scripted.answers = [(200, {}, content)]
        done = run("verify", "--database-url", sqlite_database, "--url", scripted.url)
        assert (done.exit_code, "is not a reply of Prudent" in done.stderr) == (1, True), done.output


def test_help_explains_every_command() -> None:
    """A newcomer's first call."""
    listed = prudent("--help").stdout
    for command in ("serve", "migrate", "verify", "keys", "campaigns", "export", "import", "evaluate"):
        assert run(command, "--help").exit_code == 0
        assert command in listed
    assert os.environ.get("PRUDENT_PORT") is None
