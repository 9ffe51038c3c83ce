"""Applications with OpenFeature's own SDKs, and services whose flags they evaluate."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests import node
from tests.api.contract import multi_armed, ok
from tests.servers import ROOT, Server, clean_environment

HERE = Path(__file__).resolve().parent / "openfeature"
STICKY = {"sticky_seconds": 86_400}
VALUES: dict[str, list[Any]] = {
    "word": ["calm", "loud"],
    "layout": [{"columns": 2, "tags": ["a"]}, {"columns": 3, "tags": []}],
    "discount": [1, 2.5],
    "columns": [2, 3],
    "banner": [True, False],
}
"""The values of a flag of each kind."""


class Application:
    """A program in Node that evaluates flags until it is closed."""

    def __init__(self, folder: Path, *arguments: str) -> None:
        self._process = subprocess.Popen(
            ["node", "evaluate.js", *arguments],  # noqa: S607
            cwd=folder,
            env=clean_environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def evaluate(self, flag: str, fallback: Any, **context: Any) -> dict[str, Any]:
        """What the SDK says of a flag."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"flag": flag, "fallback": fallback, "context": context}) + "\n")
        self._process.stdin.flush()
        details: dict[str, Any] = json.loads(self._process.stdout.readline())
        return details

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate()


StartApplication = Callable[..., Application]


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the programs and their locked packages; without Node or a registry the test is skipped."""
    folder = tmp_path_factory.mktemp("openfeature")
    for path in HERE.glob("*.js*"):
        shutil.copy(path, folder)
    node.install(folder)
    node.run(["npm", "run", "--silent", "bundle"], folder)
    return folder


@pytest.fixture
def start_application(packages: Path) -> Iterator[StartApplication]:
    """Start an application in Node: `start_application(url, key)`."""
    started: list[Application] = []

    def start(*arguments: str) -> Application:
        started.append(Application(packages, *arguments))
        return started[-1]

    yield start
    for application in started:
        application.close()


class ShiftedServer(Server):
    """The service with a clock that is set between two starts."""

    def __init__(self, folder: Path) -> None:
        offset = folder / "offset"
        super().__init__(
            f"sqlite:///{folder}/prudent.db",
            folder / "server.log",
            command=(sys.executable, "-m", "tests.trust.shifted"),
            environment={"TRUST_OFFSET_FILE": str(offset)},
            directory=ROOT,
        )
        self._offset = offset
        self.set_clock(0)

    def set_clock(self, seconds: int) -> None:
        """So many seconds ahead, from the next start on."""
        self._offset.write_text(str(seconds), encoding="ascii")


def create_flag(url: str, kind: str, **changes: Any) -> str:
    """A campaign whose arms have the values of this kind; its id."""
    arms = [{"arm_id": name, "value": value} for name, value in zip("ab", VALUES[kind], strict=True)]
    request = multi_armed(arms=arms, assignment=STICKY) | changes
    campaign: str = ok(httpx.post(f"{url}/campaigns", json=request, trust_env=False), 201)["campaign_id"]
    return campaign
