"""The ledger's process as its parent sees it: started before those that speak HTTP, and stopped after them."""

import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock, Thread

import structlog

from prudent.environment import LEDGER_SOCKET_VARIABLE
from prudent.processes.ledger_process import run

logger = structlog.get_logger(__name__)

STOP_SECONDS_MAX = 10.0
"""To finish what is queued and write snapshots."""
SHORT_LIFE_SECONDS = 1.0
"""A process that ends sooner would end again: the next one waits as long."""
FOLDER_BYTES_MAX = 80
"""Of the folder for temporary files, so that the socket's path is one: systems allow a little over a hundred."""


class LedgerNotStartedError(RuntimeError):
    """The ledger's process has ended before it could be reached."""


class LedgerProcess:
    """Starts the process, and another one whenever it ends without having been asked to."""

    def __init__(self, path: Path, metrics_folder: Path) -> None:
        self._path, self._metrics_folder = path, metrics_folder
        self._lock, self._stopping = Lock(), False
        self._process, self._control = self._launch()
        self._watcher = Thread(target=self._watch, name="ledger-watcher", daemon=True)

    def _launch(self) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        control, theirs = context.Pipe()
        process = context.Process(target=run, args=(self._path, self._metrics_folder, theirs), name="ledger")
        process.start()
        theirs.close()
        return process, control

    def start(self) -> None:
        """Wait until the ledger can be reached. Raises LedgerNotStartedError."""
        try:
            self._control.recv()
        except EOFError:
            raise LedgerNotStartedError("the ledger's process has not started: its log says why") from None
        self._watcher.start()

    def stop(self) -> None:
        """Let it finish what is queued, write snapshots, and end."""
        with self._lock:
            self._stopping = True
        self._control.close()
        self._process.join(STOP_SECONDS_MAX)
        if self._process.is_alive():
            logger.error("the ledger's process does not stop: it is killed")
            self._process.kill()
            self._process.join()

    def _watch(self) -> None:
        while True:
            started = time.monotonic()
            wait([self._process.sentinel])
            with self._lock:
                if self._stopping:
                    return
                logger.error("the ledger's process has ended: it is started again", exit_code=self._process.exitcode)
                if time.monotonic() - started < SHORT_LIFE_SECONDS:
                    time.sleep(SHORT_LIFE_SECONDS)
                self._control.close()
                try:
                    self._process, self._control = self._launch()
                except OSError:  # no room for another process or file: the old one has ended, so it is tried again
                    logger.exception("the ledger's process cannot be started")


@contextmanager
def ledger_process(metrics_folder: Path) -> Iterator[None]:
    """A process that has the ledger; those that speak HTTP find its socket by the environment.

    Raises LedgerNotStartedError.
    """
    usual = tempfile.gettempdir()
    place = usual if len(os.fsencode(usual)) <= FOLDER_BYTES_MAX else "/tmp"  # noqa: S108  # the folder in it is ours
    with tempfile.TemporaryDirectory(prefix="prudent-", dir=place) as folder:
        path = Path(folder) / "ledger"
        os.environ[LEDGER_SOCKET_VARIABLE] = str(path)
        process = LedgerProcess(path, metrics_folder)
        try:
            process.start()
            yield
        finally:
            process.stop()
