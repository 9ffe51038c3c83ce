"""The command line, run as a user would run it."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import httpx
import orjson
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app, main
from tests.machine import listen_to_interrupts
from tests.scripted import Script
from tests.waiting import wait_for

WAIT_SECONDS_MAX = 30.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "prudent_simulator", *arguments]


def environment() -> dict[str, str]:
    return os.environ | {"COLUMNS": "200", "PYTHONWARNINGS": "error"}


def failure(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Give the one line that a failed run leaves."""
    monkeypatch.setattr(sys, "argv", ["prudent-simulator", "run", *arguments])
    on_terminate = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended:
            main()
    finally:
        signal.signal(signal.SIGTERM, on_terminate)
    assert ended.value.code == 1
    output, errors = capsys.readouterr()
    assert output == ""
    *progress, line = errors.splitlines()
    assert all("Rounds" in text for text in progress if text)
    assert isinstance(line, str)
    return line


def usage_error(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["run", *arguments], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    return result.output


def test_help_explains_the_options() -> None:
    """A newcomer starts here."""
    result = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
    for option in ("--experiment", "--url", "--server", "--replications", "--bonus", "--no-projection", "--keep"):
        assert option in plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--experiment", "1"], "either --url or --server"),
        (["--experiment", "1", "--url", "http://x", "--server", "sqlite"], "either --url or --server"),
        (["--experiment", "4", "--url", "http://x"], "experiment"),
        (["--experiment", "1", "--url", "http://x", "--conditioning", "wild"], "self-concordant"),
        (["--experiment", "1", "--url", "http://x", "--conditioning", "nan"], "at least 1"),
        (["--experiment", "1", "--url", "http://x", "--algorithm", "ucb"], "linucb-cr"),
    ],
)
def test_wrong_options_are_explained(arguments: Sequence[str], message: str) -> None:
    """Mistakes are told before anything runs."""
    assert message in usage_error(*arguments)


def test_a_run_leaves_a_table_a_json_and_a_figure(server_url: str, tmp_path: Path) -> None:
    """From command to figure, on the real service."""
    output = tmp_path / "new" / "folder"
    algorithms = ("--algorithm", "linucb", "--algorithm", "linucb-cr")
    size = ("--replications", "2", "--rounds", "12", "--seed", "5")
    options = ("--experiment", "1", "--url", server_url, *size, *algorithms, "--output", str(output))
    finished = subprocess.run(
        command("run", *options), capture_output=True, text=True, timeout=120, check=False, env=environment()
    )
    assert finished.returncode == 0, finished.stderr
    assert "linucb-cr" in finished.stdout
    content = json.loads((output / "experiment-1.json").read_bytes())
    assert (content["seed"], content["rounds"], content["replications"]) == (5, 12, 2)
    assert [len(row) for row in content["algorithms"]["linucb-cr"]["regret"]] == [12, 12]
    assert sorted(path.suffix for path in output.iterdir()) == [".json", ".png", ".svg"]


def test_nobody_at_the_address_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback when the service is not there."""
    line = failure(monkeypatch, capsys, "--experiment", "1", "--url", "http://127.0.0.1:9")
    assert line.startswith("Error: no answer from http://127.0.0.1:9: ")


def test_a_refusal_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scripted: Script
) -> None:
    """The service's own words reach the user, and not as markup."""
    problem = orjson.dumps({"title": "Unprocessable", "status": 422, "detail": "no [bold]such[/bold] thing"})
    scripted.answers = [(200, {}, b'{"status":"ready"}'), (422, {}, problem)]
    line = failure(monkeypatch, capsys, "--experiment", "1", "--url", scripted.url)
    assert line == "Error: the service answered 422: Unprocessable. no [bold]such[/bold] thing"


def test_a_key_file_that_is_no_text_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The wrong file, or one that was saved as UTF-16, ended in a traceback."""
    (tmp_path / "key").write_bytes("key".encode("utf-16"))
    monkeypatch.setenv("PRUDENT_API_KEY_FILE", str(tmp_path / "key"))
    monkeypatch.delenv("PRUDENT_API_KEY", raising=False)
    line = failure(monkeypatch, capsys, "--experiment", "1", "--url", "http://127.0.0.1:9")
    assert line == f"Error: PRUDENT_API_KEY_FILE names {tmp_path / 'key'}, which is not UTF-8 text"


def test_an_experiment_without_that_model_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only experiment 2 has models to choose from."""
    options = ("--experiment", "3", "--model", "disjoint", "--url", "http://127.0.0.1:9")
    line = failure(monkeypatch, capsys, *options)
    assert line == "Error: the disjoint model belongs to experiment 2 only"


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_cleans_up(server_url: str, signum: signal.Signals) -> None:
    """Ctrl-C in a long run: no traceback, and no campaign left behind."""
    run_id = f"test-command.{signum.name}"
    options = ("--experiment", "1", "--url", server_url, "--run-id", run_id, "--algorithm", "linucb")
    process = subprocess.Popen(
        command("run", *options, "--replications", "1", "--rounds", "999999"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        preexec_fn=listen_to_interrupts,
    )
    campaign = f"{server_url}/campaigns/{run_id}.linucb.00000"
    with httpx.Client(trust_env=False) as watcher:
        try:
            wait_for(lambda: watcher.get(campaign).status_code == 200)
            process.send_signal(signum)
            _, errors = process.communicate(timeout=WAIT_SECONDS_MAX)
        finally:
            process.kill()
            process.communicate()
        assert process.returncode == 130, errors
        assert "Traceback" not in errors
        assert watcher.get(campaign).status_code == 404
