"""The commands about campaigns, on the database and through a server, while the server runs."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import Result
from typer.testing import CliRunner

from prudent.__main__ import app
from tests.api.contract import Json, create, ok, problem, reward, select, shared
from tests.conftest import MakeServer, migrate_empty
from tests.servers import ROOT, Postgres, Server
from tests.transfer.campaigns import assert_same, make, play


def prudent(*arguments: str, answer: str | None = None) -> Result:
    """Run a command in this process, where it takes no second to start."""
    return CliRunner().invoke(app, arguments, input=answer, env={"COLUMNS": "200"})


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server for all tests that delete what they create."""
    folder = tmp_path_factory.mktemp("commands")
    postgres: Postgres | None = request.getfixturevalue("postgres") if request.param == "postgres" else None
    url = f"sqlite:///{folder}/prudent.db" if postgres is None else postgres.create_database()
    migrate_empty(url)
    server = Server(url, folder / "server.log")
    server.start()
    yield server
    server.stop()
    if postgres is not None:
        postgres.drop_database(url)


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that campaigns are moved to."""
    folder = tmp_path_factory.mktemp("elsewhere")
    server = Server(f"sqlite:///{folder}/prudent.db", folder / "server.log")
    server.start()
    yield server
    server.stop()


@pytest.fixture(params=["database", "server"])
def place(request: pytest.FixtureRequest, running: Server) -> list[str]:
    """The options that name a running server's database, or the server itself."""
    return ["--database-url", running.database_url] if request.param == "database" else ["--url", running.url]


@pytest.fixture
def http(running: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=running.url, timeout=30, trust_env=False) as opened:
        yield opened


def test_campaigns_are_managed_while_a_server_runs(place: list[str], http: httpx.Client) -> None:
    """An operator would have to stop the service, or write JSON by hand, to pause a campaign."""
    make(http, "one-pass")
    decision = play(http, "one-pass", range(60))[-1]
    listed = prudent("campaigns", "list", *place)
    assert listed.exit_code == 0, listed.stderr
    assert "one-pass" in listed.stdout
    shown: list[Json] = json.loads(prudent("campaigns", "list", "--json", *place).stdout)
    assert shown == ok(http.get("/campaigns"))["items"]
    assert json.loads(prudent("campaigns", "show", "one-pass", "--json", *place).stdout) == shown[0]
    assert "retired" in prudent("campaigns", "show", "one-pass", *place).stdout
    assert prudent("campaigns", "pause", "one-pass", *place).exit_code == 0
    late = {"decision_id": ok(http.post("/select", json={"campaign_id": "one-pass"}))["decision_id"], "reward": 1}
    assert ok(http.post("/reward", json=late))["learned"] is False
    assert prudent("campaigns", "activate", "one-pass", *place).exit_code == 0
    assert ok(http.post("/reward", json=late))["learned"] is True
    assert prudent("campaigns", "archive", "one-pass", *place).exit_code == 0
    problem(http.post("/select", json={"campaign_id": "one-pass"}), 409)
    for arguments, answer in ((("--confirm", "other"), None), ((), "other\n")):
        refused = prudent("campaigns", "delete", "one-pass", *arguments, *place, answer=answer)
        assert (refused.exit_code, "nothing was deleted" in refused.stderr) == (1, True)
    ok(http.get("/campaigns/one-pass"))
    assert prudent("campaigns", "delete", "one-pass", *place, answer="one-pass\n").exit_code == 0
    problem(http.get("/campaigns/one-pass"), 404)
    problem(http.post("/reward", json={"decision_id": decision["decision_id"], "reward": 1}), 404)
    for command in ("show", "pause", "delete"):
        missing = prudent(
            "campaigns", command, "one-pass", *place, *(["--confirm", "one-pass"] * (command == "delete"))
        )
        assert (missing.exit_code, "no such campaign" in missing.stderr) == (1, True)


