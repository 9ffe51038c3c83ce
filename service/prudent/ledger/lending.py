"""States that another thread has for a while: to load them, or to work out what would hold the ledger too long.

Meanwhile commands for that campaign wait, and those for others do not.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple

import structlog
from sqlalchemy import Engine

from prudent.clock import Clock
from prudent.errors import CommandError, DatabaseUnavailableError
from prudent.ledger.loading import Held, load_behind, report_losses
from prudent.ledger.outcomes import Failed, Postponed
from prudent.ledger.quarantine import BAD_ROWS
from prudent.ledger.queue import CommandQueue, Entry
from prudent.ledger.state import CampaignState, States
from prudent.store.engines import create_read_engine
from prudent.store.schema import analyse

logger = structlog.get_logger(__name__)


class _Returned(NamedTuple):
    """A state that was lent; None if it is of no use. entry, outcome: what it was lent for."""

    key: int
    state: CampaignState | Exception | None
    entry: Entry | None = None
    outcome: Any = None


class Lending:
    """Lends states, and takes them back. Its methods are for the ledger's thread.

    settle: hands commands their outcomes. count: counts what was worked out on a state that comes back.
    """

    def __init__(
        self,
        states: States,
        queue: CommandQueue,
        read: Engine,
        clock: Clock,
        settle: Callable[[Sequence[Entry], list[Any]], None],
        count: Callable[[CampaignState], None],
    ) -> None:
        self._states, self._queue, self._read, self._clock = states, queue, read, clock
        self._settle, self._count = settle, count
        self.waiting: dict[int, list[Entry]] = {}
        """The commands that wait for each campaign whose state is lent."""
        self.returned: list[_Returned] = []
        """Filled by the other threads, under the queue's condition, which they notify."""
        self._loader = ThreadPoolExecutor(1, thread_name_prefix="ledger-loader")
        self._borrower = ThreadPoolExecutor(1, thread_name_prefix="ledger-borrower")
        self._analyst = ThreadPoolExecutor(1, thread_name_prefix="ledger-analyst")
        self._aside: Future[None] | None = None

    def shutdown(self) -> None:
        """End the threads, when nothing is lent."""
        self._loader.shutdown()
        self._borrower.shutdown()
        self._analyst.shutdown(cancel_futures=True)

    def postpone(self, outcome: Postponed, entry: Entry) -> None:
        """Have done what a command must wait for."""
        key = outcome.key
        if key in self.waiting:
            self.waiting[key].append(entry)
        elif outcome.work is None:
            self.waiting[key] = [entry]
            self._loader.submit(self._load, key, self._states.drop(key))
        else:
            self.lend(key, outcome.work, entry)

    def lend(self, key: int, work: Callable[[CampaignState], Any], entry: Entry | None) -> None:
        """Have something worked out from a state that is not lent. entry: the command whose result it is."""
        state = self._states.drop(key)
        if state is not None:
            self.waiting[key] = []
            self._borrower.submit(self._borrow, state, work, entry)
        elif entry is not None:  # dropped since its batch: it is loaded again
            with self._queue.changed:
                self._queue.put_back([entry])

    def take_back(self) -> None:
        """Take returned states, and put the commands that waited for them at the front of the queue.

        Call with the queue's ``changed`` held.
        """
        for key, result, entry, outcome in self.returned:
            entries = self.waiting.pop(key)
            if isinstance(result, BAD_ROWS):
                self._states.quarantine.put(key, None, result, self._clock())
            elif isinstance(result, Exception):
                if isinstance(result, MemoryError):
                    self._states.clear()
                logger.error("a campaign could not be loaded", key=key, exc_info=result)
                failed = Failed(DatabaseUnavailableError("the campaign could not be loaded: try again"))
                self._settle(entries, [failed] * len(entries))
                continue
            elif result is not None:
                self._count(result)
                self._states.put(result)
            if entry is not None:
                self._settle([entry], [outcome])
            self._queue.put_back(entries)
        self.returned.clear()

    def report(self, before: Held) -> None:
        """Have it counted, off the ledger's thread, what of this the database does not have any more."""
        self._loader.submit(self._report, before)

    def analyse(self) -> None:
        """Have the database look at what an import has brought, in a thread that loads nothing meanwhile."""
        self._analyst.submit(self._analyse)

    def aside(self, work: Callable[[], None]) -> None:
        """Have work done that needs no state that is held, and raises nothing, unless the last one is under way."""
        if self._aside is None or self._aside.done():
            self._aside = self._analyst.submit(work)

    # The other threads' side

    def _analyse(self) -> None:
        engine = create_read_engine(self._read.url)  # of its own: it may be at work when the others are given up
        try:
            analyse(engine)
        except Exception as error:  # noqa: BLE001  # the database does so by itself, only later
            logger.warning("an import was not analysed", error=type(error).__name__)
        finally:
            engine.dispose()

    def _report(self, before: Held) -> None:
        try:
            report_losses(self._read, before)
        except Exception:
            logger.exception("what the database has lost could not be counted")

    def _borrow(self, state: CampaignState, work: Callable[[CampaignState], Any], entry: Entry | None) -> None:
        found: CampaignState | None = state
        outcome: Any
        try:
            outcome = work(state)
        except CommandError as error:
            outcome = Failed(error)
        except Exception as error:
            logger.exception("a state could not be worked on", key=state.key)
            found, outcome = None, Failed(error)
        self._return(_Returned(state.key, found, entry, outcome))

    def _load(self, key: int, state: CampaignState | None) -> None:
        result: CampaignState | Exception | None
        try:
            result = load_behind(self._read, key, state)
        except Exception as error:  # noqa: BLE001  # handed to those who wait
            result = error
        self._return(_Returned(key, result))

    def _return(self, returned: _Returned) -> None:
        with self._queue.changed:
            self.returned.append(returned)
            self._queue.changed.notify()
