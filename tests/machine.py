"""What tests need of the machine beside Python."""

import os
from typing import NoReturn

import pytest


def missing(reason: str) -> NoReturn:
    """Skip the test, except on the build server (CI=true): there nobody would see that it never runs."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}: on the build server that is an error")
    pytest.skip(reason)
