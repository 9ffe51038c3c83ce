"""Logs that are older than the tests that made them."""

from sqlalchemy import Engine, text

from prudent.store import log

DAY = 86_400 * 1_000_000
ROWS_MAX = 100_000


def age_log(engine: Engine, campaign_id: str, until: int, days: int) -> None:
    """Have the rows of a log up to this one, and their decisions, come so many days earlier. Nobody may serve them."""
    with engine.begin() as connection:
        statement = text("SELECT key FROM campaigns WHERE campaign_id = :name")
        key = connection.execute(statement, {"name": campaign_id}).scalar_one()
        rows, digest = log.read_rows(connection, key, 0, log.SEQUENCE_MAX, ROWS_MAX), None
        for place, row in enumerate(rows):
            if log.is_beginning(row):
                digest = row.digest
                continue
            earlier = row._replace(observed_at=row.observed_at - (days * DAY if row.sequence <= until else 0))
            digest = log.digest_of(digest, earlier)
            rows[place] = earlier._replace(digest=digest)
        log.overwrite(connection, rows)
        moved = "UPDATE decisions SET created_at = created_at - :age WHERE key = :key AND decision_id IN "
        old = "(SELECT decision_id FROM observations WHERE key = :key AND sequence <= :until)"
        connection.execute(text(moved + old), {"age": days * DAY, "key": key, "until": until})
        connection.execute(text("DELETE FROM snapshots"))  # they are of the rows as they were
