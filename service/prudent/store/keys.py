"""Statements about API keys, which are never stored themselves, and about sessions that were signed out."""

from typing import NamedTuple

from sqlalchemy import Connection, delete, exists, insert, select, update

from prudent.store.tables import api_keys, ended_sessions


class KeyRow(NamedTuple):
    """A row of ``api_keys``. ending: the key's last four characters."""

    name: str
    role: str
    ending: str
    note: str
    created_at: int
    revoked_at: int | None


def add_key(connection: Connection, row: KeyRow, digest: bytes) -> None:
    """Store a key. Raises IntegrityError if a valid key has that name."""
    connection.execute(insert(api_keys).values(digest=digest, **row._asdict()))


def list_keys(connection: Connection) -> list[KeyRow]:
    """All keys, revoked ones too, oldest first."""
    columns = [api_keys.c[name] for name in KeyRow._fields]
    found = connection.execute(select(*columns).order_by(api_keys.c.created_at, api_keys.c.name))
    return [KeyRow(*row) for row in found]


def revoke_key(connection: Connection, name: str, now: int) -> bool:
    """Revoke the valid key of that name; whether there was one."""
    valid = (api_keys.c.name == name) & api_keys.c.revoked_at.is_(None)
    return connection.execute(update(api_keys).where(valid).values(revoked_at=now)).rowcount > 0


def valid_keys(connection: Connection) -> list[tuple[bytes, str, str]]:
    """Digests, roles and names of the keys that are not revoked."""
    columns = api_keys.c.digest, api_keys.c.role, api_keys.c.name
    found = connection.execute(select(*columns).where(api_keys.c.revoked_at.is_(None)))
    return [(digest, role, name) for digest, role, name in found]


def was_key_made(connection: Connection) -> bool:
    """Whether there ever was a key, revoked ones included."""
    return bool(connection.execute(select(exists().select_from(api_keys))).scalar_one())


def end_session(connection: Connection, session: bytes, expires_at: int, now: int) -> None:
    """Note that a session was signed out, once, and drop those that have expired since."""
    connection.execute(delete(ended_sessions).where(ended_sessions.c.expires_at < now))
    if session not in find_ended_sessions(connection):
        connection.execute(insert(ended_sessions).values(session=session, expires_at=expires_at))


def find_ended_sessions(connection: Connection) -> set[bytes]:
    """The sessions that were signed out."""
    return {bytes(session) for (session,) in connection.execute(select(ended_sessions.c.session))}
