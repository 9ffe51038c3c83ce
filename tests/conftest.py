"""Fixtures that every test may use; the servers behind them are in `tests.servers`."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import certifi
import httpx
import pytest
from hypothesis import settings
from sqlalchemy import inspect

from prudent.store.engines import create_write_engine, parse_database_url
from tests.databases import migrate
from tests.promises import FIGURE, PROMISES, Promise, table
from tests.scripted import Script, scripted_server
from tests.servers import Postgres, Server

# A slow machine is not a defect, so examples have no deadline; a failure prints how to run it again.
_current = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("prudent", _current, deadline=None, print_blob=True)
settings.load_profile("prudent")
os.environ.pop("COLUMNS", None)  # of the workers, or a console would keep it, whatever width a test then asks for
LONG = {"trust", "transfer", "end_to_end", "paper", "dashboard"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Folders with long tests come first: at the end, one worker would have them while the others have nothing."""
    items.sort(key=lambda item: item.path.parent.name not in LONG)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Two more than there are processors, as tests also wait: for commits, processes and browsers."""
    return (os.cpu_count() or 1) + 2


@pytest.fixture(autouse=True, scope="session")
def _one_authority(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A client reads the certificates of all authorities when it is made; on loopback, without TLS, one will do."""
    end = "-----END CERTIFICATE-----\n"
    first = Path(certifi.where()).read_text(encoding="utf-8").partition(end)[0]
    path = tmp_path_factory.mktemp("authority") / "one.pem"
    path.write_text(first + end, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(certifi, "where", lambda: str(path))
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL server of this run, for tests that need to restart or kill it: leave it running."""
    server = Postgres()
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres_url(postgres: Postgres) -> str:
    """URL of the server's maintenance database."""
    return postgres.url()


@pytest.fixture
def postgres_database(postgres: Postgres) -> Iterator[str]:
    """URL of a new, empty PostgreSQL database."""
    url = postgres.create_database()
    yield url
    postgres.drop_database(url)


@pytest.fixture
def sqlite_database(tmp_path: Path) -> str:
    """URL of an SQLite file that does not exist yet."""
    return f"sqlite:///{tmp_path}/prudent.db"


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest) -> str:
    """URL of a new, empty, un-migrated database: once an SQLite file, once PostgreSQL."""
    url: str = request.getfixturevalue(f"{request.param}_database")
    return url


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service on SQLite, shared by the whole run: use campaign ids of your own, and leave it running."""
    directory = tmp_path_factory.mktemp("server")
    shared = Server(f"sqlite:///{directory}/prudent.db", directory / "server.log")
    shared.start()
    yield shared
    shared.stop()


@pytest.fixture(scope="session")
def server_url(server: Server) -> str:
    """Address of the shared server, without a slash at the end."""
    return server.url


@pytest.fixture
def client(server_url: str) -> Iterator[httpx.Client]:
    """A client of the shared server."""
    with httpx.Client(base_url=server_url, timeout=30, trust_env=False, verify=False) as opened:  # noqa: S501 (plain HTTP)
        yield opened


MakeServer = Callable[..., Server]


def migrate_empty(database_url: str) -> None:
    """Give a database without a schema the newest one; any other is left to the server that is to be tested."""
    engine = create_write_engine(parse_database_url(database_url))
    try:
        with engine.connect() as connection:
            empty = not inspect(connection).get_table_names()
        if empty:
            migrate(engine)
    finally:
        engine.dispose()


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[MakeServer]:
    """Start servers of your own: `make_server(database_url, workers=1, environment=..., arguments=...)`.

    An empty database is migrated first, in this process: a start that loads Alembic takes longer, and the first start
    and `prudent migrate` have tests of their own. With `start=False` nothing is done but making the `Server`. What
    still runs at the end is killed; when the test fails, pytest shows the end of each server's log.
    """
    made: list[Server] = []

    def make(database_url: str, workers: int = 1, *, start: bool = True, **options: Any) -> Server:
        server = Server(database_url, tmp_path / f"server-{len(made)}.log", workers=workers, **options)
        made.append(server)
        if start:
            migrate_empty(database_url)
            server.start()
        return server

    yield make
    for server in made:
        server.kill()
        print(f"--- {server.url} on {server.database_url.partition(':')[0]}\n{server.log()}")  # noqa: T201


@pytest.fixture
def scripted() -> Iterator[Script]:
    """A loopback server that says what it is told to."""
    with scripted_server() as script:
        yield script


@pytest.fixture
def promise(record_property: Callable[[str, object], None]) -> Promise:
    """Report the figure that shows a promise: `promise("R1", "lost 0")`, before the assertions."""

    def report(number: str, figure: str) -> None:
        assert number in PROMISES
        record_property(FIGURE, f"{number}: {figure}")

    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of promises."""
    outcomes = ("passed", "failed")
    reports = [one for outcome in outcomes for one in terminalreporter.stats.get(outcome, []) if one.when == "call"]
    for line in table(reports):
        terminalreporter.write_line(line)
