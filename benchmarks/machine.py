"""The machine and the software that the figures belong to, and how long its disk takes to sync."""

import os
import platform
import shutil
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

SYNCS = 200
PACKAGES = ("fastapi", "uvicorn", "uvloop", "httptools", "pydantic", "orjson", "sqlalchemy", "numpy", "scipy")


def machine() -> dict[str, Any]:
    """Processor, cores, versions, load, and the disk of the folder for temporary files."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), model)
    p50, p99 = sync_ms(Path(tempfile.gettempdir()))
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "load": [round(one, 2) for one in os.getloadavg()],
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "packages": {name: version(name) for name in PACKAGES},
        "sync_ms": {"p50": round(p50, 3), "p99": round(p99, 3)},
        "client": "wrk" if shutil.which("wrk") else "Python (wrk is not installed: the client may be the bottleneck)",
    }


def sync_ms(directory: Path, syncs: int = SYNCS) -> tuple[float, float]:
    """Median and 99th percentile of the time to write 4 KiB and sync it: the least that a commit takes."""
    took: list[float] = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        for _ in range(syncs):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fsync(file.fileno())
            took.append((time.perf_counter() - began) * 1e3)
    p50, p99 = np.percentile(took, [50, 99])
    return float(p50), float(p99)
