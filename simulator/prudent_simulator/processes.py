"""What the processes of the simulator's own service and its own Postgres have in common."""

import os
import signal
import subprocess
from pathlib import Path

_STOP_SECONDS_MAX = 15.0
# Settings of a service that the user runs elsewhere, which ours must not inherit, and the file that may hold them.
_FOREIGN_PREFIXES = ("PRUDENT_", "DATABASE_URL", "PG")


class ServerStartError(Exception):
    """The service or its database could not be started."""


def clean_environment() -> dict[str, str]:
    """Give our environment without the settings of other services and databases, whether in variables or in .env."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_FOREIGN_PREFIXES)}
    return kept | {"PRUDENT_ENV_FILE": ""}


def log_tail(log: Path, lines: int = 3) -> str:
    """Give the last lines of a log as one line."""
    text = log.read_text(errors="replace") if log.exists() else ""
    written = [line.strip() for line in text.splitlines() if line.strip()]
    return " | ".join(written[-lines:]) or "it wrote nothing"


def stop(process: subprocess.Popen[bytes], polite: signal.Signals) -> None:
    """End a process we started in a session of its own: politely first, then it and all its children."""
    if process.poll() is not None:
        return
    process.send_signal(polite)
    try:
        process.wait(_STOP_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
