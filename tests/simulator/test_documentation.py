"""The pages about environments and logs: what they print is what the commands print."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.own.loading import load_environment, shipped_names
from tests.servers import ROOT, clean_environment

ENVIRONMENTS = (ROOT / "docs" / "environments.md").read_text(encoding="utf-8")
LOGS = (ROOT / "docs" / "logged-data.md").read_text(encoding="utf-8")
WIDTH = "120"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    command = [sys.executable, "-m", "docs.measurements.logs", str(folder)]
    subprocess.run(command, check=True, timeout=60, cwd=ROOT)
    return folder


def test_the_file_of_the_page_works_and_deceives(tmp_path: Path) -> None:
    """The first thing to be copied."""
    (example,) = re.findall(r"```yaml\n(.*?)```", ENVIRONMENTS, re.DOTALL)
    path = tmp_path / "courier.yaml"
    path.write_text(example)
    environment = load_environment(str(path))
    assert environment.true_parameters()[1] < 1e-9
    assert [block.shown_as for block in environment.file.algorithms] == ["linucb", "linucb-cr", "paper-bonus"]


def test_every_shipped_environment_is_described() -> None:
    """What is shipped and not described will not be found."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (?:multi-armed|disjoint|shared)", ENVIRONMENTS, re.MULTILINE)
    assert sorted(rows) == shipped_names()


@pytest.mark.parametrize("command", ["risk uniform.csv", "replay mostly.csv", "replay incumbent.csv"])
def test_the_output_on_the_page_is_what_is_printed(logs: Path, command: str) -> None:
    """Numbers that nobody gets would cost all trust. (The replay of uniform.csv takes longer, and is left out.)"""
    pattern = rf"^    prudent-simulator ({command}[^\n]*)\n\n```text\n(.*?)\n```"
    ((typed, printed),) = re.findall(pattern, LOGS, re.MULTILINE | re.DOTALL)
    environment = clean_environment() | {"COLUMNS": WIDTH, "PYTHONPATH": os.fspath(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "simulator", *typed.split()],
        cwd=logs,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.rstrip() == printed
