"""The commands that make, list and revoke API keys."""

import json

import pytest
from sqlalchemy import text

from prudent.store.engines import create_read_engine, parse_database_url
from tests.api.keys import make_key, prudent
from tests.conftest import migrate_empty


def test_only_digests_are_stored(database_url: str) -> None:
    """A stolen backup would be a stolen key."""
    migrate_empty(database_url)
    key = make_key(database_url, "app", "writer")
    assert key.startswith("prudent_")
    assert len(key) >= 40
    engine = create_read_engine(parse_database_url(database_url))
    with engine.connect() as connection:
        stored = repr(connection.execute(text("SELECT * FROM api_keys")).all())
    engine.dispose()
    assert key[8:-4] not in stored
    assert key[-4:] in stored
    shown = prudent("keys", "list", "--json", "--database-url", database_url)
    (row,) = json.loads(shown.stdout)
    assert (row["name"], row["role"], row["ending"], row["revoked_at"]) == ("app", "writer", key[-4:], None)
    assert key not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("create", "app", "--role", "writer"), "named app"),
        (("create", "a b", "--role", "writer"), "letters, digits"),
        (("create", "b", "--role", "reader", "--note", "x" * 201), "note"),
        (("create", "b", "--role", "reader", "--note", "a\nb"), "note"),
        (("create", "b", "--role", "owner"), "reader"),
        (("revoke", "nobody"), "no valid key"),
    ],
)
def test_key_commands_refuse_what_makes_no_sense(sqlite_database: str, arguments: tuple[str, ...], reason: str) -> None:
    """A second key of one name could not be revoked alone; a typing error would revoke nothing in silence."""
    migrate_empty(sqlite_database)
    make_key(sqlite_database, "app", "writer")
    done = prudent("keys", *arguments, "--database-url", sqlite_database)
    assert done.exit_code in {1, 2}
    assert reason in done.stderr
    assert len(json.loads(prudent("keys", "list", "--json", "--database-url", sqlite_database).stdout)) == 1


def test_a_revoked_name_can_be_used_again(sqlite_database: str) -> None:
    """Otherwise nobody could replace a lost key under its name."""
    migrate_empty(sqlite_database)
    first = make_key(sqlite_database, "app", "writer")
    assert prudent("keys", "revoke", "app", "--database-url", sqlite_database).exit_code == 0
    assert prudent("keys", "revoke", "app", "--database-url", sqlite_database).exit_code == 1
    assert make_key(sqlite_database, "app", "writer") != first
