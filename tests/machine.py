"""What tests need of the machine beside Python."""

import os
import signal
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test, except on the build server (CI=true): there nobody would see that it never runs."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}: on the build server that is an error")
    pytest.skip(reason)


def mount_small(directory: Path, bytes_max: int) -> None:
    """Mount an empty file system of this size, in memory, on a folder. Raises OSError where that is not allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={bytes_max}", "tmpfs", str(directory)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    if done.returncode != 0:
        raise OSError(f"no file system could be mounted: {done.stderr.strip()}")


def unmount(directory: Path) -> None:
    """Unmount what `mount_small` has mounted, if it is mounted."""
    subprocess.run(["umount", "--lazy", directory], capture_output=True, timeout=10, check=False)  # noqa: S607


def listen_to_interrupts() -> None:
    """For a child before it starts: what a shell runs in the background ignores Ctrl-C, and so would its children."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
