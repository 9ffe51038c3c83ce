"""Commands work on the database that is served, say which one that is, and never create another."""

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from prudent.__main__ import app
from tests import commands
from tests.machine import listen_to_interrupts
from tests.servers import HOST, ROOT, clean_environment, free_port

SECONDS_MAX = 60
KEYS_SECONDS_MAX = 10
SELECT = {"campaign_id": "demo"}


def prudent(folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Type a command in a folder, with the settings of its .env."""
    environment = {"COLUMNS": "120", "PRUDENT_ENV_FILE": None, **variables}  # .env is the default
    return commands.prudent(*arguments, directory=folder, environment=environment)


@contextmanager
def made(folder: Path, *variables: str) -> Iterator[str]:
    """What `make run` serves, by the Makefile's own recipe, with the programs of this environment; its URL."""
    (folder / ".venv/bin").mkdir(parents=True, exist_ok=True)
    program = folder / ".venv/bin/prudent"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m prudent "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    shutil.copy(ROOT / "Makefile", folder)
    port, log = free_port(), folder / "make.log"
    environment = clean_environment({"PRUDENT_ENV_FILE": None})  # .env is the default
    with log.open("ab") as output:
        process = subprocess.Popen(
            ["make", "--old-file=.venv/.runtime", "run", f"PORT={port}", *variables],  # noqa: S607
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=listen_to_interrupts,
        )
    try:
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            try:
                httpx.get(f"http://{HOST}:{port}/health/ready", trust_env=False).raise_for_status()
                break
            except httpx.HTTPError:
                assert process.poll() is None, log.read_text(encoding="utf-8")
                assert time.monotonic() < deadline, log.read_text(encoding="utf-8")
                time.sleep(0.05)
        yield f"http://{HOST}:{port}"
    finally:
        os.killpg(process.pid, 2)
        process.wait(SECONDS_MAX)


def test_a_key_made_beside_make_run_closes_the_server(tmp_path: Path) -> None:
    """The key went to another, new database: nobody used it, and the service stayed open to everybody."""
    (tmp_path / ".env").write_text("# for docker compose\nGRAFANA_PASSWORD=x", encoding="utf-8")
    with made(tmp_path) as url, httpx.Client(base_url=url, trust_env=False) as http:
        assert http.post("/select", json=SELECT).status_code == 200
        created = prudent(tmp_path, "keys", "create", "me", "--role", "writer")
        assert created.returncode == 0, created.stderr
        assert f"database: {tmp_path}/data/prudent.db" in created.stderr
        deadline = time.monotonic() + KEYS_SECONDS_MAX
        while http.post("/select", json=SELECT).status_code != 401:
            assert time.monotonic() < deadline, "the server is still open"
            time.sleep(0.1)
        assert http.post("/select", json=SELECT, headers={"X-API-Key": created.stdout.strip()}).status_code == 200
        verified = prudent(tmp_path, "verify")
        assert verified.returncode == 0, verified.stderr
        assert f"database: {tmp_path}/data/prudent.db" in verified.stderr
        assert [line.split()[1:4:2] for line in verified.stdout.splitlines() if "demo" in line] == [["demo", "360"]]
        assert "1 campaigns, 0 with faults" in verified.stdout
    assert (tmp_path / ".env").read_text(encoding="utf-8").splitlines() == [
        "# for docker compose",
        "GRAFANA_PASSWORD=x",
        "PRUDENT_DATABASE_URL=sqlite:///data/prudent.db",
    ]
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["prudent.db"]


def test_make_run_remembers_the_database_that_was_named(tmp_path: Path) -> None:
    """Commands, and the next `make run`, would work on another database than the one that was served."""
    with made(tmp_path, f"DATABASE_URL=sqlite:///{tmp_path}/other.db"):
        assert f"database: {tmp_path}/other.db" in prudent(tmp_path, "campaigns", "list").stderr
    with made(tmp_path):
        assert "demo" in prudent(tmp_path, "campaigns", "list").stdout
    assert sorted(path.name for path in tmp_path.rglob("*.db")) == ["other.db"]
    assert (tmp_path / ".env").stat().st_mode & 0o077 == 0  # a URL may have a password


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify",),
        ("keys", "create", "me", "--role", "writer"),
        ("keys", "list"),
        ("keys", "revoke", "me"),
        ("campaigns", "list"),
        ("campaigns", "pause", "c"),
        ("campaigns", "delete", "c", "--confirm", "c"),
        ("export", "c"),
        ("import", os.devnull),
    ],
)
@pytest.mark.parametrize("empty", [False, True])
def test_no_command_creates_a_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], empty: bool
) -> None:
    """`keys create` made keys that nobody asked for, `verify` checked nothing and said that all was well."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PRUDENT_DATABASE_URL", raising=False)
    database = tmp_path / "prudent.db"
    if empty:
        database.touch()
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "prudent migrate" in done.stderr
    if empty:
        with closing(sqlite3.connect(database)) as opened:
            assert opened.execute("SELECT name FROM sqlite_master").fetchall() == []
    else:
        assert f"no database at {database}" in done.stderr
        assert list(tmp_path.iterdir()) == []


def test_only_migrate_and_serve_create_the_default_database(tmp_path: Path) -> None:
    """Whoever has installed the wheel has no data/ folder: the default is a file in the current one."""
    migrated = prudent(tmp_path, "migrate")
    assert (migrated.returncode, f"database: {tmp_path}/prudent.db" in migrated.stderr) == (0, True)
    verified = prudent(tmp_path, "verify")
    assert verified.returncode == 0
    assert "the database has no campaigns: nothing to verify" in verified.stdout


def test_a_variable_wins_over_the_file_and_other_names_are_left_alone(tmp_path: Path) -> None:
    """A container's or a unit's variables must not be overridden by a file that lies about."""
    (tmp_path / ".env").write_text(
        "PRUDENT_DATABASE_URL='sqlite:///of file.db'\nPRUDENT_PORT=1\nSHELL_OF_MINE=${HOME}\n", encoding="utf-8"
    )
    assert f"database: {tmp_path}/of file.db" in prudent(tmp_path, "migrate").stderr
    named = {"PRUDENT_DATABASE_URL": "sqlite:///of-variable.db"}
    assert f"database: {tmp_path}/of-variable.db" in prudent(tmp_path, "migrate", **named).stderr
    given = ("migrate", "--database-url", "sqlite:///of-option.db")
    assert f"database: {tmp_path}/of-option.db" in prudent(tmp_path, *given, **named).stderr


def test_a_mistake_in_the_file_is_named(tmp_path: Path) -> None:
    """A misspelt setting in a file would be as silent as one nobody wrote."""
    (tmp_path / ".env").write_text("PRUDENT_DATABSE_URL=sqlite:///x.db\n", encoding="utf-8")
    done = prudent(tmp_path, "migrate")
    assert (done.returncode, "PRUDENT_DATABSE_URL" in done.stderr) == (1, True)
    done = prudent(tmp_path, "migrate", PRUDENT_ENV_FILE="missing.env")
    assert (done.returncode, "missing.env, which does not exist" in done.stderr) == (1, True)


def test_a_password_is_not_printed(tmp_path: Path) -> None:
    """Standard error ends up in logs."""
    done = prudent(tmp_path, "keys", "list", "--database-url", "postgresql://me:hunter2@127.0.0.1:1/none")
    assert "database: postgresql://me:***@127.0.0.1:1/none" in done.stderr
    assert "hunter2" not in done.stderr
