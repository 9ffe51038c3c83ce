"""Why a command fails: it is wrong, or it cannot be executed now. None of these errors knows HTTP."""


class CommandError(Exception):
    """The command is wrong: nothing was written for it, and no other command is affected."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message, self.field = message, field


class NotFoundError(CommandError):
    """The command names a campaign, arm or decision that does not exist."""


class ConflictError(CommandError):
    """The command contradicts what is recorded."""


class LateRewardError(ConflictError):
    """The reward came after its deadline, and the campaign's default was learned instead."""


class InvalidCommandError(CommandError):
    """The command does not fit the campaign; ``field`` names the field that is wrong."""


class NoArmLeftError(InvalidCommandError):
    """The request, and which arms are paused or retired, leave no arm to choose from."""


class UnavailableError(Exception):
    """Cannot be executed now: the command may be right, and it is safe to send it again."""

    retry_after_seconds = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class OverloadedError(UnavailableError):
    """The queue is full."""


class CampaignBusyError(UnavailableError):
    """Another worker has held the campaign for too long."""


class DatabaseUnavailableError(UnavailableError):
    """The database is gone, locked, full or too slow."""


class LostFileError(DatabaseUnavailableError):
    """The file at the database's place is not, or not only, the one that was opened."""


class QuarantinedError(UnavailableError):
    """The campaign's own rows cannot be learned, so nothing can be said about it until somebody repairs them."""

    retry_after_seconds = 30


class UnreadableSettingsError(QuarantinedError, ValueError):
    """The campaign's settings are damaged, or a newer version's."""


class UnknownOutcomeError(UnavailableError):
    """The commit itself failed, so the command may have been recorded or not. It is safe to send it again."""
