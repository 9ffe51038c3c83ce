"""What is wrong with single campaigns: rows that cannot be learned, and logs that have changed on the disk.

A campaign whose rows cannot be learned is in quarantine: its calls are answered 503 with the reason, and all others are
served. After a while it is tried again, because its rows may have been repaired.
"""

import structlog

logger = structlog.get_logger(__name__)

BAD_ROWS = (ValueError, LookupError, ArithmeticError, TypeError)
"""What rows raise that cannot be learned, or that no state can be made of."""
RETRY_US = 30_000_000
"""After so long, a campaign is tried again."""


class BadRowError(ValueError):
    """A row of the log cannot be learned. Its message says which and why, and repeats nothing of it."""


class Quarantine:
    """Why campaigns are out of service in this process, by key, and whose logs are damaged. Bounded by their number."""

    def __init__(self) -> None:
        self.entries: dict[int, tuple[str, int]] = {}
        """Reason and time, in microseconds."""
        self.damaged: dict[int, str] = {}
        """What differs from its digest in the logs of campaigns, as far as it has been noticed."""

    def put(self, key: int, campaign_id: str | None, error: Exception, now: int) -> None:
        """Leave a campaign out, whose rows raised this error."""
        why = f"its configuration or its arms cannot be read ({type(error).__name__})"
        reason = str(error) if isinstance(error, BadRowError) else why
        if key not in self.entries:
            logger.error("a campaign is quarantined", key=key, campaign_id=campaign_id, reason=reason, exc_info=error)
        self.entries[key] = reason, now

    def held(self, now: int) -> set[int]:
        """The keys of campaigns that are not to be tried again yet."""
        return {key for key, (_, since) in self.entries.items() if abs(now - since) < RETRY_US}

    def release(self, key: int) -> None:
        """Take a campaign back: its rows have turned out to be good, or it is gone."""
        if self.entries.pop(key, None) is not None:
            logger.info("a campaign has left the quarantine", key=key)

    def forget(self, key: int) -> None:
        """The campaign is gone."""
        self.release(key)
        self.damaged.pop(key, None)

    def reason(self, key: int) -> str | None:
        """Why a campaign is out of service; None if it is not, as far as is known."""
        found = self.entries.get(key)
        return None if found is None else found[0]

    @property
    def remark(self) -> str | None:
        """For readiness, which it does not affect: other campaigns are served."""
        count = len(self.entries)
        return f"campaigns out of service, since their rows cannot be learned: {count}" if count else None
