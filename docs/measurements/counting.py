"""What counting a request costs: `python -m docs.measurements.counting`.

In memory, as one process does, and in the files that several workers share.
"""

import sys
import tempfile
import timeit
from pathlib import Path

from prudent.observability.metrics import Metrics

REQUESTS = 1_000
REPEATS = 300


def microseconds(metrics: Metrics) -> float:
    """Of a request's counter and histogram, the best of several rounds: other programs only ever add to it."""
    requests = metrics.requests.labels("/select", "POST", 200)
    seconds = metrics.request_seconds.labels("/select")

    def count() -> None:
        requests.inc()
        seconds.observe(0.003)

    return min(timeit.repeat(count, number=REQUESTS, repeat=REPEATS)) / REQUESTS * 1e6


def main() -> None:
    """Print both."""
    sys.stdout.write(f"in memory    {microseconds(Metrics()):.1f} us a request\n")
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(f"shared files {microseconds(Metrics(Path(folder))):.1f} us a request\n")


if __name__ == "__main__":
    main()
