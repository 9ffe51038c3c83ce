"""The ledger: one thread that turns the queue into batches, and batches into transactions."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from sqlalchemy import Engine

from prudent.clock import Clock, DecisionIds
from prudent.errors import (
    CampaignBusyError,
    CommandError,
    DatabaseUnavailableError,
    LostFileError,
    OverloadedError,
    QuarantinedError,
    UnavailableError,
    UnknownOutcomeError,
)
from prudent.ledger.access import LedgerAccess
from prudent.ledger.administration import Administration
from prudent.ledger.basis import Basis, StaleDirectoryError
from prudent.ledger.batch import Batch
from prudent.ledger.commands import Command
from prudent.ledger.compaction import Compaction
from prudent.ledger.health import Health
from prudent.ledger.importing import FinishImport
from prudent.ledger.lending import Lending
from prudent.ledger.loading import AnotherDatabaseError, held
from prudent.ledger.maintenance import Maintenance
from prudent.ledger.outcomes import Deferred, Failed, Outcome, Postponed
from prudent.ledger.queue import CommandQueue, Entry, Ticket
from prudent.ledger.state import CampaignState, States
from prudent.ledger.trail import Authored, execute
from prudent.observability.metrics import Metrics
from prudent.settings import Limits
from prudent.store import campaigns
from prudent.store.decisions import RecentDecisions
from prudent.store.failures import Failure, classify
from prudent.store.statements import HeldConnection, check_file

logger = structlog.get_logger(__name__)

RERUNS_MAX = 3
MAINTENANCE_SECONDS = 1.0
RECENT_BYTES_MAX = 16 * 2**20
"""For decisions held until their rewards arrive."""

_COUNTED = (CampaignBusyError, DatabaseUnavailableError, QuarantinedError, UnknownOutcomeError)


class Ledger(LedgerAccess):
    """Start it, submit commands from the event loop, stop it. Everything it holds can be rebuilt from the log."""

    def __init__(self, write: Engine, read: Engine, *, limits: Limits, metrics: Metrics, clock: Clock) -> None:
        self._write, self._read, self._held = write, read, HeldConnection(write)
        self._clock, self._limits, self._metrics = clock, limits, metrics
        self._committed = metrics.commits.labels("committed")
        for reason in ("overloaded", "late", *(kind.__name__ for kind in _COUNTED)):
            metrics.unavailable.labels(reason)  # Prometheus misses the increase with which a counter first appears
        self._new_id = DecisionIds(clock)
        self._queue = CommandQueue(limits.queue_items_max, limits.queue_bytes_max)
        self._states = States(limits.states_bytes_max)
        self._recent = RecentDecisions(RECENT_BYTES_MAX)
        self._maintenance = Maintenance(write, read, self._states, clock=clock, limits=limits)
        self._compaction = Compaction(write, read, clock)
        self._lending = Lending(self._states, self._queue, read, clock, self._settle, self._count_fits)
        self._thread, self._stopping = threading.Thread(target=self._serve, name="ledger"), False
        self._health = Health(write, self._held)

    # The event loop's side

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is queued, write snapshots, end the thread. Blocks."""
        with self._queue.changed:
            self._stopping = True
            self._queue.changed.notify()
        self._thread.join()
        self._lending.shutdown()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Within it the thread runs."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def fault(self) -> str | None:
        """Why commands cannot be recorded at the moment; None if nothing prevents it, as far as is known."""
        if not self._thread.is_alive():
            return "the ledger's thread has ended"
        return self._health.fault

    @property
    def remark(self) -> str | None:
        """How many campaigns are out of service."""
        return self._states.quarantine.remark

    def enqueue(self, commands: Sequence[Command | Administration | Authored]) -> asyncio.Future[list[Any]]:
        """The commands' outcomes in their order, once they are committed. It fails with UnavailableError."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Any]] = loop.create_future()
        # a plain timer: asyncio.timeout, which can also cancel, costs five times as much
        timer = loop.call_later(self._limits.answer_seconds_max, self._give_up_waiting, future, len(commands))
        ticket = Ticket([None] * len(commands), len(commands), loop, future, timer)
        try:
            if not self._thread.is_alive():
                raise DatabaseUnavailableError("the service is starting or stopping: try again")
            self._queue.put([Entry(command, ticket, slot) for slot, command in enumerate(commands)])
        except UnavailableError as error:
            timer.cancel()
            if isinstance(error, OverloadedError):
                self._metrics.unavailable.labels("overloaded").inc(len(commands))
            future.set_exception(error)
        return future

    def enqueue_together(
        self, requests: Sequence[Sequence[Command | Administration | Authored]]
    ) -> list[asyncio.Future[list[Any]]]:
        """As `enqueue` each; the thread does not begin a batch with the first of them alone."""
        with self._queue.changed:
            return [self.enqueue(commands) for commands in requests]

    def _give_up_waiting(self, future: asyncio.Future[list[Any]], commands: int) -> None:
        if not future.done():
            self._metrics.unavailable.labels("late").inc(commands)
            future.set_exception(UnknownOutcomeError("the outcome was not known in time: send the same request again"))

    # The thread's side

    def _serve(self) -> None:
        last_maintenance = time.monotonic()
        while True:
            with self._queue.changed:
                is_over = self._stopping and not self._lending.waiting
                if not self._queue and not self._lending.returned and not is_over:
                    self._queue.changed.wait(MAINTENANCE_SECONDS)
                if self._lending.returned:
                    self._lending.take_back()
                entries = self._queue.take(self._limits.batch_items_max)
                done = self._stopping and not entries and not self._lending.waiting
                self._metrics.queue_items.set(self._queue.items)
            if entries:
                self._execute(entries)
            if done:
                self._held.release()
                self._maintenance.finish()
                return
            if time.monotonic() - last_maintenance >= MAINTENANCE_SECONDS:
                self._maintain()
                last_maintenance = time.monotonic()

    def _maintain(self) -> None:
        try:
            due = self._maintenance.run()
        except Exception as error:
            self._make_room(error)
            logger.exception("maintenance failed")
            return
        if due:
            self._execute([Entry(command, Ticket([None], 1), 0) for command in due])
        key = self._maintenance.next_large()
        if key is not None and key not in self._lending.waiting:
            self._lending.lend(key, self._maintenance.write_large, None)
        self._lending.aside(self._compaction.run)
        self._states.evict()
        self._health.probe()
        self._metrics.quarantined.set(len(self._states.quarantine.entries))
        self._metrics.damaged.set(len(self._states.quarantine.damaged))
        self._metrics.states.set(len(self._states))
        self._metrics.states_bytes.set(self._states.nbytes)
        self._metrics.change_detected.set(self._states.changed)

    def _execute(self, entries: list[Entry]) -> None:
        """Run entries to their outcomes, whatever happens: no error may end the thread or leave a caller waiting."""
        started = time.perf_counter()
        self._health.busy_since = time.monotonic()
        try:
            if entries[0].command.is_batched:
                outcomes = self._run_batch([entry.command for entry in entries])  # type: ignore[misc]  # is_batched
            else:
                outcomes = [self._run_alone(entries[0].command)]  # type: ignore[arg-type]  # not is_batched
        except Exception as error:
            self._make_room(error)
            logger.exception("a batch failed", commands=len(entries))
            outcomes = [Failed(error)] * len(entries)
        self._metrics.batch_seconds.observe(time.perf_counter() - started)
        self._metrics.batch_commands.observe(len(entries))
        self._health.busy_since = None
        self._settle(entries, outcomes)

    def _settle(self, entries: Sequence[Entry], outcomes: list[Any]) -> None:
        finished: dict[asyncio.AbstractEventLoop, list[Ticket]] = {}
        deferred: dict[int, tuple[Deferred, list[Entry]]] = {}
        for entry, outcome in zip(entries, outcomes, strict=True):
            if isinstance(outcome, Postponed):
                self._lending.postpone(outcome, entry)
                continue
            if isinstance(outcome, Deferred):
                if entry.ticket.loop is not None:  # a deadline will be found again
                    deferred.setdefault(outcome.key, (outcome, []))[1].append(entry)
                continue
            if isinstance(outcome, Failed) and isinstance(outcome.error, UnavailableError):
                self._metrics.unavailable.labels(type(outcome.error).__name__).inc()
            if entry.ticket.settle(entry.slot, outcome) and entry.ticket.loop is not None:
                finished.setdefault(entry.ticket.loop, []).append(entry.ticket)
        if deferred:
            with self._queue.changed:
                for first, later in deferred.values():
                    self._queue.defer(first.key, first.campaign_id, later, first.share)
        for loop, tickets in finished.items():
            try:
                loop.call_soon_threadsafe(_resolve, tickets)
            except RuntimeError:  # the loop is closed
                logger.warning("answers dropped: the event loop is closed", requests=len(tickets))

    def _count_recorded(self, batch: Batch) -> None:
        self._metrics.decisions.inc(len(batch.writes.decisions))
        self._metrics.observations.inc(len(batch.writes.observations))
        self._metrics.rewards.inc(len(batch.writes.rewarded))
        self._metrics.missing_values.inc(batch.writes.missing)
        self._metrics.unknown_categories.inc(batch.writes.others)
        self._metrics.ignored_attributes.inc(batch.writes.ignored)
        for state, head in batch.refused:
            state.refusals.add(head)
        for state in batch.basis.touched.values():
            self._count_fits(state)

    def _count_fits(self, state: CampaignState) -> None:
        counts = state.policy.solver_counts
        if counts == state.solver_counted:
            return
        gained = [max(0, now - before) for now, before in zip(counts, state.solver_counted, strict=True)]
        self._metrics.fits.inc(gained[0])
        self._metrics.uncertified_fits.inc(gained[1])
        self._metrics.bound_active_fits.inc(gained[2])
        state.solver_counted = counts

    # Batches and their failures

    def _run_batch(self, commands: list[Command], *, skip_locked: bool = False) -> list[Any]:
        until = time.monotonic() + self._limits.answer_seconds_max  # nobody waits for longer
        return self._run_until(until, commands, reruns=0, skip_locked=skip_locked)

    def _run_until(self, until: float, commands: list[Command], *, reruns: int, skip_locked: bool) -> list[Any]:
        """Run a batch and, where that fails for a reason that passes, again, from the second time on in halves."""
        try:
            return self._attempt(commands, skip_locked=skip_locked, is_rerun=reruns > 0)
        except UnknownOutcomeError as error:
            return [Failed(error)] * len(commands)
        except StaleDirectoryError:
            failure = Failure.RERUN
        except AnotherDatabaseError as change:
            self._forget_all(str(change))
            failure = Failure.RERUN
        except Exception as error:  # noqa: BLE001  # sorted by _give_up or raised to a log there
            failure = classify(error)
            if failure in {Failure.UNAVAILABLE, Failure.DEFECT} or (failure is Failure.LOCKED and skip_locked):
                return self._give_up(commands, failure, error)
        self._metrics.reruns.inc()
        if reruns > RERUNS_MAX or time.monotonic() > until:
            return [Failed(CampaignBusyError("too many concurrent changes: try again"))] * len(commands)
        middle = (len(commands) + 1) // 2 if reruns else len(commands)
        skip_locked = skip_locked or failure is Failure.LOCKED
        return [
            outcome
            for part in (commands[:middle], commands[middle:])
            if part
            for outcome in self._run_until(until, part, reruns=reruns + 1, skip_locked=skip_locked)
        ]

    def _attempt(self, commands: list[Command], *, skip_locked: bool, is_rerun: bool) -> list[Outcome]:
        with self._held.use() as connection:
            check_file(connection, briefly=self._health.refused is None)
            transaction = connection.begin()
            basis = Basis(
                connection,
                self._states,
                clock=self._clock,
                recent=self._recent,
                loading=self._lending.waiting,
                skip_locked=skip_locked,
                is_rerun=is_rerun,
            )
            batch = Batch(basis, new_id=self._new_id)
            try:
                outcomes = batch.run(commands)
            except BaseException:
                basis.restore()
                raise
            try:
                transaction.commit()
            except Exception as error:
                connection.invalidate(error)  # it may still be inside the transaction
                basis.forget()
                self._health.refused = "the outcome of a commit is unknown"
                self._metrics.commits.labels("unknown").inc()
                logger.exception("the outcome of a commit is unknown", commands=len(commands))
                raise UnknownOutcomeError("the outcome is unknown: send the same request again") from error
            try:
                check_file(connection)  # before anything is acknowledged
            except LostFileError:
                basis.forget()
                raise
        self._recent.keep(batch.writes.decisions.values())  # they are likely to be rewarded soon
        self._recent.forget(batch.shared_ids())
        self._recent.forget(decision_id for _, decision_id in batch.writes.rewarded)
        self._committed.inc()
        self._count_recorded(batch)
        if batch.writes.decisions or batch.writes.observations:
            self._health.refused, self._health.wrote = None, True
        return outcomes

    def _give_up(self, commands: list[Command], failure: Failure, error: Exception) -> list[Any]:
        if failure is Failure.LOCKED:  # rows, by another worker, or whole tables, by an operator?
            blocked = self._health.find_obstacle()
            failure, error = (failure, error) if blocked is None else (Failure.UNAVAILABLE, blocked)
        if failure is Failure.UNAVAILABLE:
            return [Failed(self._refuse(error))] * len(commands)
        if len(commands) > 1:  # one by one, so that the one that fails or waits affects no other
            skip_locked = failure is Failure.LOCKED
            return [outcome for command in commands for outcome in self._run_batch([command], skip_locked=skip_locked)]
        if failure is Failure.LOCKED:
            return [Failed(CampaignBusyError("another worker is writing the same rows: try again"))]
        logger.error("a command failed", command=type(commands[0]).__name__, exc_info=error)
        return [Failed(error)]

    def _refuse(self, error: Exception) -> DatabaseUnavailableError:
        self._make_room(error)
        return self._health.refuse(error)

    def _make_room(self, error: BaseException) -> None:
        """Drop everything that can be read again if memory is exhausted, also states that an update left half done."""
        if isinstance(error, MemoryError):
            self._states.clear()
            self._recent.clear()
            logger.error("memory is exhausted: campaigns' states were dropped, and will be read again")

    def _forget_all(self, change: str) -> None:
        """Forget what was read from a database that is another one now, and let the loader count what it has lost."""
        logger.warning("the database is another one: states and recent decisions are read again", change=change)
        self._lending.report(held(self._states, self._recent, self._clock()))
        self._states.clear()
        self._recent.clear()

    def _run_alone(self, command: Administration | Authored) -> Any:
        for _ in range(RERUNS_MAX):
            try:
                with self._write.connect() as connection:
                    check_file(connection)
                    with connection.begin():
                        now = campaigns.read_clock(connection) or self._clock()
                        administered = execute(command, connection, now)
                    check_file(connection)
            except CommandError as error:
                return Failed(error)
            except Exception as error:  # sorted below
                failure = classify(error)
                if failure is Failure.DEFECT:
                    logger.exception("a command failed", command=type(command).__name__)
                    return Failed(error)
                if failure is Failure.UNAVAILABLE:
                    return Failed(self._refuse(error))
            else:
                self._committed.inc()
                if isinstance(command.command if isinstance(command, Authored) else command, FinishImport):
                    self._lending.analyse()
                return administered
            self._metrics.reruns.inc()
        blocked = self._health.find_obstacle()
        if blocked is not None:
            return Failed(self._refuse(blocked))
        return Failed(CampaignBusyError("too many concurrent changes: try again"))


def _resolve(tickets: list[Ticket]) -> None:
    for ticket in tickets:
        if ticket.future is not None and ticket.timer is not None and not ticket.future.done():
            ticket.timer.cancel()
            ticket.future.set_result(ticket.outcomes)
