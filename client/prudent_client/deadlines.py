"""Attempts that end in time, for the synchronous client.

httpx limits each step of an exchange, but not the exchange: while a name is looked up, or a reply comes byte by byte,
any time may pass.
"""

import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Inbox = SimpleQueue[Callable[[], None]]

IDLE_SECONDS_MAX = 10.0
"""How long a thread waits for the next attempt before it ends."""


class Attempts:
    """Makes attempts in daemon threads of its own, which are used again: handing over takes some 20 microseconds.

    An attempt that is given up goes on in its thread until one of httpx's time-outs ends it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[Inbox] = []
        self._process = os.getpid()

    def run(self, attempt: Callable[[], T], seconds: float) -> T:
        """The attempt's result, in the caller's context. Raises what it raises, and TimeoutError after the seconds."""
        context, outcome = copy_context(), SimpleQueue[tuple[T | None, BaseException | None]]()

        def work() -> None:
            try:
                outcome.put((context.run(attempt), None))
            except BaseException as error:  # noqa: BLE001  # the caller's to handle
                outcome.put((None, error))

        self._find_thread().put(work)
        try:
            result, error = outcome.get(timeout=seconds)
        except Empty:
            raise TimeoutError from None
        if error is not None:
            raise error
        return result  # type: ignore[return-value]  # there is one where there is no error

    def _find_thread(self) -> Inbox:
        with self._lock:
            if self._process != os.getpid():  # threads do not survive a fork
                self._idle, self._process = [], os.getpid()
            if self._idle:
                return self._idle.pop()
        inbox: Inbox = SimpleQueue()
        threading.Thread(target=self._serve, args=(inbox,), name="prudent-client", daemon=True).start()
        return inbox

    def _serve(self, inbox: Inbox) -> None:
        while True:
            try:
                work = inbox.get(timeout=IDLE_SECONDS_MAX)
            except Empty:
                with self._lock:
                    if inbox in self._idle:
                        self._idle.remove(inbox)
                        return
                continue  # it has just been found: the work is on its way
            work()
            del work  # what it holds, the response and the error, is not kept while idle
            with self._lock:
                self._idle.append(inbox)
