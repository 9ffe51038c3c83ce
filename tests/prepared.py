"""Processes of the service that begin where its imports have ended: forks of one that has loaded everything.

Most of a start's processor time goes into imports, and a run of the tests starts hundreds of processes. From the first
line of `python -m prudent` on, a fork runs what any start runs, with its own environment, session and standard streams,
and so do the workers that it starts. Three things are those of the process that it comes from: the seed of Python's
hashes, BLAS's threads, of which there is one, and the command line that the system shows. Only `make test` and `make
slow` have it so (FORKED_SERVERS=1), and not where these or the start itself matter; all else starts processes as
operators do.
"""

import contextlib
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterable, Mapping, Sequence
from multiprocessing import util
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).resolve().parent.parent
WANTED = sys.platform == "linux" and os.environ.get("FORKED_SERVERS") == "1"
COMMANDS = ((sys.executable, "-m", "prudent"), (sys.executable, "-m", "prudent_simulator"))
VARIABLES = ("PRUDENT_", "COLUMNS", "PYTHONWARNINGS")
"""What a fork may be given: others say how an interpreter starts."""
MODULES = (
    "prudent.__main__",
    "prudent.app",
    "prudent.cli.database",
    "prudent.ledger.verification",
    "prudent.processes.supervision",
    "prudent.store.postgres",
    "prudent_simulator.__main__",
    "prudent_simulator.paper.grid",
    "prudent_simulator.paper.page",
    "alembic.command",
    "httptools",
    "httpx",
    "uvicorn",
    "uvicorn.lifespan.on",
    "uvicorn.loops.uvloop",
    "uvicorn.supervisors",
    "uvloop",
)
REQUEST_BYTES_MAX = 2**20


def can_run(command: Sequence[str | Path], variables: Iterable[str]) -> bool:
    """Whether a fork does what the command would, with an environment that differs in these variables."""
    return WANTED and tuple(command) in COMMANDS and all(name.startswith(VARIABLES) for name in variables)


class Fork:
    """A process that was forked elsewhere, with what `subprocess.Popen` has of it."""

    def __init__(self, origin: "Origin", pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._origin = origin
        self._handle = os.pidfd_open(pid)
        self._lock = threading.Lock()

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; the exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        with self._lock:
            if self.returncode is None:
                ended = select.poll()
                ended.register(self._handle, select.POLLIN)
                if not ended.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                self.returncode = self._origin.reap(self.pid)
                os.close(self._handle)
            return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to stop."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)


class Origin:
    """The process that has loaded the service, and forks; it ends with this one."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-c", "from tests import prepared; prepared.main()", str(theirs.fileno())],
            cwd=ROOT,
            env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # a process with several threads is not forked safely
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            start_new_session=True,
        )
        theirs.close()

    def start(
        self, arguments: Sequence[str], directory: Path, environment: Mapping[str, str], streams: Sequence[IO[Any]]
    ) -> Fork:
        """`python -m` with these arguments, in a session of its own. streams: its input, output and errors."""
        request = {"arguments": list(arguments), "directory": str(directory), "environment": dict(environment)}
        return Fork(self, self._ask(request, [stream.fileno() for stream in streams]))

    def reap(self, pid: int) -> int:
        """The exit code of a fork that has ended."""
        return self._ask({"ended": pid})

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int] = ()) -> int:
        with self._lock:
            socket.send_fds(self._channel, [json.dumps(request).encode()], descriptors)
            answer = self._channel.recv(64)
        if not answer:
            raise ChildProcessError(f"the process that forks has ended ({self._process.wait()})")
        return int(answer)


def next_start(channel: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Fork for each start that is asked for: the request in the fork, None once the channel is closed."""
    while True:
        content, descriptors, _, _ = socket.recv_fds(channel, REQUEST_BYTES_MAX, 3)
        if not content:
            return None
        request = json.loads(content)
        if "ended" in request:
            _, status = os.waitpid(request["ended"], 0)
            channel.send(str(os.waitstatus_to_exitcode(status)).encode())
        elif os.fork() == 0:
            return request, descriptors
        for descriptor in descriptors:
            os.close(descriptor)


_start_interpreter = util.spawnv_passfds


def fork_interpreter(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:
    """What `multiprocessing` starts workers with, but they have loaded the service already; the worker's pid."""
    program = args[args.index("-c") + 1]
    if "spawn_main" not in program:
        return _start_interpreter(path, args, passfds)
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        pid = os.fork()  # its parent's other threads wait, and hold nothing
    if pid != 0:
        return pid
    status = 1
    try:
        _forget_parent({0, 1, 2, *passfds})
        sys.argv[1:] = ["--multiprocessing-fork"]
        exec(program, {})  # noqa: S102  # what the interpreter would be given
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001  # as an interpreter ends
        traceback.print_exc()
    os._exit(status)


def _forget_parent(kept: set[int]) -> None:
    """Files, handlers of signals and the state of the garbage collector are not handed on to an interpreter."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in [int(path.name) for path in Path("/proc/self/fd").iterdir()]:
        if number not in kept:  # not closed: objects of the parent could later close another file of this number
            os.dup2(nothing, number)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    gc.enable()


def main() -> None:
    """Load the service, and in each fork run it."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    gc.disable()
    for name in MODULES:
        __import__(name)
    gc.freeze()  # a fork that looked for garbage in what is loaded would copy all of it
    gc.enable()
    found = next_start(channel)
    if found is None:
        return
    request, descriptors = found
    os.setsid()
    for standard, descriptor in enumerate(descriptors):
        os.dup2(descriptor, standard)
        os.close(descriptor)
    channel.send(str(os.getpid()).encode())
    channel.close()
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    util.spawnv_passfds = fork_interpreter
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell lets what it runs in the background ignore it
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    program, *sys.argv[1:] = request["arguments"]
    del sys.modules[f"{program}.__main__"]  # loaded for what it imports
    runpy.run_module(program, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
