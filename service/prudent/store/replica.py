"""A standby of PostgreSQL that reports, the dashboard and exports read, so that they cost the primary nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Concatenate, ParamSpec, TypeVar

from sqlalchemy import Connection, Engine, text

from prudent.errors import DatabaseUnavailableError
from prudent.store.engines import UnsupportedDatabaseError
from prudent.store.read_pool import Reader

P = ParamSpec("P")
R = TypeVar("R")

CATCH_UP_SECONDS_MAX = 2.0
POLL_SECONDS = 0.02
# a standby that has replayed all that it has received is not behind, however long ago that was
_LAG = text(
    "SELECT CASE WHEN NOT pg_is_in_recovery() OR pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn() THEN 0 "
    "ELSE extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END"
)
_IDENTITY = text("SELECT pg_is_in_recovery(), (SELECT system_identifier FROM pg_control_system())")
_WRITTEN = text("SELECT pg_current_wal_flush_lsn()")
_HAS = text("SELECT NOT pg_is_in_recovery() OR pg_last_wal_replay_lsn() >= CAST(:position AS pg_lsn)")


class Replica(Reader):
    """Runs functions that read a standby of what ``primary`` reads, off the event loop."""

    def __init__(self, engine: Engine, primary: Reader) -> None:
        super().__init__(engine)
        self._primary = primary

    async def __call__(self, read: Callable[Concatenate[Connection, P], R], *args: P.args, **kwargs: P.kwargs) -> R:
        """As of any reader; notes the lag on the way."""

        def noting(connection: Connection, /, *given: P.args, **named: P.kwargs) -> R:
            self.lag_seconds = lag_seconds(connection)
            return read(connection, *given, **named)

        return await super().__call__(noting, *args, **kwargs)

    async def lag(self) -> float | None:
        """How far it is behind now, as `lag_seconds`. Raises DatabaseUnavailableError."""
        return await super().__call__(lag_seconds)

    async def catch_up(self) -> None:
        """As of any reader, for so long at most: a page says how far behind it is, and a reader can reload it."""
        with suppress(DatabaseUnavailableError, TimeoutError):
            async with asyncio.timeout(CATCH_UP_SECONDS_MAX):
                position = await self._primary(_written)
                while not await super().__call__(_has, position):
                    await asyncio.sleep(POLL_SECONDS)

    def close(self) -> None:
        """As of any reader; nobody else has its engine."""
        super().close()
        self._engine.dispose()


def _written(connection: Connection) -> str:
    return str(connection.execute(_WRITTEN).scalar_one())


def _has(connection: Connection, position: str) -> bool:
    return bool(connection.execute(_HAS, {"position": position}).scalar_one())


def lag_seconds(connection: Connection) -> float | None:
    """How far a standby is behind its primary; None before it has replayed its first transaction."""
    lag = connection.execute(_LAG).scalar_one()
    return None if lag is None else max(0.0, float(lag))


def check_replica(replica: Engine, primary: Engine) -> None:
    """Raise UnsupportedDatabaseError unless one is a standby of the other."""
    if {replica.dialect.name, primary.dialect.name} != {"postgresql"}:
        raise UnsupportedDatabaseError("PRUDENT_READ_DATABASE_URL needs PostgreSQL, which has standbys: unset it")
    with replica.connect() as connection:
        is_standby, identifier = connection.execute(_IDENTITY).one()
    if not is_standby:
        raise UnsupportedDatabaseError(
            "PRUDENT_READ_DATABASE_URL leads to a primary, not to a standby (pg_is_in_recovery() is false): "
            "name a standby, or unset it"
        )
    with primary.connect() as connection:
        if connection.execute(_IDENTITY).one()[1] != identifier:
            raise UnsupportedDatabaseError(
                "PRUDENT_READ_DATABASE_URL leads to a standby of another server than PRUDENT_DATABASE_URL"
            )
