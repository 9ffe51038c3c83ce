"""What operators are given: the operations page, the image, the compose file and the proxy fit the program."""

import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from docs.measurements import ties
from prudent.environment import API_KEY_VARIABLE, PREFIX
from prudent.observability.metrics import Metrics
from prudent.settings import IN_FILES, InvalidSettingError, Limits, Settings, read_settings
from prudent_simulator.__main__ import app as simulator
from tests.commands import prudent
from tests.conftest import MakeServer
from tests.servers import ROOT, clean_environment, free_port

OPERATIONS = (ROOT / "docs/operations.md").read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
PROXY = (ROOT / "deploy/haproxy.cfg").read_text(encoding="utf-8")
RUN_SECONDS_MAX = 60


def defaults() -> dict[str, str]:
    """Every setting's variable and default, as the operations page writes them."""
    settings = Settings()
    found = settings.model_dump(exclude={"limits"}) | settings.limits.model_dump()
    words = {False: "off", True: "on", "": "none", (): "none"}
    return {
        PREFIX + name.upper(): words[value] if isinstance(value, bool | str | tuple) and value in words else str(value)
        for name, value in found.items()
    }


def test_the_page_lists_every_setting_with_its_default() -> None:
    """An operator looks there, and not into the code."""
    rows = re.findall(r"^\| `(PRUDENT_\w+)` \| `?([^|`]+)`? \| (.+) \|$", OPERATIONS, re.MULTILINE)
    assert {name: default.strip() for name, default, _ in rows} == defaults()
    assert all(len(meaning) > 10 for _, _, meaning in rows)


def test_every_listed_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable that is listed and ignored would be worse than none."""
    for name, default in defaults().items():
        words = {"off": "1", "on": "0", "info": "debug"}
        value = "7" if default.isdecimal() else words.get(default, "elsewhere" + "." * 32)
        if name == "PRUDENT_FLAG_ORIGINS":
            value = "https://elsewhere.example"
        usual = Settings()
        with monkeypatch.context() as patch:
            patch.setenv(name, value)
            assert read_settings() != usual, name


@pytest.mark.parametrize("name", IN_FILES)
def test_a_secret_may_stand_in_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is seen by whoever can look at a container; a file that is not there must not open the service."""
    variable, path = PREFIX + name.upper(), tmp_path / "secret"
    assert f"`{variable}_FILE`" in OPERATIONS
    monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(f"{variable}_FILE", str(path))
    for content in (None, b"", b" \n", b"\xff\xfe"):
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(InvalidSettingError, match=f"{variable}_FILE names {path}, which"):
            read_settings()
    path.write_text("s" * 40 + "\n", encoding="utf-8")
    assert getattr(read_settings(), name) == "s" * 40
    assert getattr(read_settings(**{name: "g" * 40}), name) == "g" * 40
    monkeypatch.setenv(variable, "v" * 40)
    assert getattr(read_settings(), name) == "v" * 40


