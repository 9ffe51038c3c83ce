"""Statements that check the tables against each other."""

from sqlalchemy import Connection, func, select

from prudent.store.tables import decisions, observations


def find_damage(connection: Connection) -> list[str]:
    """What SQLite finds wrong with its file; nothing on Postgres, which has tools of its own (pg_amcheck)."""
    if connection.dialect.name != "sqlite":
        return []
    found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA integrity_check(5)")]
    return [] if found == ["ok"] else found


def find_faults(connection: Connection, key: int, head: int) -> list[str]:
    """What contradicts the promises in one campaign's rows: gaps in the log, rewards that fit no decision."""
    faults = []
    is_key = observations.c.key == key
    count, first, last = connection.execute(
        select(func.count(), func.min(observations.c.sequence), func.max(observations.c.sequence)).where(
            is_key, observations.c.sequence <= head
        )
    ).one()
    if head and (count, first, last) != (head, 1, head):
        faults.append(f"the log should be 1 to {head}, but has {count} rows from {first} to {last}")
    joined = observations.join(decisions, decisions.c.decision_id == observations.c.decision_id)
    strangers = connection.execute(
        select(func.count())
        .select_from(joined)
        .where(is_key, (decisions.c.key != key) | (decisions.c.features != observations.c.features))
    ).scalar_one()
    if strangers:
        faults.append(f"{strangers} rewards do not fit the decision that they name")
    return faults
