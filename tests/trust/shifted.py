"""The service on a machine whose clock somebody sets: the environment's TRUST_OFFSET_FILE holds the seconds to add."""

import os
import time
from pathlib import Path

OFFSET_FILE = "TRUST_OFFSET_FILE"
_wall = time.time_ns


def offset_ns() -> int:
    """What the file says, in nanoseconds."""
    return int(Path(os.environ[OFFSET_FILE]).read_text(encoding="ascii")) * 10**9


if __name__ == "__main__":
    # before anything of the service is imported, which takes these functions as they are
    time.time_ns = lambda: _wall() + offset_ns()
    time.time = lambda: time.time_ns() / 1e9
    from prudent.__main__ import main

    main()
