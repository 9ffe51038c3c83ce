"""Starts a service of the simulator's own, on a temporary database, and ends it again.

The service runs as a separate process through its console command, as a user would start it, and only ever on
127.0.0.1.
"""

import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from prudent_client import ClientError
from prudent_simulator.client import Client
from prudent_simulator.postgres import own_postgres
from prudent_simulator.processes import ServerStartError, clean_environment, log_tail, stop

_HOST = "127.0.0.1"
_START_SECONDS_MAX = 60.0
_POSTGRES_WORKERS = 2
_SQLITE_FILE = "simulator.db"
_LOG_FILE = "service.log"


class Database(StrEnum):
    """What the service stores its data in."""

    SQLITE = "sqlite"
    POSTGRES = "postgres"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _migrate(url: str, log: Path) -> None:
    with log.open("ab") as output:
        command = [sys.executable, "-m", "prudent", "migrate", "--database-url", url]
        finished = subprocess.run(  # noqa: S603 - our own command
            command, stdout=output, stderr=output, env=clean_environment(), check=False
        )
    if finished.returncode != 0:
        raise ServerStartError(f"the database could not be prepared: {log_tail(log)}")


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    with Client(url, attempts=1, timeout_seconds=5.0) as client:
        while True:
            if process.poll() is not None:
                raise ServerStartError(f"the service ended while starting: {log_tail(log)}")
            try:
                client.health()
            except ClientError as error:
                if time.monotonic() > deadline:
                    raise ServerStartError(
                        f"the service was not ready after {_START_SECONDS_MAX:.0f} s: {error}"
                    ) from error
                time.sleep(0.05)
            else:
                return


@contextmanager
def _serve(url: str, workers: int | None, log: Path, settings: Mapping[str, str]) -> Iterator[str]:
    port = _free_port()
    command = [sys.executable, "-m", "prudent", "serve", "--host", _HOST, "--port", str(port)]
    command += ["--database-url", url]
    if workers is not None:
        command += ["--workers", str(workers)]
    with log.open("ab") as output:
        # A session of its own: Ctrl-C reaches the simulator first, which then ends the service in order.
        process = subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=clean_environment() | dict(settings),
            start_new_session=True,
        )
    try:
        address = f"http://{_HOST}:{port}"
        _wait_until_ready(process, address, log)
        yield address
    finally:
        stop(process, signal.SIGTERM)


@contextmanager
def sqlite_server(folder: Path, settings: Mapping[str, str] | None = None) -> Iterator[str]:
    """Run a service on a SQLite file in a folder and give its address; the file stays (see `database_bytes`).

    settings: PRUDENT_* variables. Raises ServerStartError, with the last lines of its log, when it does not come up.
    """
    with _serve(f"sqlite:///{folder / _SQLITE_FILE}", None, folder / _LOG_FILE, settings or {}) as address:
        yield address


def database_bytes(folder: Path) -> int:
    """Give the size of the SQLite database in a folder, its write-ahead log included."""
    return sum(path.stat().st_size for path in folder.glob(f"{_SQLITE_FILE}*"))


@contextmanager
def own_server(database: Database) -> Iterator[str]:
    """Run a service on a temporary database and give its address; all of it is gone afterwards.

    Raises ServerStartError, with the last lines of its log, when it does not come up.
    """
    with tempfile.TemporaryDirectory(prefix="prudent-simulator-") as name:
        folder = Path(name)
        if database is Database.SQLITE:
            with sqlite_server(folder) as address:
                yield address
        else:
            log = folder / _LOG_FILE
            with own_postgres() as url:
                _migrate(url, log)
                with _serve(url, _POSTGRES_WORKERS, log, {}) as address:
                    yield address
