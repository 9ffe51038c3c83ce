"""What is shipped: the wheels hold all their parts and nothing else, and work outside the clone without any extra."""

import importlib.metadata
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.servers import ROOT, Server, clean_environment

pytestmark = pytest.mark.slow

RUN_SECONDS_MAX = 120
OWN = {"prudent", "prudent-client"}
Wheels = dict[str, Path]


def attempt(*command: str | Path, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run a program outside the clone, with none of the settings of whoever runs the tests."""
    return subprocess.run(
        command,
        cwd=directory,
        env=clean_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=RUN_SECONDS_MAX,
        text=True,
        check=False,
    )


def run(*command: str | Path, directory: Path) -> str:
    """The output of a program that must succeed."""
    done = attempt(*command, directory=directory)
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Wheels:
    """Both wheels by distribution, built from this clone with the locked build backend."""
    directory = tmp_path_factory.mktemp("wheels")
    build = (sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory)
    for source in (ROOT, ROOT / "client"):
        run(*build, source, directory=directory)
    return {path.name.partition("-")[0].replace("_", "-"): path for path in directory.glob("*.whl")}


def needed(name: str, seen: set[str]) -> set[str]:
    """The distributions that one needs without any extra, itself included."""
    if name not in seen:
        seen.add(name)
        for text in importlib.metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                needed(canonicalize_name(requirement.name), seen)
    return seen


def link(name: str, packages: Path) -> None:
    """Make an installed distribution's packages visible in another environment."""
    found = importlib.metadata.distribution(name)
    for top in {file.parts[0] for file in found.files or []} - {"..", "__pycache__"}:
        if not (packages / top).exists():
            (packages / top).symlink_to(str(found.locate_file(top)))


@pytest.fixture(scope="module")
def installed(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of an environment with the wheels, what they need, and no extra."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    places = {"base": str(home), "platbase": str(home)}
    scripts = Path(sysconfig.get_path("scripts", "venv", vars=places))
    packages = Path(sysconfig.get_path("purelib", "venv", vars=places))
    for name in needed("prudent", set()) - OWN:
        link(name, packages)
    pip = (sys.executable, "-m", "pip", "--python", scripts / "python")
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", *wheels.values(), directory=home)
    return scripts


@pytest.fixture
def crowded(tmp_path: Path) -> Path:
    """A folder of an application whose own packages have the names of folders of our clone."""
    for name in ("service", "simulator", "migrations", "client", "tests", "docs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('the application's own')\n", encoding="utf-8")
    return tmp_path


def source_files(top: str, folder: str) -> set[str]:
    """Paths of the files in a folder of the clone, relative to the one above it."""
    files = (path for path in (ROOT / top / folder).rglob("*") if path.is_file())
    return {path.relative_to(ROOT / top).as_posix() for path in files if "__pycache__" not in path.parts}


def guide_files() -> set[str]:
    """The pages and pictures that the running service shows, and the order of the pages; nothing that builds them."""
    own = {name for name in source_files(".", "docs") if not re.match(r"docs/(building|measurements)/", name)}
    return {f"prudent/guide/pages/{name.removeprefix('docs/')}" for name in own} | {"prudent/guide/pages/mkdocs.yml"}


def shipped(wheel: Path) -> set[str]:
    """The files of a wheel without its metadata."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def test_the_wheels_hold_every_file_of_the_packages_and_nothing_else(wheels: Wheels) -> None:
    """A missing template or migration fails at the user's, and a package named `service` breaks applications."""
    migrations = {f"prudent/{name}" for name in source_files(".", "migrations")}
    own = source_files("service", "prudent") | source_files("simulator", "prudent_simulator")
    own |= migrations | guide_files()
    assert shipped(wheels["prudent"]) == own
    assert shipped(wheels["prudent-client"]) == source_files("client", "prudent_client")
    assert {name.partition("/")[0] for name in own} == {"prudent", "prudent_simulator"}
    assert any(re.fullmatch(r"prudent/migrations/versions/[^/]+\.py", name) for name in own)
    assert {"prudent/py.typed", "prudent_simulator/py.typed", "prudent/migrations/env.py"} <= own
    assert "prudent_client/py.typed" in shipped(wheels["prudent-client"])


def test_the_wheels_say_what_they_are(wheels: Wheels) -> None:
    """The README tells people to type `prudent` and `prudent-simulator`; both wheels carry the licence."""
    for name, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as archive:
            information = {one.partition(".dist-info/")[2]: one for one in archive.namelist() if ".dist-info/" in one}
            assert {"METADATA", "licenses/LICENSE"} <= information.keys()
            metadata = archive.read(information["METADATA"]).decode()
            programs = ConfigParser()
            if "entry_points.txt" in information:
                programs.read_string(archive.read(information["entry_points.txt"]).decode())
        assert f"\nName: {name}\n" in metadata
        assert "\nLicense-Expression: MIT\n" in metadata
        expected = {"prudent": "prudent.__main__:main", "prudent-simulator": "prudent_simulator.__main__:main"}
        assert (dict(programs["console_scripts"]) if "console_scripts" in programs else {}) == (
            expected if name == "prudent" else {}
        )


def test_the_installed_packages_are_the_wheels_own(installed: Path, tmp_path: Path) -> None:
    """If the clone, or an extra's package, were found, the other tests of this file would show nothing."""
    modules = ("prudent", "prudent_simulator", "prudent_client")
    program = f"import {', '.join(modules)}; print({', '.join(f'{name}.__file__' for name in modules)})"
    places = run(installed / "python", "-c", program, directory=tmp_path).split()
    assert len(places) == 3
    for place in places:
        assert Path(place).is_relative_to(installed.parent), place
    extras = ("matplotlib", "yaml", "psycopg", "pyarrow")
    program = f"from importlib.util import find_spec; print([one for one in {extras} if find_spec(one)])"
    assert run(installed / "python", "-c", program, directory=tmp_path) == "[]\n"


@pytest.mark.parametrize("program", ["prudent", "prudent-simulator"])
def test_the_installed_programs_explain_themselves(installed: Path, crowded: Path, program: str) -> None:
    """The first thing that a newcomer types is `--help`."""
    assert "usage" in run(installed / program, "--help", directory=crowded).lower()
    module = ("-m", program.replace("-", "_"))
    assert "usage" in run(installed / "python", *module, "--help", directory=crowded).lower()


@pytest.mark.parametrize("command", [["prudent"], ["python", "-m", "prudent"]])
def test_the_installed_service_serves(installed: Path, crowded: Path, command: list[str]) -> None:
    """`prudent serve` on an empty folder: migrations and dashboard must be found without the clone."""
    program = [installed / command[0], *command[1:]]
    server = Server(f"sqlite:///{crowded}/prudent.db", crowded / "server.log", command=program, directory=crowded)
    server.start()
    try:
        guide = "/guide/mathematics", "/guide/pictures/bonus.svg", "/guide/search?q=backups"
        for path in ("/health/ready", "/", "/docs", "/openapi.json", "/metrics", *guide):
            reply = httpx.get(server.url + path, trust_env=False, follow_redirects=True)
            assert reply.status_code == httpx.codes.OK, path
        assert server.stop() == 0, server.log()
    finally:
        server.kill()


def test_the_installed_simulator_plays_without_any_extra(installed: Path, crowded: Path) -> None:
    """A missing figure must not cost a run of an hour, nor an application a package named `service`."""
    size = ("--replications", "2", "--rounds", "20", "--algorithm", "linucb-cr")
    command = ("run", "--experiment", "1", "--server", "sqlite", *size, "--output", "figures")
    shown = run(installed / "prudent-simulator", *command, directory=crowded)
    assert "No figure: drawing the figure needs matplotlib: pip install 'prudent[simulator]'" in shown
    assert [path.name for path in (crowded / "figures").iterdir()] == ["experiment-1.json"]
    (crowded / "campaign.json").write_text('{"risk": {"measure": "mean"}}', encoding="utf-8")
    (crowded / "log.csv").write_text("arm,reward,propensity\n" + "a,1,0.5\nb,2,0.5\n" * 30, encoding="utf-8")
    replay = ("replay", "log.csv", "--campaign", "campaign.json", "--server", "sqlite", "--resamples", "20")
    run(installed / "prudent-simulator", *replay, directory=crowded)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (
            "prudent-simulator run --environment dosing --server sqlite",
            "reading dosing needs yaml: pip install 'prudent[simulator]'",
        ),
        ("prudent-simulator risk log.parquet", "reading log.parquet needs pyarrow: pip install 'prudent[parquet]'"),
        (
            "prudent-simulator report .",
            "drawing the report's figures needs matplotlib: pip install 'prudent[simulator]'",
        ),
        (
            "prudent serve --database-url postgresql://prudent@127.0.0.1:1/none",
            "PostgreSQL needs psycopg: pip install 'prudent[postgres]'",
        ),
        ("prudent mcp", "serving agents needs mcp: pip install 'prudent[mcp]'"),
    ],
)
def test_a_missing_extra_is_named(installed: Path, tmp_path: Path, command: str, message: str) -> None:
    """A traceback of an import says neither what to install nor why."""
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    program, *arguments = command.split()
    done = attempt(installed / program, *arguments, directory=tmp_path)
    assert (done.returncode, message in done.stdout) == (1, True), done.stdout
    assert "Traceback" not in done.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
