"""What is shipped: the wheel has all its parts and works outside the clone, and the lock files can be trusted."""

import re
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from configparser import ConfigParser
from pathlib import Path

import httpx
import pytest

from tests.servers import ROOT, Server, clean_environment

RUN_SECONDS_MAX = 120
LOCKS = ("requirements.lock", "requirements-dev.lock", "requirements-build.lock")


def run(*command: str | Path, directory: Path) -> str:
    """Run a program outside the clone, with none of the settings of whoever runs the tests; returns its output."""
    done = subprocess.run(
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
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this clone with the locked build backend."""
    directory = tmp_path_factory.mktemp("wheel")
    run(
        *(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT),
        directory=directory,
    )
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a virtual environment that has the wheel, and the locked packages by reference."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home, with_pip=False, symlinks=True)
    places = {"base": str(home), "platbase": str(home)}
    scripts = Path(sysconfig.get_path("scripts", "venv", vars=places))
    packages = Path(sysconfig.get_path("purelib", "venv", vars=places))
    # A folder named in a path file is searched last, and its own path files are not read: what is installed here
    # comes first, and an editable installation over there is not seen.
    (packages / "locked.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    python = scripts / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, directory=home)
    return scripts


def source_files(top: str, folder: str) -> set[str]:
    """Paths of the files in a folder of the clone, relative to the one above it."""
    files = (path for path in (ROOT / top / folder).rglob("*") if path.is_file())
    return {path.relative_to(ROOT / top).as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_holds_every_file_of_the_packages(wheel: Path) -> None:
    """A template, a published result or a migration that is missing would fail at the user's, not here."""
    with zipfile.ZipFile(wheel) as archive:
        shipped = {name for name in archive.namelist() if ".dist-info/" not in name}
    migrations = {f"prudent/{name}" for name in source_files(".", "migrations")}
    assert shipped == source_files("service", "prudent") | source_files("simulator", "prudent_simulator") | migrations
    assert any(re.fullmatch(r"prudent/migrations/versions/[^/]+\.py", name) for name in shipped)
    assert "prudent/migrations/env.py" in shipped


def test_the_wheel_names_both_programs(wheel: Path) -> None:
    """The README tells people to type `prudent` and `prudent-simulator`."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        entry_points = ConfigParser()
        entry_points.read_string(archive.read(name).decode())
    assert dict(entry_points["console_scripts"]) == {
        "prudent": "prudent.__main__:main",
        "prudent-simulator": "prudent_simulator.__main__:main",
    }


def test_the_installed_packages_are_the_wheels_own(installed: Path, tmp_path: Path) -> None:
    """If the clone were imported instead, the other tests of this file would show nothing."""
    modules = ("prudent", "prudent_simulator", "prudent_client")
    program = f"import {', '.join(modules)}; print({', '.join(f'{name}.__file__' for name in modules)})"
    places = run(installed / "python", "-c", program, directory=tmp_path).split()
    assert len(places) == 3
    for place in places:
        assert Path(place).is_relative_to(installed.parent), place


def test_the_installed_service_serves(installed: Path, tmp_path: Path) -> None:
    """`prudent serve` on an empty folder: migrations and dashboard must be found without the clone."""
    server = Server(
        f"sqlite:///{tmp_path}/prudent.db",
        tmp_path / "server.log",
        command=[installed / "prudent"],
        directory=tmp_path,
    )
    server.start()
    try:
        for path in ("/health/ready", "/", "/docs", "/openapi.json", "/metrics"):
            reply = httpx.get(server.url + path, trust_env=False, follow_redirects=True)
            assert reply.status_code == httpx.codes.OK, path
        assert server.stop() == 0, server.log()
    finally:
        server.kill()


@pytest.mark.parametrize("program", ["prudent", "prudent-simulator"])
def test_the_installed_programs_explain_themselves(installed: Path, tmp_path: Path, program: str) -> None:
    """The first thing that a newcomer types is `--help`."""
    assert "usage" in run(installed / program, "--help", directory=tmp_path).lower()


def pinned(lock: str) -> dict[str, str]:
    """The versions that a lock file pins, by package name."""
    lines = (ROOT / lock).read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^([a-z0-9-]+)==(\S+)", "\n".join(lines), flags=re.MULTILINE))


def named(requirements: list[str]) -> set[str]:
    """The package names of requirements such as `psycopg[binary]>=3.2`."""
    names = (re.match(r"[A-Za-z0-9._-]+", requirement) for requirement in requirements)
    return {re.sub(r"[._]", "-", name.group().lower()) for name in names if name is not None}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_pinned_names_and_hashes_alone(lock: str) -> None:
    """An index address or a path of one machine would break, or redirect, everybody else's installation."""
    pin = r"[a-z0-9-]+==[0-9A-Za-z.+!]+( ; [^:/]+)? \\"
    digest = r" {4}--hash=sha256:[0-9a-f]{64}( \\)?"
    comment = r" *#[^/]*"  # no address and no path
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        assert re.fullmatch(f"{pin}|{digest}|{comment}", line), line


def test_the_locks_agree_with_the_project_and_each_other() -> None:
    """A dependency added without `make lock` would be missing on a fresh machine."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    runtime, dev, build = (pinned(lock) for lock in LOCKS)
    assert named(project["project"]["dependencies"]) <= runtime.keys()
    assert named(project["build-system"]["requires"]) <= build.keys()
    for group in project["dependency-groups"].values():
        assert named([name for name in group if isinstance(name, str)]) <= dev.keys()
    assert runtime.items() <= dev.items()
    assert build.items() <= dev.items()
