"""Whether the database takes new rows: asked after it has refused some, when no client may be asking."""

from sqlalchemy import Connection, text

ROWS = 2_000
"""Of 36 bytes: room that a few batches need, too, so that "it is writable again" lasts longer than the question."""


def write_and_forget(connection: Connection) -> None:
    """Fill a table that is gone again at the end of the transaction. Raises what the database raises."""
    kind = "TABLE" if connection.dialect.name == "sqlite" else "TEMPORARY TABLE"
    connection.execute(text(f"CREATE {kind} prudent_probe (filler TEXT)"))
    connection.execute(
        text(
            "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :rows) "
            "INSERT INTO prudent_probe SELECT '0123456789abcdef0123456789abcdef0123' FROM numbers"
        ),
        {"rows": ROWS},
    )
    connection.execute(text("DROP TABLE prudent_probe"))
