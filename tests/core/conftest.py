"""Random numbers for the tests of the core."""

import os
import sys
from zlib import crc32

import numpy as np
import pytest
from threadpoolctl import threadpool_limits


@pytest.fixture(autouse=True, scope="session")
def one_thread():
    """BLAS on one thread, as in the service: bytes must not depend on how a sum is split."""
    with threadpool_limits(1):
        yield


@pytest.fixture
def rng(request):
    """A generator seeded by the test's name, or by CORE_TEST_SEED; a failing test shows its seed."""
    seed = int(os.environ.get("CORE_TEST_SEED", crc32(request.node.name.encode())))
    sys.stdout.write(f"CORE_TEST_SEED={seed}\n")
    return np.random.default_rng(seed)
