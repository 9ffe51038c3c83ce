"""R14 and upgrades: many starters at once, every released schema, and not a row that changes."""

import contextlib
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from hashlib import blake2b
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from sqlalchemy import inspect, text

from prudent.store.engines import create_read_engine, parse_database_url
from prudent.store.schema import latest_revision
from tests.commands import migrate
from tests.conftest import MakeServer
from tests.promises import Promise
from tests.servers import ROOT, clean_environment
from tests.trust.invariants import prudent_verify
from tests.waiting import wait_for

pytestmark = pytest.mark.slow

STARTERS = 4
FIXTURES = ROOT / "tests/fixtures"
RELEASED = sorted(path.name.split(".")[0].removeprefix("schema-") for path in FIXTURES.glob("*.sqlite.sql"))
NEXT = '''"""A revision to come."""
import sqlalchemy as sa
from alembic import op

revision = "next"
down_revision = "{latest}"

def upgrade():
    op.add_column("campaigns", sa.Column("owner", sa.Text()))
    op.create_table("owners", sa.Column("name", sa.Text(), primary_key=True))

def downgrade():
    op.drop_table("owners")
    op.drop_column("campaigns", "owner")
'''


def load(database_url: str, revision: str) -> None:
    """Restore a released schema with its data."""
    if database_url.startswith("sqlite"):
        script = (FIXTURES / f"schema-{revision}.sqlite.sql").read_text(encoding="utf-8")
        with contextlib.closing(sqlite3.connect(database_url.removeprefix("sqlite:///"))) as connection:
            connection.executescript(script)
    else:
        script = (FIXTURES / f"schema-{revision}.postgres.sql").read_text(encoding="utf-8")
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute(script.encode())


def contents(database_url: str, columns: dict[str, list[str]] | None = None) -> tuple[str, dict[str, list[str]]]:
    """A digest of all rows, in these columns or all that there are; and the columns."""
    engine = create_read_engine(parse_database_url(database_url))
    hashed = blake2b()
    with engine.connect() as connection:
        if columns is None:
            tables = inspect(connection).get_table_names()
            columns = {
                table: [column["name"] for column in inspect(connection).get_columns(table)]
                for table in sorted(tables)
                if table != "alembic_version"
            }
        for table, names in columns.items():
            listed = ", ".join(f'"{name}"' for name in names)
            rows = sorted(repr(tuple(row)) for row in connection.execute(text(f"SELECT {listed} FROM {table}")))  # noqa: S608
            hashed.update(repr((table, names, rows)).encode())
    engine.dispose()
    return hashed.hexdigest(), columns


def next_version(folder: Path) -> Path:
    """A folder with the package of a version to come, which has one more migration."""
    directory, nothing_compiled = folder / "next", shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "service/prudent", directory / "prudent", ignore=nothing_compiled)
    shutil.copytree(ROOT / "migrations", directory / "prudent/migrations", ignore=nothing_compiled)
    revision = directory / "prudent/migrations/versions/next.py"
    revision.write_text(NEXT.format(latest=latest_revision()), encoding="utf-8")
    with (directory / "prudent/store/schema.py").open("a", encoding="utf-8") as names:
        names.write('\nREVISIONS += ("next",)\n')
    return directory


