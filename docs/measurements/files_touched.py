"""How many files one change or one request touches: `python -m docs.measurements.files_touched`.

Prints the source files that run while a server answers one select and one reward (whole requests: protocol, keys,
parsing, ledger, database, reply), the files that name a concrete risk measure or a shown column of decisions, and
the lines of each package. What one reader needs together should stand together; these counts say how far it does.

The server is the real one, on SQLite and in this process, with a campaign of the default algorithm and a shared
model. A few requests go first, so that nothing is counted which happens once. Twenty are then recorded, and a file
counts if it runs in at least two of them: fits differ from request to request, and the server's chores, about one per
second, run beside a request now and then.
"""

import http.client
import json
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

import prudent
from prudent.api.server.protocol import BoundedProtocol
from prudent.app import create_app
from prudent.settings import Settings
from prudent.store.engines import create_write_engine, parse_database_url
from prudent.store.schema import migrate

PACKAGE = Path(prudent.__file__).resolve().parent
MEASURES = re.compile(r"expectile|entropic|SquaredLoss|MeanRisk", re.IGNORECASE)
COLUMNS = ("propensity", "greedy_arm_id")
"""Two of the columns of decisions that users see; the first is one of observations, too."""
ADMIN_KEY = "k" * 40
WARM_UP_PAIRS, PAIRS, RUNS_MIN = 5, 20, 2
CAMPAIGN = {
    "campaign_id": "counted",
    "risk": {"measure": "expectile", "level": 0.2},
    "model": {"type": "shared", "dimension": 2},
}
ARMS = [{"arm_id": "a", "features": [1.0, 0.0]}, {"arm_id": "b", "features": [0.0, 1.0]}]


class Recorder:
    """Notes the source files whose functions are called, in every thread, while it is switched on."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> None:
        """A profile function, as `threading.setprofile` takes it."""
        if self.is_on and event == "call":
            self.files.add(frame.f_code.co_filename)

    def ours(self) -> set[str]:
        """The files of the package, relative to it."""
        return {str(Path(name).relative_to(PACKAGE)) for name in self.files if name.startswith(str(PACKAGE))}


@contextmanager
def running_server(folder: Path) -> Iterator[int]:
    """A server in a thread of this process; its port. Raises RuntimeError if it does not start."""
    url = f"sqlite:///{folder / 'counted.db'}"
    engine = create_write_engine(parse_database_url(url))
    migrate(engine)
    engine.dispose()
    app = create_app(Settings(database_url=url, admin_key=ADMIN_KEY, log_level="warning"))
    config = uvicorn.Config(app, port=0, http=BoundedProtocol, ws="none", log_level="warning", access_log=False)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            if not thread.is_alive():
                raise RuntimeError("the server did not start; its log says why")
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


def post(connection: http.client.HTTPConnection, path: str, body: object) -> Any:
    """The reply's body. Raises RuntimeError for any status but a success."""
    headers = {"Content-Type": "application/json", "X-API-Key": ADMIN_KEY}
    connection.request("POST", path, json.dumps(body), headers)
    reply = connection.getresponse()
    content = json.loads(reply.read())
    if reply.status not in {200, 201}:
        raise RuntimeError(f"{path} answered {reply.status}: {content}")
    return content


def files_of_requests() -> dict[str, list[str]]:
    """The files that run for a select and for its reward."""
    recorder = Recorder()
    threading.setprofile(recorder)  # of the threads that are started from now on
    runs: list[tuple[set[str], set[str]]] = []
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder)) as port:
        threading.setprofile(None)  # ends it
        connection = http.client.HTTPConnection("127.0.0.1", port)
        post(connection, "/campaigns", CAMPAIGN)
        for number in range(WARM_UP_PAIRS + PAIRS):
            recorder.files.clear()
            recorder.is_on = number >= WARM_UP_PAIRS
            decision = post(connection, "/select", {"campaign_id": "counted", "arms": ARMS})
            selects = recorder.ours()
            recorder.files.clear()
            post(connection, "/reward", {"decision_id": decision["decision_id"], "reward": float(number % 2)})
            rewards = recorder.ours()
            recorder.is_on = False
            if number >= WARM_UP_PAIRS:
                runs.append((selects, rewards))
        connection.close()
    return {"select": repeated([one for one, _ in runs]), "reward": repeated([one for _, one in runs])}


def repeated(runs: list[set[str]]) -> list[str]:
    """The files of at least RUNS_MIN of the runs, in order."""
    counted = Counter(name for files in runs for name in files)
    return sorted(name for name, count in counted.items() if count >= RUNS_MIN)


def files_naming(pattern: re.Pattern[str]) -> list[str]:
    """The source files of the package in which the pattern occurs, relative to it, in order."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return [str(path.relative_to(PACKAGE)) for path in paths if pattern.search(path.read_text(encoding="utf-8"))]


def lines_by_package() -> Counter[str]:
    """Lines of source in each subpackage; modules at the top are counted under their package's own name."""
    lines: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        lines[parts[0] if len(parts) > 1 else "(top)"] += len(path.read_text(encoding="utf-8").splitlines())
    return lines


def show(title: str, files: list[str]) -> None:
    """A count and the files that were counted."""
    sys.stdout.write(f"{title}: {len(files)}\n" + "".join(f"    {name}\n" for name in files))


def main() -> None:
    """Measure and print."""
    for name, files in files_of_requests().items():
        show(f"files that run in a {name}", files)
    show("files that name a concrete risk measure", files_naming(MEASURES))
    for column in COLUMNS:
        show(f"files that name the column {column}", files_naming(re.compile(rf"\b{column}\b")))
    sys.stdout.write("lines\n")
    for name, lines in sorted(lines_by_package().items()):
        sys.stdout.write(f"    {name:15s} {lines:6d}\n")


if __name__ == "__main__":
    main()
