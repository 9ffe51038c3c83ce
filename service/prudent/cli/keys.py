"""Commands about API keys: create, list, revoke."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import orjson
import typer
from rich.table import Table

from prudent.cli.console import DatabaseUrl, console, fail, inform, settings_or_fail
from prudent.errors import CommandError
from prudent.security.keys import Role, digest_of, ending_of, new_key

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from prudent.ledger.commands import CreateKey, RevokeKey
    from prudent.store.keys import KeyRow

app = typer.Typer(
    help="Create, list and revoke API keys. Running servers pick up changes within seconds.", no_args_is_help=True
)
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Who uses the key: letters, digits and . _ ~ -")],
    role: Annotated[
        Role,
        typer.Option(
            help="evaluator: evaluate flags only. reader: GET. writer: both, and select, reward and observations. "
            "admin: also create, change and delete."
        ),
    ],
    note: Annotated[str, typer.Option(help="Free text, shown in the list.")] = "",
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a key and print it. It is shown only once: the database stores only its digest.

    From the first key on, the service refuses requests without a valid key.
    """
    from prudent.ledger.commands import CreateKey

    key = new_key()
    now = _change(CreateKey(name, role, note, digest_of(key.encode()), ending_of(key)), database_url)
    if as_json:
        from prudent.store.keys import KeyRow

        _print_json({"key": key, **_described(KeyRow(name, role, ending_of(key), note, now, None))})
        return
    inform(f"The key of {name} ({role}). It is not shown again:")
    typer.echo(key)


@app.command("list")
def list_command(as_json: AsJson = False, database_url: DatabaseUrl = None) -> None:
    """List all keys, including revoked ones, by their last four characters."""
    from prudent.store.keys import list_keys

    with _opened(database_url) as connection:
        rows = list_keys(connection)
    if as_json:
        _print_json([_described(row) for row in rows])
        return
    if not rows:
        console.print("there are no keys yet: create one with prudent keys create NAME --role admin")
        return
    table = Table("name", "role", "key", "created", "revoked", "note")
    for row in rows:
        revoked = "" if row.revoked_at is None else _instant(row.revoked_at)
        table.add_row(row.name, row.role, f"…{row.ending}", _instant(row.created_at), revoked, row.note)
    console.print(table, markup=False)


@app.command()
def revoke(
    name: Annotated[str, typer.Argument(help="The key's name.")],
    as_json: AsJson = False,
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a key permanently. Running servers refuse it after PRUDENT_KEYS_REFRESH_SECONDS."""
    from prudent.ledger.commands import RevokeKey

    now = _change(RevokeKey(name), database_url)
    if as_json:
        _print_json({"name": name, "revoked_at": _instant(now)})
        return
    seconds = settings_or_fail().keys_refresh_seconds
    console.print(f"{name} is revoked; running servers refuse it within {seconds} s", markup=False)


def _change(command: "CreateKey | RevokeKey", database_url: str | None) -> int:
    """Carry a command out; the time that is noted for it. Ends the program with a one-line message if it is wrong."""
    from prudent.ledger.commands import ON_COMMAND_LINE
    from prudent.ledger.trail import Authored, execute

    now = time.time_ns() // 1_000
    try:
        with _opened(database_url) as connection:
            execute(Authored(command, ON_COMMAND_LINE), connection, now)
    except CommandError as error:
        fail(error.message if error.field is None else f"{error.field}: {error.message}")
    return now


@contextmanager
def _opened(database_url: str | None) -> Iterator["Connection"]:
    """A transaction on the database; ends the program with a one-line message if it cannot be used."""
    from prudent.cli.database import opened_database

    with opened_database(database_url) as engine, engine.begin() as connection:
        yield connection


def _described(row: "KeyRow") -> dict[str, str | None]:
    return {
        "name": row.name,
        "role": row.role,
        "ending": row.ending,
        "note": row.note,
        "created_at": _instant(row.created_at),
        "revoked_at": None if row.revoked_at is None else _instant(row.revoked_at),
    }


def _instant(microseconds: int) -> str:
    return datetime.fromtimestamp(microseconds / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _print_json(value: object) -> None:
    typer.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())