def test_a_weak_key_in_a_file_is_refused_unseen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is as weak as one in a variable."""
    path = tmp_path / "key"
    path.write_text("hunter2", encoding="utf-8")
    monkeypatch.setenv("PRUDENT_ADMIN_KEY_FILE", str(path))
    with pytest.raises(InvalidSettingError, match="PRUDENT_ADMIN_KEY must have at least") as refused:
        read_settings()
    assert "hunter2" not in str(refused.value)


def test_the_page_lists_every_metric() -> None:
    """Alarms are written from that table."""
    rendered = Metrics().render(0, lag_seconds=0).decode()
    exposed = set(re.findall(r"^# TYPE (prudent_\w+?)(?<!_created) ", rendered, re.MULTILINE))
    assert set(re.findall(r"^\| `(prudent_[a-z_]+)` \|", OPERATIONS, re.MULTILINE)) == exposed


def test_the_printed_backup_works_beside_a_running_service(
    make_server: MakeServer, sqlite_database: str, tmp_path: Path
) -> None:
    """A backup command that was never run is not one."""
    make_server(sqlite_database, arguments=["--demo"])
    (command,) = re.findall(r"^(python3 -c .*) data/prudent\.db backup\.db$", OPERATIONS, re.MULTILINE)
    source, copy = sqlite_database.removeprefix("sqlite:///"), tmp_path / "backup.db"
    script = f"{command.replace('python3', sys.executable)} {source} {copy}"
    subprocess.run(["bash", "-c", script], check=True, timeout=RUN_SECONDS_MAX)  # noqa: S607
    done = prudent("verify", "--database-url", f"sqlite:///{copy}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 campaigns, 0 with faults" in done.stdout


def test_links_between_pages_lead_somewhere() -> None:
    """A dead link is found by the reader who needed it."""
    for page in (*ROOT.glob("docs/**/*.md"), ROOT / "CHANGELOG.md"):
        for link in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page}: {link}"


def test_the_list_of_decisions_is_complete() -> None:
    """A record that is not listed is not read; no number is given twice. Some are taken by records being written."""
    listed = re.findall(r"\((\d{4}-[a-z0-9-]+\.md)\)", (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8"))
    assert listed == sorted(path.name for path in (ROOT / "docs/decisions").glob("0*.md"))
    assert len({name[:4] for name in listed}) == len(listed)
    for name in listed:
        record = (ROOT / "docs/decisions" / name).read_text(encoding="utf-8")
        number, superseded = int(name[:4]), r"(?:superseded|replaced)(?: in part)? by \[\d+\]\(\d{4}-[a-z0-9-]+\.md\)"
        assert re.match(rf"# {number}\. .+\n\nDate: \d{{4}}-\d\d-\d\d\. Status: (?:accepted|{superseded})", record), (
            name
        )


def test_the_figures_about_ties_are_what_the_program_prints(capsys: pytest.CaptureFixture[str]) -> None:
    """The decision rests on this table."""
    ties.main()
    measured = re.findall(r"^(\w+) +(\S+) +([\d.]+)% +(.+)$", capsys.readouterr().out, re.MULTILINE)
    page = (ROOT / "docs/decisions/0006-relative-ties.md").read_text(encoding="utf-8")
    printed = re.findall(r"^\| (\w+) \| ([\d.e-]+) \| (\d+)% \| (.+) \|$", page, re.MULTILINE)

    def plain(rows: list[tuple[str, ...]]) -> list[tuple[str, float, float, list[str]]]:
        return [(rule, float(unit), float(tied), re.findall(r"[\d.]+%", shares)) for rule, unit, tied, shares in rows]

    assert len(printed) == 4
    assert plain(printed) == plain(measured)


def test_the_image_has_a_pinned_base_and_no_index() -> None:
    """A moving tag or a private index would build something else elsewhere."""
    stages = re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE)
    assert len(stages) == DOCKERFILE.count("\nFROM ")
    (base,) = {origin for origin, _ in stages} - {name for _, name in stages}
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base)
    assert stages[-1][1] == "service"  # what is built where no target is named
    assert not re.search(r"index-url|find-links|://(?!127\.0\.0\.1)(?!/)", DOCKERFILE.replace("sqlite:////", ""))
    assert DOCKERFILE.count("--require-hashes") == DOCKERFILE.count("--requirement ") == 3


def test_the_image_runs_as_somebody_else_than_root() -> None:
    """Numeric, so that an orchestrator can check it."""
    (user,) = re.findall(r"^USER (\d+):\d+$", DOCKERFILE, re.MULTILINE)
    assert int(user) > 0


def test_the_image_is_given_what_it_copies() -> None:
    """.dockerignore lets through what the Dockerfile copies, and nothing else."""
    copies = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    copied = {name for line in copies for name in line.split()}
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert "*" in ignored
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


def test_the_health_check_of_the_image_tells_up_from_down(make_server: MakeServer, sqlite_database: str) -> None:
    """One that always passes, or never, is worse than none."""
    (program,) = re.findall(r'CMD \["python", "-c", "(.+)"\]$', DOCKERFILE, re.MULTILINE)
    server = make_server(sqlite_database)

    def check(port: int) -> int:
        environment = clean_environment({"PRUDENT_PORT": str(port), "http_proxy": "http://127.0.0.1:9"})
        command = [sys.executable, "-c", program]
        return subprocess.run(
            command, env=environment, capture_output=True, timeout=RUN_SECONDS_MAX, check=False
        ).returncode

    assert check(server.port) == 0
    assert check(free_port()) == 1


def test_image_and_compose_set_variables_that_exist() -> None:
    """A misspelt setting is ignored in silence."""
    of_image = set(re.findall(r"\b(PRUDENT_[A-Z_]+)=", DOCKERFILE))
    of_services = {name for one in SERVICES.values() for name in one.get("environment", {})}
    of_services = {name for name in of_services if name.startswith(PREFIX)}
    of_files = {f"{name}_FILE" for name in (*(PREFIX + name.upper() for name in IN_FILES), API_KEY_VARIABLE)}
    assert of_image | of_services <= defaults().keys() | of_files
    assert of_image >= {"PRUDENT_HOST", "PRUDENT_DATABASE_URL"}
    assert of_services


def test_compose_names_its_images_and_volumes() -> None:
    """Without a tag the newest image is taken; without a named volume the data goes with the container."""
    for name, one in SERVICES.items():
        _, _, tag = one["image"].partition(":")
        assert tag, name
        assert "latest" not in tag, name
        if tag.startswith("0."):
            assert tag == version("prudent"), name
        for volume in one.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in COMPOSE["volumes"], f"{name}: {volume}"
    assert any(volume.startswith("postgres-data:") for volume in SERVICES["postgres"]["volumes"])


def test_compose_starts_in_order() -> None:
    """Database, one migration, workers, proxy."""
    assert SERVICES["postgres"]["healthcheck"]["test"]
    assert SERVICES["migrate"]["command"] == ["migrate"]
    assert SERVICES["migrate"]["restart"] == "no"
    assert SERVICES["postgres"]["depends_on"] == {"secrets": {"condition": "service_completed_successfully"}}
    assert SERVICES["migrate"]["depends_on"] == {"postgres": {"condition": "service_healthy"}}
    assert SERVICES["worker"]["depends_on"]["migrate"] == {"condition": "service_completed_successfully"}
    assert SERVICES["worker"]["deploy"]["replicas"] == 2
    assert SERVICES["proxy"]["depends_on"] == {"worker": {"condition": "service_healthy"}}


def test_the_proxy_leads_to_the_workers() -> None:
    """Three files name the same service and ports."""
    (exposed,) = re.findall(r"^EXPOSE (\d+)$", DOCKERFILE, re.MULTILINE)
    (name, port) = re.findall(r"server-template \S+ \d+ ([a-z0-9-]+):(\d+) ", PROXY)[0]
    assert name in SERVICES
    assert port == exposed
    assert f"PRUDENT_PORT={exposed}" in DOCKERFILE
    (listens,) = re.findall(r"bind :(\d+)$", PROXY, re.MULTILINE)
    assert SERVICES["proxy"]["ports"][0].endswith(f":{listens}")
    assert f"--url=http://proxy:{listens}" in SERVICES["simulator"]["command"]
    assert any(volume.startswith("./deploy/haproxy.cfg:") for volume in SERVICES["proxy"]["volumes"])


def test_the_proxy_waits_longer_than_the_service() -> None:
    """The service says what it knows of a request that takes long; the proxy knows nothing."""
    (seconds,) = re.findall(r"timeout server (\d+)s$", PROXY, re.MULTILINE)
    assert int(seconds) > Limits().answer_seconds_max


def test_compose_calls_the_simulator_as_it_can_be_called() -> None:
    """The one-shot run leaves its figure in ./figures."""
    service = SERVICES["simulator"]
    assert service["profiles"] == ["simulator"]
    assert service["build"]["target"] == "simulator"
    assert re.search(r'AS simulator\n(?:[^F].*\n)*ENTRYPOINT \["prudent-simulator"\]\n', DOCKERFILE)
    assert "./figures:/figures" in service["volumes"]
    command = service["command"]
    assert "--output=/figures" in command
    known = {
        option
        for parameter in typer.main.get_command(simulator).commands[command[0]].params  # type: ignore[attr-defined]
        for option in parameter.opts
    }
    assert {argument.partition("=")[0] for argument in command[1:]} <= known
