"""How a command can end, other than well."""

from dataclasses import dataclass

from prudent.ledger.commands import Result


class StaleDirectoryError(Exception):
    """A public id has another key, or a campaign entered its warm-up, since this process last looked."""


@dataclass(frozen=True, slots=True)
class Postponed:
    """Not executed: the campaign's state must be loaded first."""

    key: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The command failed: it is wrong (CommandError), cannot run now (UnavailableError), or met a defect."""

    error: Exception


Outcome = Result | Postponed | Failed
