"""Clients without a key that occupy a server: python -m tests.trust.attackers PORT READERS PIPELINES HEADS

Readers ask for large files and never read them. Pipelines send four megabytes of requests at once; every other one
reads its answers. Heads send a byte of a request's head now and then. Says "ready" when all have begun, and goes on
until its standard input ends. In a process of its own: what it costs must not slow down the clients that are measured.
"""

import os
import resource
import selectors
import socket
import sys
import time
from contextlib import suppress

from tests.servers import HOST

FILE = b"GET /docs/static/swagger-ui-bundle.js HTTP/1.1\r\nHost: localhost\r\n"
FILES = (FILE + b"\r\n") * 2 + FILE + b"Connection: close\r\n\r\n"
"""More than the four megabytes that Linux takes of what nobody reads: the rest stays with the server."""
SMALL = b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
PIPELINED = SMALL * (4 * 2**20 // len(SMALL))
WINDOW_BYTES = 4_096
"""Of the clients that do not read: the kernel then takes little of an answer."""
ELSEWHERE = "127.0.0.2"
"""Another address of this machine: another peer."""


def connect(port: int, source: str = ELSEWHERE, *, window: int | None = None) -> socket.socket:
    """A connection that does not block, once it is made. window: bytes of its receive buffer."""
    made = socket.socket()
    if window is not None:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
    made.bind((source, 0))
    made.settimeout(10)
    made.connect((HOST, port))
    made.setblocking(False)
    return made


def stalled_reader(port: int, source: str = ELSEWHERE) -> socket.socket:
    """A client that asks for large files, has the connection closed after them, and reads nothing."""
    made = connect(port, source, window=WINDOW_BYTES)
    made.send(FILES)
    return made


class Pipelines:
    """Connections that send as much as the server takes, up to four megabytes each."""

    def __init__(self, port: int, count: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._sent: list[socket.socket] = []
        """Those that have sent everything and read nothing; they stay open."""
        self.answers = 0
        for number in range(count):
            reads = number % 2 == 0
            made = connect(port, window=None if reads else WINDOW_BYTES)
            events = selectors.EVENT_WRITE | (selectors.EVENT_READ if reads else 0)
            self._selector.register(made, events, [0])

    def step(self, seconds: float) -> None:
        """Send and read what is possible within this time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            ready = self._selector.select(0.05) if self._selector.get_map() else []
            for key, events in ready:
                assert isinstance(key.fileobj, socket.socket)
                try:
                    self._serve(key, key.fileobj, events)
                except ConnectionError:  # the server has had enough
                    self._selector.unregister(key.fileobj)
                    key.fileobj.close()
            if not ready:
                time.sleep(0.05)

    def _serve(self, key: selectors.SelectorKey, one: socket.socket, events: int) -> None:
        if events & selectors.EVENT_READ:
            got = one.recv(65_536)
            if not got:
                raise ConnectionResetError
            self.answers += got.count(b"HTTP/1.1 200")
        if events & selectors.EVENT_WRITE:
            key.data[0] += one.send(PIPELINED[key.data[0] : key.data[0] + 65_536])
            if key.data[0] >= len(PIPELINED):
                left = key.events & selectors.EVENT_READ
                if left:
                    self._selector.modify(one, left, key.data)
                else:
                    self._selector.unregister(one)
                    self._sent.append(one)


def main() -> None:
    """Attack. Attackers are on machines of their own: here they leave the processors to the others."""
    os.nice(10)
    port, readers, pipelines, heads = (int(argument) for argument in sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    kept = []
    for _ in range(readers):
        with suppress(OSError):
            kept.append(stalled_reader(port))
    slow = []
    for _ in range(heads):
        with suppress(OSError):
            slow.append(connect(port))
    piped = Pipelines(port, pipelines)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    watched = selectors.DefaultSelector()
    watched.register(sys.stdin, selectors.EVENT_READ)
    while not watched.select(0):
        for one in slow:
            with suppress(OSError):
                one.send(b"G")
        piped.step(1.0)


if __name__ == "__main__":
    main()
