"""An exploration budget: how much it allows, and when."""

import numpy as np
import pytest

from prudent.core.budget import WINDOW, Spending, limit_of


@pytest.mark.parametrize(
    ("budget", "limit"), [(None, 0), (0.01, 1), (0.1, 10), (0.29, 29), (0.57, 57), (0.105, 10), (1.0, 100)]
)
def test_a_share_of_a_hundred_is_rounded_down(budget: float | None, limit: int) -> None:
    """0.29 times 100 is below 29 in binary, and half a decision cannot explore."""
    assert limit_of(budget) == limit


@pytest.mark.parametrize("limit", [1, 10, 99, 100])
def test_no_hundred_in_a_row_exceeds_it_and_it_is_used(limit: int) -> None:
    """What is allowed too often is no budget; what is allowed too seldom would end the learning."""
    rng, explored = np.random.default_rng(limit), []
    for wants in (rng.random(1_000) < 0.9).tolist():
        spending = Spending(explored[-(WINDOW - 1) :], 0)
        explored.append(wants and spending.allows(limit))
    most = np.convolve(explored, np.ones(WINDOW), "valid").max()
    assert most <= limit
    assert most >= min(limit, 90)


def test_a_time_never_goes_back() -> None:
    """The order by time would not be the one in which the budget was spent, as clocks of servers differ."""
    spending = Spending([], 1_000)
    assert spending.time_of_next(900) == 1_001
    spending.add(explored=True, made_at=1_001)
    assert spending.time_of_next(1_001) == 1_002
    assert spending.time_of_next(5_000) == 5_000
