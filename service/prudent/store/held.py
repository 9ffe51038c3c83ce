"""A connection that stays with its one user from transaction to transaction."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Engine


class HeldConnection:
    """For one thread. To take one from the pool and give it back costs more than what a small transaction does."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._connection: Connection | None = None

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """The connection, outside of any transaction. After an error another one is taken the next time."""
        if self._connection is None:
            self._connection = self._engine.connect()
        try:
            yield self._connection
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Give it back to the pool, which rolls back what is not committed."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
