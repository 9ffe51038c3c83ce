"""A connection to Postgres whose round trips have a time limit.

The server's own limits need a server that runs, and TCP's need a peer that is silent. A backend that is stopped, or a
proxy that keeps the connection and forwards nothing, escapes both: only the client can notice that time is up.
"""

import time
from collections.abc import Generator
from typing import Any

import psycopg

ANSWER_SECONDS_MAX = 12.0
"""Per round trip: a little more than the server's statement_timeout, which ends statements that are only slow."""


class TimeLimitedConnection(psycopg.Connection[Any]):
    """Closes itself, and raises OperationalError, if a round trip takes longer than ``seconds_max``."""

    seconds_max = ANSWER_SECONDS_MAX

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """As psycopg's, which resumes the generator about every 0.1 s, with nothing ready, while it waits."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, steps: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        deadline = time.monotonic() + self.seconds_max
        ready = None
        while True:
            try:
                awaited = steps.send(ready)
            except StopIteration as done:
                return done.value
            ready = yield awaited
            if not ready and time.monotonic() > deadline:
                self.close()
                raise psycopg.OperationalError("the database has not answered in time")