def test_a_campaign_is_created_from_a_file(place: list[str], http: httpx.Client, tmp_path: Path) -> None:
    """A first campaign would need curl, and what is wrong with it would be a list of names of fields."""
    file = tmp_path / "campaign.json"
    wanted = shared()
    file.write_text(json.dumps(wanted))
    created = prudent("campaigns", "create", str(file), "--json", *place)
    assert created.exit_code == 0, created.stderr
    assert json.loads(created.stdout) == ok(http.get(f"/campaigns/{wanted['campaign_id']}"))
    again = prudent("campaigns", "create", "-", *place, answer=json.dumps(wanted))
    assert (again.exit_code, wanted["campaign_id"] in again.stdout) == (0, True)
    bad = {
        "already exists with a different configuration": wanted | {"risk": {"measure": "expectile", "level": 0.1}},
        "model.dimension: must be at most 512, not 513": wanted | {"model": {"type": "shared", "dimension": 513}},
        "algorithm.name: linucb learns only the mean": wanted
        | {"risk": {"measure": "expectile", "level": 0.1}, "algorithm": {"name": "linucb"}, "campaign_id": "never"},
    }
    for message, changed in bad.items():
        file.write_text(json.dumps(changed))
        refused = prudent("campaigns", "create", str(file), *place)
        assert (refused.exit_code, message in refused.stderr) == (1, True), refused.stderr
    file.write_text(json.dumps(wanted)[:-1] + ', "seed": 1, "seed": 2}')
    refused = prudent("campaigns", "create", str(file), *place)
    assert (refused.exit_code, "seed" in refused.stderr, "twice" in refused.stderr) == (1, True, True)
    file.write_text("no JSON")
    assert "JSON" in prudent("campaigns", "create", str(file), *place).stderr
    assert prudent("campaigns", "create", str(tmp_path / "none"), *place).exit_code == 2
    assert (
        prudent("campaigns", "delete", wanted["campaign_id"], "--confirm", wanted["campaign_id"], *place).exit_code == 0
    )


def test_a_campaign_is_moved_by_commands_while_a_server_runs(
    place: list[str], http: httpx.Client, elsewhere: Server, tmp_path: Path
) -> None:
    """What is too large for a request could not be moved without stopping the service."""
    make(http, "ridge")
    play(http, "ridge", range(300))
    file = tmp_path / "ridge.ndjson"
    done = prudent("export", "ridge", "--output", str(file), *place)
    assert done.exit_code == 0, done.stderr
    assert sorted(one.name for one in tmp_path.glob("ridge*")) == [file.name]
    taken = prudent("import", str(file), *place)
    assert (taken.exit_code, "already" in taken.stderr) == (1, True)
    done = prudent(
        "import",
        str(file),
        *(["--url", elsewhere.url] if "--url" in place else ["--database-url", elsewhere.database_url]),
    )
    assert (done.exit_code, "imported ridge" in done.stdout) == (0, True), done.stderr
    with httpx.Client(base_url=elsewhere.url, timeout=30, trust_env=False) as other:
        assert_same(http, other, "ridge")
        assert other.delete("/campaigns/ridge?confirm=ridge").status_code == 204
    # what was interrupted can be told from what is complete, and leaves nothing
    file.write_bytes(file.read_bytes()[:-200])
    assert http.delete("/campaigns/ridge?confirm=ridge").status_code == 204
    broken = prudent("import", str(file), *place)
    assert (broken.exit_code, "line" in broken.stderr) == (1, True)
    assert ok(http.get("/campaigns"))["items"] == []
    missing = prudent("export", "ridge", "--output", str(tmp_path / "none"), *place)
    assert (missing.exit_code, "no such campaign" in missing.stderr) == (1, True)
    assert not list(tmp_path.glob("none*"))


