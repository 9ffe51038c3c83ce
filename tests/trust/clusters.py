"""What operators put around the service: a standby that can take over, PgBouncer, a proxy before several servers."""

import contextlib
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import psycopg

from tests.servers import HOST, ROOT, Postgres, ServerError, free_port

SECONDS_MAX = 30.0
POLL_SECONDS = 0.02
ACCOUNT = "nobody"
"""Neither PostgreSQL nor PgBouncer runs as root."""
PROXY = ROOT / "deploy/haproxy.cfg"


def ask(url: str, query: str) -> str:
    """The one value that a query returns, as text; empty for a statement that returns none."""
    with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
        cursor = connection.execute(query.encode())
        row = cursor.fetchone() if cursor.description else None
        return "" if row is None else str(row[0])


class Standby(Postgres):
    """A streaming standby of a running server; it has what the primary has, and the same password."""

    def __init__(self, primary: Postgres, port: int | None = None) -> None:
        self._primary = primary
        super().__init__()
        self.port = self.port if port is None else port

    def _initialise(self) -> None:
        self.password = self._primary.password
        self.data.mkdir(mode=0o700)
        if self._account is not None:
            self.directory.chmod(0o755)
            os.chown(self.data, self._account.pw_uid, self._account.pw_gid)
        options = ("--write-recovery-conf", "--checkpoint=fast", "--no-sync", f"--dbname={self._primary.url()}")
        self.program("pg_basebackup", f"--pgdata={self.data}", *options)


class Pair:
    """A primary and a standby on two ports, which take turns."""

    def __init__(self, *, synchronous: bool) -> None:
        self._synchronous = synchronous
        self.primary = Postgres()
        self.primary.start()
        self.standby = self._attach(None)

    def _attach(self, port: int | None) -> Postgres:
        """Start a new standby; with a synchronous one, commits wait for it from then on."""
        standby = Standby(self.primary, port)
        standby.start()
        if self._synchronous:
            self.configure("synchronous_standby_names", "*")
            deadline = time.monotonic() + SECONDS_MAX
            state = "SELECT string_agg(sync_state, ',') FROM pg_stat_replication"
            while "sync" not in ask(self.primary.url(), state).split(","):
                if time.monotonic() > deadline:
                    raise ServerError("the standby has not become synchronous")
                time.sleep(POLL_SECONDS)
        return standby

    def url(self, database: str = "postgres") -> str:
        """Both servers in one URL, as libpq takes it."""
        hosts = f"{HOST}:{self.primary.port},{HOST}:{self.standby.port}"
        return f"postgresql://postgres:{self.primary.password}@{hosts}/{database}"

    def configure(self, name: str, value: str, server: Postgres | None = None) -> None:
        """Change a setting of the primary, or of another server, while it runs."""
        url = (server or self.primary).url()
        ask(url, f"ALTER SYSTEM SET {name} = '{value}'")
        ask(url, "SELECT pg_reload_conf()")

    def wait_for_standby(self) -> None:
        """Wait until the standby has everything that the primary has written by now."""
        written = ask(self.primary.url(), "SELECT pg_current_wal_flush_lsn()")
        arrived = f"SELECT coalesce(pg_last_wal_receive_lsn() >= '{written}'::pg_lsn, false)"
        deadline = time.monotonic() + SECONDS_MAX
        while ask(self.standby.url(), arrived) != "True":
            if time.monotonic() > deadline:
                raise ServerError("the standby does not receive anything")
            time.sleep(POLL_SECONDS)

    def cut_off(self) -> None:
        """The standby receives nothing any more: what is written from now on is the tail that a failover loses."""
        self.configure("primary_conninfo", "", self.standby)
        deadline = time.monotonic() + SECONDS_MAX
        while ask(self.standby.url(), "SELECT count(*) FROM pg_stat_wal_receiver") != "0":
            if time.monotonic() > deadline:
                raise ServerError("the standby still receives")
            time.sleep(POLL_SECONDS)

    def fail_over(self) -> None:
        """The primary loses its power, and the standby takes over."""
        self.primary.kill()
        dead, self.primary = self.primary, self.standby
        ask(self.primary.url(), "SELECT pg_promote()")
        self.configure("synchronous_standby_names", "")
        self.standby = dead

    def repair(self) -> None:
        """A new standby, in the place of the dead server."""
        port = self.standby.port
        self.standby.remove()
        self.standby = self._attach(port)

    def remove(self) -> None:
        """Stop both, and delete their data."""
        for server in (self.primary, self.standby):
            server.remove()


