"""The service's commands, as operators type them."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tests.databases import PARTITIONS
from tests.servers import COMMAND, ROOT, ServerError, launch

SIMULATOR = (sys.executable, "-m", "prudent_simulator")
SECONDS_MAX = 300.0


def prudent(
    *arguments: str | Path, environment: Mapping[str, str | None] | None = None, directory: Path = ROOT
) -> subprocess.CompletedProcess[str]:
    """Run a command; its exit code and what it printed. `environment` changes a clean one; None unsets."""
    return _run(COMMAND, arguments, environment or {}, directory)


def simulator(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run one of the simulator's commands, to which every warning is an error; its exit code and what it printed."""
    return _run(SIMULATOR, arguments, {"COLUMNS": "200", "PYTHONWARNINGS": "error"}, ROOT)


def migrate(database_url: str) -> str:
    """Bring a database to the newest schema, and return what the command printed. Raises ServerError."""
    parts = ("--partitions", str(PARTITIONS)) if PARTITIONS and database_url.startswith("postgresql") else ()
    done = prudent("migrate", "--database-url", database_url, *parts)
    if done.returncode != 0:
        raise ServerError(f"migrate exited with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def _run(
    command: Sequence[str], arguments: Sequence[str | Path], environment: Mapping[str, str | None], directory: Path
) -> subprocess.CompletedProcess[str]:
    """Raises subprocess.TimeoutExpired, after a kill."""
    with (
        Path(os.devnull).open("rb") as nothing,
        tempfile.TemporaryFile("w+", encoding="utf-8") as output,
        tempfile.TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        streams: list[IO[Any]] = [nothing, output, errors]
        process = launch(arguments, streams, environment=environment, command=command, directory=directory)
        try:
            code = process.wait(SECONDS_MAX)
        except BaseException:
            process.kill()
            process.wait()
            raise
        output.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess([*command, *arguments], code, output.read(), errors.read())