def start_all(database_url: str, directory: Path) -> list[str]:
    """What so many `prudent migrate` print that start at once, with the migrations of a folder."""
    command = [sys.executable, "-m", "prudent", "migrate", "--database-url", database_url]
    started = [
        subprocess.Popen(
            command, cwd=directory, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for _ in range(STARTERS)
    ]
    printed = [process.communicate(timeout=120)[0] for process in started]
    assert [process.returncode for process in started] == [0] * STARTERS, printed
    return printed


@pytest.mark.parametrize("state", ["empty", "one behind"])
def test_starters_at_once_migrate_once(database_url: str, tmp_path: Path, state: str, promise: Promise) -> None:
    """R14. Replicas of a new version start together; two that run the same DDL fail, or destroy each other's work."""
    directory, before, columns = ROOT, "", None
    if state == "one behind":
        load(database_url, RELEASED[-1])
        migrate(database_url)
        before, columns = contents(database_url)
        directory = next_version(tmp_path)
    printed = start_all(database_url, directory)
    worked = sum("schema migrated" in one for one in printed)
    changed = 0 if columns is None else int(contents(database_url, columns)[0] != before)
    name = database_url.partition(":")[0]
    promise("R14", f"{name}, {state}: {STARTERS} starters, {worked} ran DDL, data changed {changed}")
    assert (worked, changed) == (1, 0), printed


def test_one_of_many_servers_serves_a_sqlite_file(
    make_server: MakeServer, sqlite_database: str, promise: Promise
) -> None:
    """R14. Each would migrate the empty file and believe to be its only writer."""
    servers = [make_server(sqlite_database, start=False) for _ in range(STARTERS)]
    for server in servers:
        server.start(wait=False)
    deadline = time.monotonic() + 60
    while sum(server.running for server in servers) > 1 and time.monotonic() < deadline:
        time.sleep(0.1)
    (serving,) = [server for server in servers if server.running]
    serving.wait_until_ready()
    refused = sum("another server" in server.log().replace("\n", " ") for server in servers)
    promise("R14", f"sqlite, empty: {STARTERS} servers at once, 1 serves, {refused} refuse")
    assert refused == STARTERS - 1


@pytest.mark.parametrize("revision", RELEASED)
def test_a_released_schema_opens_migrates_and_verifies(
    make_server: MakeServer, database_url: str, revision: str, promise: Promise
) -> None:
    """B21. An upgrade would lose what was learned, or refuse the database that the last version wrote."""
    load(database_url, revision)
    before, columns = contents(database_url)
    said = " ".join(migrate(database_url).split())
    changed = int(contents(database_url, columns)[0] != before)
    server = make_server(database_url)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        campaigns = http.get("/campaigns").raise_for_status().json()["items"]
        for campaign in campaigns:
            assert campaign["algorithm"]["exploration_rule"] == "optimistic"  # as it was created
            use(http, campaign)
    printed = prudent_verify(database_url, server.url)
    rows = len(re.findall(r" ok ", printed))
    name = database_url.partition(":")[0]
    promise("upgrades", f"{name}, schema {revision}: {rows} campaigns verified, data changed {changed}")
    assert changed == 0
    assert rows == len(campaigns) == 11
    assert "rule they were created with: 11;" in said


def test_a_worker_one_revision_behind_goes_on(
    make_server: MakeServer, postgres_database: str, tmp_path: Path, promise: Promise
) -> None:
    """A rolling upgrade would take every old worker out of service at once; and an old worker must not start anew."""
    server = make_server(postgres_database)
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        creation = {"campaign_id": "c", "risk": {"measure": "mean"}, "model": {"type": "multi-armed"}}
        http.post("/campaigns", json={**creation, "arms": [{"arm_id": "a"}, {"arm_id": "b"}]}).raise_for_status()
        start_all(postgres_database, next_version(tmp_path))
        decision = http.post("/select", json={"campaign_id": "c"}).raise_for_status().json()
        reward = {"decision_id": decision["decision_id"], "reward": 1}
        statuses = [http.post("/reward", json=reward).status_code, http.get("/health/ready").status_code]
        detail = http.get("/health/ready").json()["detail"]
    late = make_server(postgres_database, start=False)
    late.start(wait=False)
    wait_for(lambda: not late.running, "an old version starts on a newer schema")
    promise("upgrades", f"one revision behind: reward {statuses[0]}, ready {statuses[1]}; a start is refused")
    assert statuses == [200, 200]
    assert "newer version" in detail
    assert "does not know" in late.log().replace("\n", " ")


def use(http: httpx.Client, campaign: dict[str, Any]) -> None:
    """Reward what was pending, repeat what was answered, and decide again."""
    name, model = campaign["campaign_id"], campaign["model"]["type"]
    repeated = http.post("/reward", json={"decision_id": f"23.{name}", "reward": 1.0}).raise_for_status().json()
    assert repeated["duplicate"] == (name == "linucb.shared")
    body: dict[str, Any] = {"campaign_id": name}
    if model == "disjoint":
        body["context"] = [0.5, 0.5]
    reply = http.post("/select", json=body)
    assert reply.status_code == (409 if campaign["status"] == "archived" else 200), reply.text


def test_down_to_the_first_revision_and_up_again_changes_no_data(database_url: str) -> None:
    """W24. A rollback of a release must not cost what the release before had stored."""
    load(database_url, RELEASED[0])
    before, columns = contents(database_url)
    migrate(database_url)
    script = (
        "import sys; from alembic import command; from prudent.store import schema, engines\n"
        "engine = engines.create_write_engine(engines.parse_database_url(sys.argv[1]))\n"
        "with engine.begin() as connection:\n"
        "    command.downgrade(schema._configuration(connection), sys.argv[2])\n"
    )
    subprocess.run([sys.executable, "-c", script, database_url, RELEASED[0]], cwd=ROOT, check=True, timeout=60)
    assert contents(database_url)[0] == before
    migrate(database_url)
    assert contents(database_url, columns)[0] == before
    prudent_verify(database_url)
