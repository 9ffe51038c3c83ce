"""Clients generated from /openapi.json: made without a warning, type-checked, and used for a select and a reward."""

import json
import shutil
import sys
from pathlib import Path

import httpx
import pytest

from tests.conftest import MakeServer
from tests.node import install, run
from tests.servers import ROOT

pytestmark = pytest.mark.slow

CONFIGURATION = "content_type_overrides: {application/x-ndjson: application/octet-stream}\n"
"""NDJSON is unknown to the generator: a file as any other."""
HERE = Path(__file__).resolve().parent / "generated"
TYPESCRIPT_FILES = ("package.json", "package-lock.json", "tsconfig.json", "story.ts")
MYPY = """[mypy]
strict = true
python_version = 3.11

[mypy-generated.client]
ignore_errors = true
"""
"""One file of the generator's is the same for every service, and passes `*args: object` on to httpx."""


@pytest.fixture
def url(make_server: MakeServer, sqlite_database: str, tmp_path: Path) -> str:
    """A server of our own, whose openapi.json lies in tmp_path."""
    server = make_server(sqlite_database)
    (tmp_path / "openapi.json").write_bytes(httpx.get(f"{server.url}/openapi.json", trust_env=False).content)
    return server.url


def test_python(url: str, tmp_path: Path) -> None:
    """W48. The generator would stop, warn, or leave out what it does not understand."""
    (tmp_path / "config.yaml").write_text(CONFIGURATION, encoding="utf-8")
    options = ["--path", "openapi.json", "--meta", "none", "--output-path", "generated", "--fail-on-warning"]
    options += ["--config", "config.yaml"]
    run(["openapi-python-client", "generate", *options], tmp_path)  # which formats its work with ruff
    shutil.copy(HERE / "python_story.py", tmp_path)
    (tmp_path / "mypy.ini").write_text(MYPY, encoding="utf-8")
    run([sys.executable, "-m", "mypy", "python_story.py"], tmp_path)
    told = json.loads(run([sys.executable, "python_story.py", url], tmp_path))
    assert told == {"level": 0.1, "arm": told["arm"], "reward": 1.25, "arms": 2, "title": "Not found"}
    assert told["arm"] in {"a", "b"}


def test_typescript(url: str, tmp_path: Path) -> None:
    """W48. The types would not compile, or promise what the service does not send."""
    for name in TYPESCRIPT_FILES:
        shutil.copy(HERE / "typescript" / name, tmp_path)
    install(tmp_path)
    run(["npm", "run", "--silent", "generate"], tmp_path)
    run(["npm", "run", "--silent", "check"], tmp_path)
    run(["npm", "run", "--silent", "build"], tmp_path)
    told = json.loads(run(["node", "built/story.js", url], tmp_path))
    assert told == {"level": 0.1, "arm": told["arm"], "reward": 1.25, "arms": 2, "title": "Not found"}
    assert told["arm"] in {"a", "b"}


def test_the_page_calls_the_generators_as_the_tests_do() -> None:
    """A command that is shown with fewer options than were tested warns, or makes fields mandatory."""
    shown = (ROOT / "docs/clients.md").read_text(encoding="utf-8")
    assert CONFIGURATION.strip() in shown
