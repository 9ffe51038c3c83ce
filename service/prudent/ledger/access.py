"""How the rest of the service reaches the ledger, which may be a thread of this process or another process."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from prudent.ledger.administration import Administration, CampaignRecord
from prudent.ledger.commands import Author, Command, Correct, EraseDecisions
from prudent.ledger.outcomes import CorrectionReceipt, ErasureReceipt, Failed, Result
from prudent.ledger.trail import Authored


class LedgerAccess(ABC):
    """Commands in, outcomes out. Its methods are for the event loop."""

    @abstractmethod
    def opened(self) -> AbstractAsyncContextManager[None]:
        """Within it commands are executed. Raises TimeoutError if the ledger cannot be reached."""

    @abstractmethod
    def enqueue(self, commands: Sequence[Command | Administration | Authored]) -> asyncio.Future[list[Any]]:
        """The commands' outcomes in their order, once they are committed. It fails with UnavailableError."""

    @property
    @abstractmethod
    def fault(self) -> str | None:
        """Why commands cannot be recorded at the moment; None if nothing prevents it, as far as is known."""

    @property
    @abstractmethod
    def remark(self) -> str | None:
        """What an operator should know of single campaigns, although the others are served."""

    async def submit(self, command: Command) -> Any:
        """The command's result, committed. Raises CommandError or UnavailableError."""
        return await self._submit_one(command)

    async def administer(self, command: Administration, author: Author | None = None) -> CampaignRecord | None:
        """The campaign after the command, committed. author: None for what does not belong in the trail.

        Raises CommandError or UnavailableError.
        """
        record: CampaignRecord | None = await self._submit_one(command if author is None else Authored(command, author))
        return record

    async def correct(self, command: Correct, author: Author) -> CorrectionReceipt:
        """The correction, committed. Raises CommandError or UnavailableError."""
        receipt: CorrectionReceipt = await self._submit_one(Authored(command, author))
        return receipt

    async def erase(self, command: EraseDecisions, author: Author) -> ErasureReceipt:
        """What was erased, committed. Raises CommandError or UnavailableError."""
        receipt: ErasureReceipt = await self._submit_one(Authored(command, author))
        return receipt

    async def submit_all(self, commands: Sequence[Command]) -> list[Result | Exception]:
        """Results in the commands' order, with an error in place of each command that failed."""
        if not commands:
            return []
        outcomes = await self.enqueue(commands)
        return [outcome.error if isinstance(outcome, Failed) else outcome for outcome in outcomes]

    async def _submit_one(self, command: Command | Administration | Authored) -> Any:
        (outcome,) = await self.enqueue([command])
        if isinstance(outcome, Failed):
            raise outcome.error
        return outcome
