"""The compose files need no variable, open no port to others, and make their secrets themselves, once."""

import os
import re
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from tests.machine import missing
from tests.servers import ROOT, Postgres, clean_environment

FILES = ("docker-compose.yml", "docker-compose.demo.yml")
SCRIPT = ROOT / "deploy/make-secrets.sh"
SECRETS = {"postgres-password", "admin-key", "grafana-password", "pgpass"}
RUN_SECONDS_MAX = 60
PASSWORD = r"a:b\c%d 'e$f"  # noqa: S105  # of tests
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?:(:?[-?+])([^}]*))?\}|(\w+))")


class MissingVariableError(Exception):
    """A compose file asks for a variable."""


def interpolated(value: Any, variables: dict[str, str]) -> Any:
    """A part of a compose file with its variables replaced, by the rules of the Compose specification."""
    if isinstance(value, dict):
        return {name: interpolated(one, variables) for name, one in value.items()}
    if isinstance(value, list):
        return [interpolated(one, variables) for one in value]
    if not isinstance(value, str):
        return value

    def replaced(found: re.Match[str]) -> str:
        if found.group() == "$$":
            return "$"
        name, rule, text = found[1] or found[4], found[2] or "", found[3] or ""
        given = variables.get(name)
        present = given is not None and (given != "" or not rule.startswith(":"))
        if rule.endswith("+"):
            return text if present else ""
        if present:
            return given or ""
        if rule.endswith("-"):
            return text
        raise MissingVariableError(name)  # with ? or without a rule: nobody should have to know it

    return VARIABLE.sub(replaced, value)


def parsed(*names: str, **variables: str) -> dict[str, Any]:
    """What compose files say together, for these variables."""
    whole: dict[str, Any] = {"services": {}, "volumes": {}}
    for name in names:
        content = interpolated(yaml.safe_load((ROOT / name).read_text(encoding="utf-8")), variables)
        for part, known in whole.items():
            known.update(content[part])
    return whole


def test_the_rules_of_variables() -> None:
    """If they were wrong, a file that needs a variable would pass."""
    for text, variables, expected in (
        ("${A:-b}", {}, "b"),
        ("${A:-b}", {"A": ""}, "b"),
        ("${A-b}", {"A": ""}, ""),
        ("${A:-b}", {"A": "c"}, "c"),
        ("$A", {"A": "c"}, "c"),
        ("${A:?why}", {"A": "c"}, "c"),
        ("$${A}", {}, "${A}"),
        ("${A:+b}", {"A": "c"}, "b"),
    ):
        assert interpolated([{"x": text}], variables) == [{"x": expected}], text
    for text in ("${A:?why}", "${A?why}", "${A}", "$A"):
        with pytest.raises(MissingVariableError):
            interpolated(text, {})


@pytest.mark.parametrize("names", [FILES[:1], FILES])
def test_no_variable_is_needed_and_no_port_is_open_to_others(names: tuple[str, ...]) -> None:
    """A newcomer types `docker compose up`; the machine may be in a café."""
    whole = parsed(*names)
    published = [port for one in whole["services"].values() for port in one.get("ports", [])]
    assert len(published) == {1: 1, 2: 3}[len(names)]
    for port in published:
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), port
    assert parsed(*names, HTTP_PORT="9")["services"]["proxy"]["ports"] == ["127.0.0.1:9:8080"]


def test_the_files_know_no_secret() -> None:
    """A default password is known to everybody. All secrets are files in a volume, or variables that may be given."""
    for name, one in parsed(*FILES)["services"].items():
        for variable, value in (one.get("environment") or {}).items():
            if re.search("KEY|PASS|SECRET", variable):
                is_file = re.search("FILE$", variable) and value.removeprefix("/run/prudent/") in SECRETS
                assert is_file or (name, value) == ("secrets", ""), f"{name}: {variable}"
                assert is_file is None or any(volume.startswith("secrets:/run/prudent") for volume in one["volumes"])
    given = parsed(*FILES, PRUDENT_ADMIN_KEY="k" * 32, POSTGRES_PASSWORD="p", GRAFANA_PASSWORD="g")  # noqa: S106
    assert set(given["services"]["secrets"]["environment"].values()) == {"k" * 32, "p", "g"}


def test_whoever_reads_a_secret_starts_after_it_is_made() -> None:
    """It would start with none, or not at all."""
    services = parsed(*FILES)["services"]

    def before(name: str) -> set[str]:
        direct = set(services[name].get("depends_on", {}))
        return direct.union(*(before(one) for one in direct))

    readers = {name for name, one in services.items() if "secrets:/run/prudent:ro" in one.get("volumes", [])}
    assert readers >= {"postgres", "migrate", "worker", "simulator", "traffic", "prometheus", "grafana"}
    for name in readers:
        assert "secrets" in before(name), name
    assert services["postgres"]["depends_on"] == {"secrets": {"condition": "service_completed_successfully"}}


