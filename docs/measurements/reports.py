"""How long a report takes, and what an explanation adds to a select: `python -m docs.measurements.reports`.

In process. Report: an SQLite file with a shared campaign of dimension 20, four arms, and the number of decisions that
is given (100,000 by default), each with a reward, written to the tables directly. Explanation: an exact estimator of
dimension 20 with as many observations, ten candidates, medians of 30.
"""

import statistics
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from docs.measurements.filling import fill
from prudent.campaigns import CampaignConfiguration, build_policy, resolve
from prudent.core.policy import Policy
from prudent.reporting.report import report
from prudent.store.engines import create_read_engine, create_write_engine, parse_database_url
from prudent.store.schema import migrate

DIMENSION, ARMS, CANDIDATES = 20, 4, 10
CONFIGURATION = resolve(
    CampaignConfiguration.model_validate(
        {
            "campaign_id": "measured",
            "risk": {"measure": "expectile", "level": 0.1},
            "model": {"type": "shared", "dimension": DIMENSION},
            "arms": [{"arm_id": f"arm-{number}"} for number in range(ARMS)],
        }
    )
)


def pairs(count: int) -> Iterator[tuple[str, bytes, float]]:
    """Arms in turn, with normal features and rewards."""
    draw = np.random.default_rng(1)
    for number in range(count):
        yield f"arm-{number % ARMS}", draw.normal(size=DIMENSION).tobytes(), float(draw.normal(number % ARMS))


def measure_report(count: int) -> None:
    """Print time and peak memory."""
    with tempfile.TemporaryDirectory() as directory:
        url = parse_database_url(f"sqlite:///{Path(directory)}/reports.db")
        write, read = create_write_engine(url), create_read_engine(url)
        migrate(write)
        fill(write, CONFIGURATION, pairs(count))
        started = time.perf_counter(), time.process_time()
        found = report(read.connect, "measured", lambda: count, None)
        wall, cpu = time.perf_counter() - started[0], time.process_time() - started[1]
        tracemalloc.start()
        report(read.connect, "measured", lambda: count, None)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        write.dispose()
        read.dispose()
    if found is None or found.plays != count or found.observations != count:
        raise SystemExit("the report does not count what was written")
    size = peak / 2**20
    sys.stdout.write(
        f"report of {count:,} decisions and rewards: {wall:.2f} s, {cpu:.2f} s of processor, peak {size:.1f} MiB\n"
    )


def median_ms(action: Callable[[], object], repeats: int = 30) -> float:
    """Median time."""
    times = []
    for _ in range(repeats):
        started = time.process_time()
        action()
        times.append(time.process_time() - started)
    return 1_000 * statistics.median(times)


def measure_explanation(count: int) -> None:
    """Print what an explanation adds, and what the model's intervals take."""
    draw = np.random.default_rng(2)
    policy: Policy = build_policy(CONFIGURATION, CONFIGURATION, arms=ARMS)
    theta = draw.normal(size=DIMENSION)
    for x in draw.normal(size=(count, DIMENSION)):
        policy.observe(0, x, float(x @ theta + draw.normal()))
    candidates = draw.normal(size=(CANDIDATES, DIMENSION))
    scoring = median_ms(lambda: policy.score(candidates))
    intervals = median_ms(lambda: policy.intervals(candidates))
    parameters = median_ms(policy.parameter_intervals)
    sys.stdout.write(
        f"exact estimator with {count:,} observations: {CANDIDATES} candidates scored in {scoring:.3f} ms, "
        f"their intervals in {intervals:.2f} ms, those of {DIMENSION} parameters in {parameters:.2f} ms\n"
    )


if __name__ == "__main__":
    with threadpool_limits(1):  # as the service runs
        for given in [int(one) for one in sys.argv[1:]] or [100_000]:
            measure_report(given)
            measure_explanation(given)
