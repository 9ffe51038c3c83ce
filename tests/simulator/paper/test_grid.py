"""The command on real servers: interrupted, resumed, repeated."""

import random
import re
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
from typer.testing import CliRunner

from prudent_simulator.__main__ import app
from tests.commands import SIMULATOR
from tests.servers import launch
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

SECONDS_MAX = 120.0
PLAN = ("--experiment", "2", "--rows", "all", "--algorithm", "linucb-onepass-cr")
SIZE = ("--replications", "3", "--rounds", "40", "--block", "2")


class Command:
    """The command on two rows of two cells each, while it runs."""

    def __init__(self, directory: Path, *options: str, fresh: bool = False) -> None:
        self._files = [tempfile.TemporaryFile("w+", encoding="utf-8") for _ in range(3)]  # noqa: SIM115  # see finish
        self.process = launch(
            ["paper", "--directory", directory, *PLAN, *SIZE, *options],
            self._files,
            environment={"COLUMNS": "200", "PYTHONWARNINGS": "error"},
            command=SIMULATOR,
            fresh=fresh,
        )

    def finish(self) -> tuple[int, str, str]:
        """Its exit code and what it printed."""
        try:
            status = self.process.wait(SECONDS_MAX)
        finally:
            self.process.kill()
        printed = []
        for file in self._files:
            with file:
                file.seek(0)
                printed.append(file.read())
        return status, printed[1], printed[2]


def play(directory: Path, *options: str) -> None:
    status, output, errors = Command(directory, *options).finish()
    assert status == 0, errors
    assert "All 4 cells" in output


def cells(directory: Path) -> dict[str, Path]:
    return {path.name: path for path in (directory / "cells").iterdir()}


def numbers(directory: Path) -> dict[str, dict[str, np.ndarray]]:
    """Everything in the cells but how long they took."""
    read = {}
    for name, path in cells(directory).items():
        with np.load(path) as content:
            read[name] = {part: content[part] for part in ("settings", "model", "regret", "arms")}
    return read


def assert_same(first: Path, second: Path) -> None:
    left, right = numbers(first), numbers(second)
    assert len(left) == 4
    assert left.keys() == right.keys()
    for name, parts in left.items():
        for part, values in parts.items():
            np.testing.assert_array_equal(values, right[name][part], err_msg=f"{name}: {part}")


def processes_of(directory: Path) -> list[list[str]]:
    """Command lines that name something in the directory: the servers' do."""
    found = []
    for process in psutil.process_iter(["cmdline"]):
        line = process.info["cmdline"] or []
        if any(str(directory) in word for word in line):
            found.append(line)
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted, on two servers."""
    directory = tmp_path_factory.mktemp("whole")
    play(directory, "--servers", "2")
    return directory


def has_a_server(directory: Path) -> bool:
    return any(directory.glob(".server-*/simulator.db"))


def has_a_cell(directory: Path) -> bool:
    return any(directory.glob("cells/*.npz"))


@pytest.mark.parametrize(("signum", "moment"), [(signal.SIGINT, has_a_cell), (signal.SIGTERM, has_a_server)])
def test_interrupted_and_resumed_gives_the_same(
    whole: Path, tmp_path: Path, signum: signal.Signals, moment: Callable[[Path], bool]
) -> None:
    """Hours of work survive Ctrl-C: the finished cells stay as they are, the rest gives the same numbers."""
    seed = random.SystemRandom().randrange(10**6)
    delay = random.Random(seed).uniform(0.0, 1.0)  # noqa: S311 - no secret
    print(f"seed {seed}: interrupted {delay:.3f} s later")  # noqa: T201 - shown if the test fails
    command = Command(tmp_path, "--servers", "1")
    wait_for(lambda: moment(tmp_path) or command.process.poll() is not None, seconds_max=SECONDS_MAX)
    time.sleep(delay)
    command.process.send_signal(signum)
    status, _, errors = command.finish()
    assert status == 130, errors
    assert "Traceback" not in errors
    assert re.search(r"Interrupted: \d of 4 cells .* To resume: prudent-simulator paper --directory", errors)
    assert processes_of(tmp_path) == []
    assert list(tmp_path.glob(".server-*")) == []
    kept = {name: path.stat().st_mtime_ns for name, path in cells(tmp_path).items()}
    assert len(kept) < 4
    play(tmp_path, "--servers", "1")
    assert_same(whole, tmp_path)
    assert {name: cells(tmp_path)[name].stat().st_mtime_ns for name in kept} == kept


def test_a_finished_run_starts_nothing(whole: Path) -> None:
    """The same command again is answered from what is there."""
    before = {name: path.stat().st_mtime_ns for name, path in cells(whole).items()}
    result = CliRunner().invoke(app, ["paper", "--directory", str(whole), *PLAN, *SIZE, "--servers", "9"])
    assert result.exit_code == 0
    assert {name: path.stat().st_mtime_ns for name, path in cells(whole).items()} == before


def test_a_service_that_is_there_gives_the_same(whole: Path, tmp_path: Path, server_url: str) -> None:
    """The address of a team's own installation, two clients at once, and other campaigns beside these."""
    play(tmp_path, "--url", server_url, "--servers", "2")
    assert_same(whole, tmp_path)


