"""What a power cut may leave of files: writes as strace has seen them, applied in every order that a disk may choose.

Durable is what was written before an fsync of the same file that has ended. Of what was written since, a disk may have
kept any sectors: none, all, or some. A new file may be gone as long as its folder has not been synced.
"""

import ast
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SECTOR = 512
CALLS = "openat,write,writev,pwrite64,ftruncate,fsync,fdatasync,unlink,sendto,sendmsg"
COMMAND = ("strace", "-f", "-qq", "-x", "-y", "-s", "1000000", "-e", f"trace={CALLS}")
_LINE = re.compile(r"(\d+) +(.*)")
_BEGUN = re.compile(r"(\w+)\((.*?)(?: <unfinished \.\.\.>)?$")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>.*\) += (-?\d+)")
_ENDED = re.compile(r"\) += (-?\d+)")
_FILE = re.compile(r"\d+<([^>]*)>")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True)
class Event:
    """A call begins or, for a sync, has ended. data: what is written; place: where, or the new length."""

    kind: str
    file: str
    data: bytes = b""
    place: int = 0


def read_events(trace: Iterable[str], folder: Path) -> Iterator[Event]:
    """What happened to the files of a folder, and what was sent over sockets, in order."""
    begun: dict[str, str] = {}
    for line in trace:
        found = _LINE.match(line.rstrip("\n"))
        if found is None:
            continue
        thread, text = found.groups()
        resumed = _RESUMED.match(text)
        if resumed is not None:
            first = begun.pop(thread, "")
            yield from _ended(first, int(resumed[2]), folder)
            continue
        yield from _began(text, folder)
        if text.endswith("<unfinished ...>"):
            begun[thread] = text
        elif text.startswith(("fsync(", "fdatasync(", "openat(")) and (results := _ENDED.findall(text)):
            yield from _ended(text, int(results[-1]), folder)


def _began(text: str, folder: Path) -> Iterator[Event]:
    """Writes count from their beginning: their bytes may reach the disk at once."""
    call = _BEGUN.match(text)
    if call is None:
        return
    kind, arguments = call.groups()
    if kind == "unlink":
        path = Path(_bytes(arguments).decode())
        if path.parent == folder:
            yield Event("unlink", path.name)
        return
    file = _FILE.match(arguments)
    if file is None:
        return
    if file[1].startswith(("socket:", "TCP:")) and kind != "fsync":
        yield Event("send", "", b"".join(_bytes(one) for one in re.findall(r'"(?:[^"\\]|\\.)*"', arguments)))
        return
    path = Path(file[1])
    if path.parent != folder:
        return
    numbers = re.findall(r", (\d+)", arguments[arguments.rfind('"') + 1 :])
    if kind == "pwrite64":
        yield Event("write", path.name, _bytes(arguments), int(numbers[1]))
    elif kind == "ftruncate":
        yield Event("truncate", path.name, place=int(numbers[0]))
    elif kind in {"write", "writev"}:
        yield Event("append", path.name, _bytes(arguments))


def _ended(text: str, result: int, folder: Path) -> Iterator[Event]:
    """Syncs count from their end; a file that is opened for the first time may be a new one."""
    if result < 0:
        return
    if text.startswith(("fsync(", "fdatasync(")):
        file = _FILE.search(text)
        if file is not None and Path(file[1]) == folder:
            yield Event("sync folder", "")
        elif file is not None and Path(file[1]).parent == folder:
            yield Event("sync", Path(file[1]).name)
    elif text.startswith("openat("):
        path = Path(_bytes(text).decode(errors="replace"))
        if path.parent == folder and "O_CREAT" in text:
            yield Event("create", path.name)


def _bytes(arguments: str) -> bytes:
    found = _STRING.search(arguments)
    data: bytes = b"" if found is None else ast.literal_eval(f'b"{found[1]}"')
    return data


@dataclass
class Disk:
    """A folder on a disk: what is durable of it, and what was written since."""

    durable: dict[str, bytes]
    pending: dict[str, list[Event]] = field(default_factory=dict)
    entries: dict[str, bool] = field(default_factory=dict)
    """Files whose creation (True) or removal (False) is not durable yet."""

    def apply(self, event: Event) -> None:
        """Let one event happen."""
        if event.kind in {"write", "truncate"}:
            self.pending.setdefault(event.file, []).append(event)
        elif event.kind == "sync":
            content = bytearray(self.durable.get(event.file, b""))
            for one in self.pending.pop(event.file, []):
                _write(content, one.place, one.data) if one.kind == "write" else _cut(content, one.place)
            self.durable[event.file] = bytes(content)
        elif event.kind == "create" and (event.file not in self.durable or self.entries.get(event.file) is False):
            self._forget(event.file)
            self.durable[event.file] = b""
            self.entries[event.file] = True
        elif event.kind == "unlink":
            self.entries[event.file] = False
        elif event.kind == "sync folder":
            for name, exists in self.entries.items():
                if not exists:
                    self._forget(name)
            self.entries.clear()

    def _forget(self, name: str) -> None:
        self.durable.pop(name, None)
        self.pending.pop(name, None)

    def after_a_cut(self, draw: random.Random) -> dict[str, bytes]:
        """What may be found when the power is back."""
        found: dict[str, bytes] = {}
        for name, content in self.durable.items():
            exists = self.entries.get(name)
            if exists is not None and draw.random() < 0.5:
                continue  # not created yet, or removed already
            share = draw.choice((0.0, 0.5, 1.0, draw.random()))
            kept = bytearray(content)
            for one in self.pending.get(name, []):
                if one.kind == "truncate":
                    if draw.random() < share:
                        _cut(kept, one.place)
                    continue
                for start in range(0, len(one.data), SECTOR):
                    if draw.random() < share:
                        _write(kept, one.place + start, one.data[start : start + SECTOR])
            found[name] = bytes(kept)
        return found


def _write(content: bytearray, place: int, data: bytes) -> None:
    _cut(content, max(len(content), place + len(data)))
    content[place : place + len(data)] = data


def _cut(content: bytearray, size: int) -> None:
    """Make it so long: by what is cut off, or by zeros."""
    del content[size:]
    content.extend(bytes(size - len(content)))
