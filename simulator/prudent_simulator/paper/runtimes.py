"""Time of the algorithms alone, without HTTP and database, as `python -m benchmarks.runtime` measures it."""

from dataclasses import dataclass
from pathlib import Path

import orjson

from prudent_simulator.paper.cells import PaperError


@dataclass(frozen=True)
class Runtimes:
    """seconds: for one run of `rounds` rounds, median of `runs`, by row."""

    rounds: int
    runs: int
    seconds: dict[str, float]


def read_runtimes(path: Path) -> Runtimes:
    """Read a file. Raises PaperError for one that is not what the measurement writes."""
    try:
        content = orjson.loads(path.read_bytes())
        return Runtimes(
            int(content["rounds"]), int(content["runs"]), {k: float(v) for k, v in content["seconds"].items()}
        )
    except (OSError, orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise PaperError(f"{path} is not what python -m benchmarks.runtime writes: {error}") from error
