"""Counters of several workers: each writes to files of its own, and whoever is asked adds all of them up.

The files outlive their worker, so that a counter never goes back when one dies. A worker holds a slot, the lowest
number that no living worker has; the one that comes after a death takes the free slot and counts on in its files, so
their number stays that of the workers. A gauge says how things are now: those of a dead worker are removed.
"""

import fcntl
import itertools
import os
from pathlib import Path
from typing import IO, Any

from prometheus_client import CollectorRegistry, multiprocess, values

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""The library's own; its values find their files there."""
_LOCK = "{}.lock"
_KINDS = ("counter", "histogram", "gauge_livesum")
_FILE_BYTES = 2**18
"""Enough for every route and status. Written at once: a page that a full disk has no room for would kill the worker."""


class Slot:
    """A number of this process, held until it ends. The system gives it back, however it ends."""

    def __init__(self, folder: Path) -> None:
        os.environ[FOLDER_VARIABLE] = str(folder)
        self.number, self._lock = _take(folder)
        _forget_gauges(folder, self.number)  # of whoever had this slot
        for kind in _KINDS:
            path = folder / f"{kind}_{self.number}.db"
            if not path.exists():
                new = folder / f"{self.number}.new"
                new.write_bytes(bytes(_FILE_BYTES))
                new.rename(path)  # whoever is asked meanwhile sees no half of it

    def value_class(self) -> type[Any]:
        """The library's class of values, with files named by the slot and not by the process id."""
        kind: type[Any] = values.MultiProcessValue(process_identifier=lambda: self.number)  # type: ignore[no-untyped-call]
        return kind


def _forget_gauges(folder: Path, number: int) -> None:
    multiprocess.mark_process_dead(number, str(folder))  # type: ignore[no-untyped-call]


def _take(folder: Path) -> tuple[int, IO[bytes]]:
    for number in itertools.count():
        lock = _locked(folder / _LOCK.format(number))
        if lock is not None:
            return number, lock
    raise AssertionError  # the count has no end


def _locked(path: Path) -> IO[bytes] | None:
    """The file, locked until it is closed; None if a living process has it."""
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
            with lock:  # nobody takes the slot meanwhile
                _forget_gauges(folder, int(path.stem))
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry, str(folder))  # type: ignore[no-untyped-call]
    return registry
