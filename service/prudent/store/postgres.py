"""A connection to Postgres with limits that hold, also through a pooler, and whose commits are what they say.

The server's own limits need a server that runs, and TCP's need a peer that is silent. A backend that is stopped, or a
proxy that keeps the connection and forwards nothing, escapes both: only the client can notice that time is up.
"""

import time
from collections.abc import Generator, Mapping
from typing import Any

import psycopg

ANSWER_SECONDS_MAX = 12.0
"""Per round trip: a little more than the server's statement_timeout, which ends statements that are only slow."""


class LimitedConnection(psycopg.Connection[Any]):
    """Closes itself, and raises OperationalError, if a round trip takes longer than ``seconds_max``.

    ``at_begin``: what every transaction has to begin with. Through a pooler a session's settings and prepared
    statements may be those of another client in the next transaction, so limits are set in each of them, and
    statements are not prepared.
    """

    seconds_max = ANSWER_SECONDS_MAX
    at_begin: str | None = None
    _warning: str | None = None

    def set_limits(self, limits_ms: Mapping[str, int]) -> None:
        """Set PostgreSQL's settings of these names. Raises OperationalError if the session does not keep them."""
        self.add_notice_handler(self._note)
        if self._is_pooled():
            self.prepare_threshold = None
            settings = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in limits_ms.items())
            self.at_begin = f"SELECT {settings}"
            return
        settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in limits_ms.items())
        self.execute(f"SELECT {settings}")
        self.commit()
        # in a transaction of its own: what only the one before had is found here
        query = "SELECT name, setting FROM pg_settings WHERE name = ANY (%s)"
        found = dict(self.execute(query, (list(limits_ms),)).fetchall())
        self.commit()
        for name, value in limits_ms.items():
            if found.get(name) != str(value):
                raise psycopg.OperationalError(f"{name} was set to {value} ms, but the session has {found.get(name)}")

    def _is_pooled(self) -> bool:
        """Whether the process that answers is another one than the process that took the connection."""
        row = self.execute("SELECT pg_backend_pid()").fetchone()
        self.commit()
        return row is None or row[0] != self.info.backend_pid

    def _note(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if diagnostic.severity_nonlocalized == "WARNING":
            self._warning = diagnostic.message_primary

    def commit(self) -> None:
        """As psycopg's. Raises OperationalError if the server warns.

        It does so where it has given up waiting for a synchronous standby: the transaction is committed, but would be
        lost with this server.
        """
        self._warning = None
        super().commit()
        if self._warning is not None:
            raise psycopg.OperationalError(f"the server committed with a warning: {self._warning}")

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
