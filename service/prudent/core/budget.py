"""An exploration budget: of any 100 consecutive decisions at most so many explore.

Whether a decision may explore depends on the 99 before it alone, never on its own draws: given them its propensities
are exact, those of the rule where it may, and those of the best estimate where it may not. A holdout draws before it:
what it decides is counted, and is never held back.
"""

from collections import deque
from collections.abc import Iterable

WINDOW = 100
"""Decisions that a budget is a share of."""


def limit_of(budget: float | None) -> int:
    """Return how many of `WINDOW` decisions may explore by a share of them; 0 where there is no budget."""
    return 0 if budget is None else int(budget * WINDOW + 1e-9)


class Spending:
    """What the latest decisions, learned or not, have spent, and when the last was made, in microseconds.

    explored: whether each of the latest did, the oldest first. allowance: what they leave of a baseline's, reward
    units.
    """

    def __init__(self, explored: Iterable[bool], last: int, allowance: float = 0.0) -> None:
        self._explored = deque(explored, maxlen=WINDOW - 1)
        self._last = last
        self.allowance = allowance

    def allows(self, limit: int) -> bool:
        """Whether the next decision may explore."""
        return sum(self._explored) < limit

    def time_of_next(self, now: int) -> int:
        """Return a time for the next decision, after the last one's: their order by time is that of their making."""
        return max(now, self._last + 1)

    def add(self, *, explored: bool, made_at: int) -> None:
        """Count a decision."""
        self._explored.append(explored)
        self._last = made_at
