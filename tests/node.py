"""Node's programs, for tests of what is written in JavaScript."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.machine import missing
from tests.servers import clean_environment

PROGRAMS = Path(sys.executable).parent
RUN_SECONDS_MAX = 600


def run(command: Sequence[str | Path], directory: Path, environment: Mapping[str, str] | None = None) -> str:
    """Run a program, of this environment too; its output. Fails with all that it printed."""
    path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        cwd=directory,
        env=clean_environment({"PATH": path, **(environment or {})}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}"
    return done.stdout


def install(directory: Path) -> None:
    """Install the packages of a package-lock.json. Without Node or a registry the test is skipped, but fails in CI."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        missing("node and npm are not installed")
    try:
        run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], directory)
    except AssertionError as error:
        missing(f"the packages of package-lock.json cannot be installed: {error}")
