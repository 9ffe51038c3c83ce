"""How often a call is attempted, and the pauses in between."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime


@dataclass(frozen=True, slots=True)
class Retries:
    """Pauses that double from the first to the longest, unless the service says when to retry.

    attempts: how often a call is attempted in total, 1 for no retries; first_pause_seconds, pause_seconds_max: pauses
    double in between; jitter: the largest share by which a pause is randomly shortened, so that many clients that were
    refused together do not return together. Retry-After is honoured, up to the longest pause. Raises ValueError for
    values out of range.
    """

    attempts: int = 7
    first_pause_seconds: float = 0.1
    pause_seconds_max: float = 5.0
    jitter: float = 0.5

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("attempts must be at least 1")
        if not 0 <= self.first_pause_seconds <= self.pause_seconds_max:
            raise ValueError("first_pause_seconds must lie between 0 and pause_seconds_max")
        if not 0 <= self.jitter <= 1:
            raise ValueError("jitter must lie between 0 and 1")

    def pause_seconds(self, attempt: int, retry_after: str | None = None) -> float:
        """How long to wait after an attempt, the first being 1."""
        asked = None if retry_after is None else _seconds(retry_after)
        if asked is not None:
            return min(asked, self.pause_seconds_max)
        pause = min(self.first_pause_seconds * 2.0 ** (attempt - 1), self.pause_seconds_max)
        return pause * (1 - self.jitter * random.random())  # noqa: S311  # nothing depends on its being unguessable


def _seconds(text: str) -> float | None:
    """The value of Retry-After, seconds or a date; None if it is neither."""
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        when = parsedate_to_datetime(text).astimezone(UTC)
    except (ValueError, OverflowError):  # the calendar ends with the year 9999
        return None
    return max(0.0, (when - datetime.now(UTC)).total_seconds())
