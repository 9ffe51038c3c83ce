"""What hostile clients send, and a watch over what everybody else gets meanwhile."""

import http.client
import socket
import threading
import time
from contextlib import suppress
from typing import Self

import httpx
import psutil

from tests.servers import HOST, Server

MIB = 2**20
GROWTH_BYTES_MAX = 20 * MIB
BATCH_BYTES = 7 * MIB // 2
"""A large batch, within the limit of 4 MiB."""
ANSWER_SECONDS_MAX = 1.0
HEAD = b"POST /select HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def filled(opening: bytes, unit: bytes, closing: bytes, size: int = BATCH_BYTES) -> bytes:
    """A body of about this size."""
    return opening + unit * ((size - len(opening) - len(closing)) // len(unit)) + closing


def unknown_fields(count: int) -> bytes:
    """Different fields that no schema has."""
    return b",".join(b'"k%07d":0' % number for number in range(count))


class Watch:
    """Asks for /health/live all the time, and for the service's memory; remembers the worst."""

    def __init__(self, server: Server) -> None:
        assert server.process is not None
        self._process = psutil.Process(server.process.pid)
        self._client = httpx.Client(base_url=server.url, timeout=10, trust_env=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.slowest_seconds, self.growth_bytes, self.asked, self.failures = 0.0, 0, 0, 0

    def __enter__(self) -> Self:
        self._client.get("/health/live")
        self._before = self._process.memory_info().rss
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()
        assert self.asked > 0

    def _run(self) -> None:
        while True:
            started = time.perf_counter()
            try:
                self.failures += self._client.get("/health/live").status_code != httpx.codes.OK
            except httpx.HTTPError:
                self.failures += 1
            self.slowest_seconds = max(self.slowest_seconds, time.perf_counter() - started)
            self.growth_bytes = max(self.growth_bytes, self._process.memory_info().rss - self._before)
            self.asked += 1
            if self._stop.wait(0.005):
                return

    def figure(self, what: str) -> str:
        """What was seen meanwhile."""
        answers = f"/health/live {self.asked} times, at most {self.slowest_seconds:.3f} s, {self.failures} failures"
        return f"{what}: {answers}; memory +{self.growth_bytes / MIB:.1f} MiB"


def upload(server: Server, path: str, megabytes: int, *, declared: bool) -> int:
    """Send so many megabytes; the status."""
    connection = http.client.HTTPConnection(HOST, server.port, timeout=20)
    connection.putrequest("POST", path)
    connection.putheader("Content-Type", "application/json")
    connection.putheader(*(("Content-Length", str(megabytes * MIB)) if declared else ("Transfer-Encoding", "chunked")))
    connection.endheaders()
    piece = b'"' + b"x" * (MIB - 1)
    with suppress(ConnectionError):  # refused and closed before all of it was sent
        for _ in range(megabytes):
            connection.send(piece if declared else b"%x\r\n%s\r\n" % (len(piece), piece))
    try:
        return connection.getresponse().status
    except (ConnectionError, http.client.HTTPException):
        return 0  # the answer was lost in the reset
    finally:
        connection.close()


def received(connection: socket.socket, seconds: float = 15) -> bytes:
    """What comes until the server closes."""
    connection.settimeout(seconds)
    found = b""
    with suppress(ConnectionResetError):
        while piece := connection.recv(65_536):
            found += piece
    return found


def trickle_until_closed(server: Server, beginning: bytes, piece: bytes) -> bytes:
    """Send a piece every tenth of a second until the server has enough; its answer."""
    with socket.create_connection((HOST, server.port), timeout=15) as connection:
        connection.sendall(beginning)
        deadline = time.monotonic() + 15
        connection.settimeout(0.1)
        found = b""
        while time.monotonic() < deadline:
            try:
                got = connection.recv(65_536)
                found += got
                if not got:
                    return found
            except TimeoutError:
                with suppress(BrokenPipeError):
                    connection.sendall(piece)
            except ConnectionError:
                return found
        raise AssertionError(f"still open after {found!r}")