def test_the_commands_of_the_page_work(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator copies them in the middle of the night."""
    server, others = make_server(sqlite_database), [f"sqlite:///{tmp_path}/{name}.db" for name in ("new", "piped")]
    migrate_empty(others[1])
    with httpx.Client(base_url=server.url, timeout=30, trust_env=False) as http:
        create(http, shared(campaign_id="dose-advice"))
        for n in range(5):
            reward(http, select(http, "dose-advice")["decision_id"], n)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRUDENT_DATABASE_URL", sqlite_database)
    ran = []
    for line in printed("Moving a campaign"):
        if "gzip" in line or "gunzip" in line:
            url = others[1] if "import" in line else sqlite_database
            environment = {"PRUDENT_DATABASE_URL": url, "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin"}
            command = ["bash", "-euo", "pipefail", "-c", line]
            done = subprocess.run(command, env=environment, check=False, timeout=60, capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
        else:
            result = prudent(*shlex.split(line.replace("$NEW_DATABASE_URL", others[0]))[1:])
            assert result.exit_code == 0, f"{line}: {result.stderr}"
        ran.append(line.split()[1] if line.startswith("prudent") else line.split()[0])
    assert ran == ["export", "migrate", "import", "verify", "campaigns", "export", "gunzip"]
    for url in others:
        assert "ok" in prudent("verify", "--database-url", url).stdout
    commands = printed("Campaigns")
    assert [line.split()[2] for line in commands] == [
        "create",
        "list",
        "show",
        "pause",
        "activate",
        "archive",
        "delete",
    ]
    (tmp_path / "campaign.json").write_text(json.dumps(shared()))
    for line in commands:
        result = prudent(*line.split()[1:], answer="dose-advice\n" if "delete" in line else None)
        assert result.exit_code == 0, f"{line}: {result.stderr}"


def printed(heading: str) -> list[str]:
    """The commands under this heading of the operations page."""
    page = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
    section = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^ *(prudent .*)$", section, re.MULTILINE) + re.findall(r"`([^`]+\| [^`]+)`", section)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("export", "x", "--database-url", "sqlite:///nowhere.db"), "no database at"),
        (("export", "x", "--database-url", "mysql://x/y"), "not supported"),
        (("export", "x", "--url", "http://127.0.0.1:1"), "does not answer"),
        (("export", "x", "--url", "http://127.0.0.1:1", "--database-url", "sqlite:///x"), "not both"),
        (("export", "a/b", "--url", "http://127.0.0.1:1"), "is not a valid id"),
        (("import", "/dev/null", "--database-url", "sqlite:///nowhere.db"), "no database at"),
        (("keys", "list", "--database-url", "sqlite:///nowhere.db"), "no database at"),
        (("keys", "create", "me", "--role", "writer", "--database-url", "sqlite:///nowhere.db"), "no database at"),
        (("verify", "--database-url", "sqlite:///nowhere.db"), "no database at"),
        (("import", "nowhere.ndjson", "--database-url", "sqlite:///x.db"), "cannot read"),
        (("campaigns", "list", "--url", "http://127.0.0.1:1"), "does not answer"),
        (("observations", "x.csv", "--campaign", "x", "--url", "localhost"), "http:// or https://"),
        (("observations", "x.csv", "--campaign", "x", "--api-key", "a b"), "printable ASCII"),
        (("campaigns", "list", "--url", "http://127.0.0.1:1", "--api-key", "schlüssel"), "printable ASCII"),
        (("verify", "--url", "http://[::1"), "cannot compare with the server"),
        (("verify", "--url", "http://127.0.0.1:1", "--api-key", "schlüssel"), "printable ASCII"),
        (("campaigns", "show", "..", "--url", "http://127.0.0.1:1"), "is not a valid id"),
    ],
)
def test_a_command_that_cannot_work_says_why(
    arguments: tuple[str, ...], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A traceback, or an empty database where somebody mistyped a name."""
    monkeypatch.chdir(tmp_path)
    done = prudent(*arguments)
    assert (done.exit_code, reason in done.stderr) == (1, True), done.stderr
    assert not list(tmp_path.iterdir())


def test_a_web_page_is_no_list_of_campaigns(running: Server) -> None:
    """A traceback, where the address is that of a page, or a proxy asks for a password."""
    done = prudent("campaigns", "list", "--url", f"{running.url}/?page=1")
    assert done.exit_code == 1
    assert "not a reply of Prudent; check --url" in done.stderr


def test_what_others_wrote_does_not_command_the_terminal(place: list[str], http: httpx.Client) -> None:
    """A campaign from elsewhere could clear the screen of whoever looks at it, or fill in what is typed next."""
    name = create(http, shared(description="one\x1b[2J\x1b]0;two\x07\x9b3three"))
    shown = prudent("campaigns", "show", name, *place)
    assert shown.exit_code == 0
    assert re.search("one.*two.*three", shown.output)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", shown.output)


def test_help_says_what_may_run_meanwhile() -> None:
    """An operator would stop the service, or break it, because the help does not say what is safe."""
    for command in ("export", "import", "campaigns"):
        shown = " ".join(prudent(command, "--help").stdout.replace("│", " ").split())
        assert "ervers may be running" in shown
