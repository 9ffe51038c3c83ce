"""Metrics of several workers: each writes to its own files, and the worker that is scraped adds all of them up.

The files outlive their worker, so that a counter never decreases when a worker dies. A worker holds a slot, the lowest
number that no living worker holds; its successor takes over the free slot and continues its counters, so that there are
never more files than workers. Gauges describe the present: those of a dead worker are removed.
"""

import fcntl
import itertools
import os
from pathlib import Path
from typing import IO, Any

from prometheus_client import CollectorRegistry, multiprocess, values

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The library's own variable, from which its values take the folder of their files."""
_LOCK = "{}.lock"
_KINDS = ("counter", "histogram", "gauge_livesum")
_FILE_BYTES = 2**18
"""Enough for every route and status. Allocated at once: a write to a page that a full disk cannot hold is fatal."""


class Slot:
    """A number held by this process until it ends; the system releases it however the process ends."""

    def __init__(self, folder: Path) -> None:
        os.environ[FOLDER_VARIABLE] = str(folder)
        self.number, self._lock = _take(folder)
        _forget_gauges(folder, self.number)  # of the worker that held this slot before
        for kind in _KINDS:
            path = folder / f"{kind}_{self.number}.db"
            if not path.exists():
                new = folder / f"{self.number}.new"
                new.write_bytes(bytes(_FILE_BYTES))
                new.rename(path)  # a scrape meanwhile must not see half a file

    def value_class(self) -> type[Any]:
        """The library's class of values, with files named after the slot instead of the process id."""
        kind: type[Any] = values.MultiProcessValue(process_identifier=lambda: self.number)  # type: ignore[no-untyped-call]
        return kind


def _forget_gauges(folder: Path, number: int) -> None:
    multiprocess.mark_process_dead(number, str(folder))  # type: ignore[no-untyped-call]


def _take(folder: Path) -> tuple[int, IO[bytes]]:
    for number in itertools.count():
        lock = _locked(folder / _LOCK.format(number))
        if lock is not None:
            return number, lock
    raise AssertionError  # the count never ends


def _locked(path: Path) -> IO[bytes] | None:
    """The file, locked until it is closed; None if a living process holds it."""
    lock = path.open("ab")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        return None
    return lock


def shared_registry(folder: Path) -> CollectorRegistry:
    """A registry of the sums over all slots, without the gauges of dead workers."""
    for path in folder.glob(_LOCK.format("*")):
        lock = _locked(path)
        if lock is not None:
            with lock:  # no process can take the slot meanwhile
                _forget_gauges(folder, int(path.stem))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    return registry
