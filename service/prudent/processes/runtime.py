"""How Python and BLAS run in a process that has a ledger or speaks HTTP."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits

YOUNG_OBJECTS_MAX = 10_000
"""Before they are looked at for cycles: a batch with its requests has thousands, and makes hardly any garbage."""


@contextmanager
def tuned() -> Iterator[None]:
    """Begin when everything is loaded."""
    # one thread a product: replays are then equal to the last bit, and small matrices are faster
    with threadpool_limits(1):
        gc.collect()
        gc.freeze()  # the start-up heap is never garbage; scanning it made the slowest 1% of requests
        gc.enable()  # prudent serve has loaded everything without it
        gc.set_threshold(YOUNG_OBJECTS_MAX, *gc.get_threshold()[1:])
        yield
