"""Whether a decision is still waited for."""


def is_expired(due_at: int | None, now: int | None) -> bool:
    """Whether an unrewarded decision is no longer waited for: the deadline decides, and the sweep clears due_at.

    now: microseconds since 1970; None where the campaign has no timeout.
    """
    return now is not None and (due_at is None or due_at <= now)