def is_there(command: list[str]) -> bool:
    """Whether a command works: docker may come without its plugin."""
    if shutil.which(command[0]) is None:
        return False
    done = subprocess.run([*command, "version"], capture_output=True, timeout=RUN_SECONDS_MAX, check=False)
    return done.returncode == 0


@pytest.mark.parametrize("names", [FILES[:1], FILES])
def test_a_compose_parser_takes_the_files(names: tuple[str, ...]) -> None:
    """Our own rules above may be wrong. `config` needs no engine."""
    commands = [command for command in (["docker-compose"], ["docker", "compose"]) if is_there(command)]
    if not commands:
        missing("neither docker-compose nor docker's compose plugin is installed")
    files = [option for name in names for option in ("--file", ROOT / name)]
    done = subprocess.run(
        [*commands[0], *files, "config", "--quiet"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        timeout=RUN_SECONDS_MAX,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def made(folder: Path, **variables: str) -> tuple[dict[str, str], str]:
    """Run the init step on a folder; the secrets, and what it printed. Only root may give files away."""
    owners = {} if os.geteuid() == 0 else {"KEY_READERS": "", "GRAFANA": "", "PRUDENT_USER": ""}
    done = subprocess.run(
        ["sh", SCRIPT, folder],  # noqa: S607
        env={"PATH": os.environ["PATH"], **owners, **variables},
        capture_output=True,
        timeout=RUN_SECONDS_MAX,
        text=True,
        check=True,
    )
    return {path.name: path.read_text(encoding="utf-8") for path in folder.iterdir()}, done.stdout


def test_secrets_are_made_once(tmp_path: Path) -> None:
    """A second start would lock itself out of its own database; two installations would share a password."""
    first, printed = made(tmp_path)
    assert first.keys() == SECRETS
    assert made(tmp_path)[0] == first
    keys = [first[name] for name in ("postgres-password", "admin-key", "grafana-password")]
    assert all(re.fullmatch(r"[0-9a-f]{64}", key) for key in keys)
    (tmp_path / "other").mkdir()
    assert len({*keys, *made(tmp_path / "other")[0].values()}) == 3 + 4
    assert not any(key in printed for key in keys)  # logs are kept, and sent elsewhere
    (shown,) = re.findall(r"^  docker compose exec worker cat /run/prudent/(\S+)$", printed, re.MULTILINE)
    assert shown in SECRETS


def test_secrets_can_be_read_by_those_that_need_them_only(tmp_path: Path) -> None:
    """libpq takes no password file that others can read."""
    made(tmp_path)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"postgres-password": 0o400, "admin-key": 0o440, "grafana-password": 0o440, "pgpass": 0o400}
    if os.geteuid() == 0:
        owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()}
        services = parsed(*FILES)["services"]
        readers, grafana = (int(services[name]["group_add"][0]) for name in ("prometheus", "grafana"))
        assert services["simulator"]["group_add"] == [str(readers)]
        dockerfile = (ROOT / "Dockerfile").read_text(encoding="utf-8")
        assert f"USER {readers}:{readers}\n" in dockerfile
        assert owners["admin-key"] == (0, readers)
        assert owners["grafana-password"] == (0, grafana)
        assert owners["pgpass"][0] == readers
        assert owners["postgres-password"][0] == 0


def test_variables_replace_what_was_made(tmp_path: Path) -> None:
    """An operator has a key already; passwords have all kinds of characters."""
    before, _ = made(tmp_path)
    after, _ = made(tmp_path, PRUDENT_ADMIN_KEY="k" * 32, POSTGRES_PASSWORD=PASSWORD)
    assert after["admin-key"] == "k" * 32
    assert after["postgres-password"] == PASSWORD
    assert after["grafana-password"] == before["grafana-password"]
    assert made(tmp_path)[0] == after


def test_the_password_file_opens_postgres(tmp_path: Path, postgres: Postgres) -> None:
    """The service is given no password in its URL: libpq has to find it."""
    made(tmp_path, POSTGRES_PASSWORD=PASSWORD, PRUDENT_USER="")
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        literal = psycopg.sql.Literal(PASSWORD)
        connection.execute(psycopg.sql.SQL("CREATE ROLE prudent LOGIN PASSWORD {}").format(literal))
    try:
        url = f"host=127.0.0.1 port={postgres.port} user=prudent dbname=postgres"
        with psycopg.connect(url, passfile=str(tmp_path / "pgpass")) as connection:
            assert connection.execute("SELECT current_user").fetchone() == ("prudent",)
        assert "PGPASSFILE" not in clean_environment()
    finally:
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute("DROP ROLE prudent")
