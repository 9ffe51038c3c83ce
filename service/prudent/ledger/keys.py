"""Commands that create and revoke API keys."""

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from prudent.errors import ConflictError, InvalidCommandError, NotFoundError
from prudent.identifiers import is_id
from prudent.ledger.commands import CreateKey, RevokeKey
from prudent.store import keys
from prudent.store.keys import KeyRow

NOTE_MAX = 200


def check_key(name: str, note: str) -> None:
    """Raise InvalidCommandError for a name or a note that no key can have."""
    if not is_id(name):
        raise InvalidCommandError(f"{name!r} is not a name: use 1 to 128 letters, digits and . _ ~ -", field="name")
    if len(note) > NOTE_MAX or not note.isprintable():
        raise InvalidCommandError(f"must have at most {NOTE_MAX} characters, all of them printable", field="note")


def create_key(command: CreateKey, connection: Connection, now: int) -> None:
    """Store a key's digest. Raises CommandError, also if a valid key has the name."""
    name, note = command.name, command.note
    check_key(name, note)
    try:
        keys.add_key(connection, KeyRow(name, command.role, command.ending, note, now, None), command.digest)
    except IntegrityError:
        raise ConflictError(
            f"a valid key named {name} exists already: revoke it first, or choose another name", field="name"
        ) from None


def revoke_key(command: RevokeKey, connection: Connection, now: int) -> None:
    """Revoke a key. Raises NotFoundError."""
    if not keys.revoke_key(connection, command.name, now):
        raise NotFoundError(f"there is no valid key named {command.name}")