class Program:
    """A program of Debian's that listens on a port of its own, with its settings in a folder that goes with it."""

    def __init__(self, name: str, package: str) -> None:
        """Raises ServerError if it is not installed."""
        found = shutil.which(package, path=f"{os.environ['PATH']}:/usr/sbin")
        if found is None:
            raise ServerError(f"{name} is not installed (Debian: apt-get install {package})")
        self._name, self._program = name, found
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix=f"prudent-{package}-"))
        self.directory.chmod(0o755)
        self._log = self.directory / f"{package}.log"

    def _start(self, *arguments: str | Path, user: str | None = None) -> None:
        """Start it, and wait until somebody can connect. Raises ServerError, and removes what did not start."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [self._program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=user,
            )
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), timeout=1):
                return
            if self.process.poll() is not None or time.monotonic() > deadline:
                written = self._log.read_text()
                self.remove()
                raise ServerError(f"{self._name} did not start: {written}")
            time.sleep(POLL_SECONDS)

    def remove(self) -> None:
        """Stop it. It keeps nothing, and which signal it heeds at once depends on its version."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


class PgBouncer(Program):
    """Debian's PgBouncer in front of a server; a database of the server has the same name here."""

    def __init__(self, server: Postgres, mode: Literal["session", "transaction", "statement"], size: int) -> None:
        """size: server connections per database. Raises ServerError if it is not installed, or does not start."""
        super().__init__("PgBouncer", "pgbouncer")
        self._server = server
        users, settings = self.directory / "users.txt", self.directory / "pgbouncer.ini"
        users.write_text(f'"postgres" "{server.password}"\n', encoding="ascii")
        settings.write_text(
            f"[databases]\n* = host={HOST} port={server.port}\n[pgbouncer]\nlisten_addr = {HOST}\n"
            f"listen_port = {self.port}\nunix_socket_dir =\nauth_type = scram-sha-256\nauth_file = {users}\n"
            f"pool_mode = {mode}\ndefault_pool_size = {size}\nserver_login_retry = 1\n",
            encoding="ascii",
        )
        self._start(settings, user=ACCOUNT if os.geteuid() == 0 else None)

    def url(self, server_url: str) -> str:
        """The URL of one of the server's databases, through PgBouncer."""
        return server_url.replace(f":{self._server.port}/", f":{self.port}/")


class HaProxy(Program):
    """Debian's HAProxy in front of servers, set up as the compose file's; only names and addresses are other ones."""

    def __init__(self, ports: Sequence[int]) -> None:
        """ports: of the servers. Raises ServerError if it is not installed, or does not start."""
        super().__init__("HAProxy", "haproxy")
        self.url = f"http://{HOST}:{self.port}"
        path = self.directory / "haproxy.cfg"
        path.write_text(self._settings(ports), encoding="utf-8")
        self._start("-db", "-f", path)

    def _settings(self, ports: Sequence[int]) -> str:
        lines = "\n".join(f"    server worker{number} {HOST}:{port}" for number, port in enumerate(ports))
        settings = PROXY.read_text(encoding="utf-8")
        for pattern, here in (
            (r"^resolvers docker\n(    .*\n)+", ""),
            (r"^    server-template worker .*$", lines),
            (r"^    bind :8080$", f"    bind {HOST}:{self.port}"),
        ):
            settings, count = re.subn(pattern, here, settings, flags=re.MULTILINE)
            assert count == 1, pattern
        return settings
