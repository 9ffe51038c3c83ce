"""What can be wrong with a command, and what can be wrong with us. None of it knows HTTP."""


class CommandError(Exception):
    """The command is wrong. It failed alone; nothing was written for it."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message, self.field = message, field


class NotFoundError(CommandError):
    """It names a campaign, arm or decision that is not there."""


class ConflictError(CommandError):
    """It contradicts what is recorded."""


class InvalidCommandError(CommandError):
    """It makes no sense for this campaign; ``field`` says where."""


class UnavailableError(Exception):
    """Not now: nothing is known to be wrong with the command, and it is safe to send it again."""

    retry_after_seconds = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class OverloadedError(UnavailableError):
    """The queue is full."""


class CampaignBusyError(UnavailableError):
    """Another worker holds the campaign for longer than we wait."""


class DatabaseUnavailableError(UnavailableError):
    """The database is gone, locked, full or too slow."""


class UnknownOutcomeError(UnavailableError):
    """The commit itself failed: the command may or may not have been recorded. The same command again is safe."""