def test_another_seed_gives_other_numbers(whole: Path, tmp_path: Path, server_url: str) -> None:
    """Two seeds are two experiments: not only other ties, but other features, and so another cost of the worse arm."""
    play(tmp_path, "--url", server_url, "--servers", "1", "--seed", "1")
    first, second = numbers(whole), numbers(tmp_path)
    for name, parts in first.items():
        left, right = np.diff(parts["regret"]), np.diff(second[name]["regret"])
        both = (left > 0.0) & (right > 0.0)
        assert both.any()
        assert (left[both] != right[both]).all()


@pytest.mark.parametrize("options", [("--seed", "1"), ("--rounds", "41")])
def test_other_settings_are_refused_before_anything_starts(whole: Path, options: tuple[str, str]) -> None:
    """Numbers of two experiments must not meet in one table."""
    before = sorted(cells(whole))
    status, _, errors = Command(whole, *options).finish()
    assert status == 1
    assert re.fullmatch(r"Error: .* holds a run with other settings \(.*\): give the same ones .*\n", errors), errors
    assert sorted(cells(whole)) == before


def test_nobody_at_the_address_is_one_line(tmp_path: Path) -> None:
    """No traceback of a worker, and no waiting."""
    status, _, errors = Command(tmp_path, "--url", "http://127.0.0.1:9").finish()
    assert status == 1
    assert "Traceback" not in errors
    assert "no answer from http://127.0.0.1:9" in errors.splitlines()[-1]


def test_a_killed_worker_is_told(tmp_path: Path) -> None:
    """Killed for want of memory, for one: the run must end, and say so."""
    command = Command(tmp_path, "--servers", "1", fresh=True)
    wait_for(lambda: has_a_server(tmp_path), seconds_max=SECONDS_MAX)
    children = psutil.Process(command.process.pid).children()
    (worker,) = [child for child in children if "spawn_main" in " ".join(child.cmdline())]
    servers = worker.children()
    worker.kill()
    status, _, errors = command.finish()
    for server in servers:
        server.kill()  # nobody is left to end it
    assert status == 1
    assert re.search(r"Error: a worker ended with status -9 at 2-", errors), errors


def test_help_explains_the_options() -> None:
    """A newcomer starts here."""
    for command, options in (("paper", ("--rows", "--servers", "--directory")), ("report", ("--runtime", "--output"))):
        result = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"})
        plain = re.sub(r"\x1b\[[0-9;]*m", "", result.output)
        assert all(option in plain for option in options)


def test_a_choice_without_rows_is_explained(tmp_path: Path) -> None:
    """One pass is ours, so it is not among the paper's rows."""
    options = ["paper", "--directory", str(tmp_path), "--algorithm", "linucb-onepass-cr"]
    result = CliRunner().invoke(app, options, env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "--rows all" in result.output
    result = CliRunner().invoke(
        app, ["paper", "--directory", str(tmp_path), "--row", "4-linucb"], env={"COLUMNS": "200"}
    )
    assert result.exit_code == 2
    assert "no row is named 4-linucb" in result.output
    assert not list(tmp_path.iterdir())
