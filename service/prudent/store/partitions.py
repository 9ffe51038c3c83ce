"""The tables that grow with every request, in partitions: PostgreSQL keeps a campaign's rows together, by its key.

What the schema says of the tables holds for each partition, so later migrations need not know whether there are any.
"""

from sqlalchemy import Connection, text

PARTITIONED = ("decisions", "observations")
_STATE = text(
    "SELECT relkind = 'p', (SELECT count(*) FROM pg_inherits WHERE inhparent = pg_class.oid) "
    "FROM pg_class WHERE oid = to_regclass(:table)"
)
_CONSTRAINTS = text(
    "SELECT format('ALTER TABLE %I ADD CONSTRAINT %I %s', CAST(:table AS text), conname, pg_get_constraintdef(oid)) "
    "FROM pg_constraint WHERE conrelid = to_regclass(:table) AND contype <> 'n' ORDER BY contype = 'p', conname"
)
_INDEXES = text(
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index WHERE indrelid = to_regclass(:table) "
    "AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = indexrelid) ORDER BY 1"
)


class PartitionsError(ValueError):
    """The tables have another number of partitions, which cannot be changed."""


def partition(connection: Connection, partitions: int) -> None:
    """Have the tables in so many partitions, with the rows that they have. Raises PartitionsError.

    In the caller's transaction, and without its time-outs: nothing is written meanwhile, and all rows are copied.
    """
    for table in PARTITIONED:
        is_partitioned, present = connection.execute(_STATE, {"table": table}).one()
        if not is_partitioned:
            _convert(connection, table, partitions)
        elif present != partitions:
            raise PartitionsError(
                f"the table {table} has {present} partitions, which cannot become {partitions}: export the campaigns, "
                "and import them into a database of its own"
            )


def _convert(connection: Connection, table: str, partitions: int) -> None:
    # the rest of the definition is read from the table, and made once the rows are in: a constraint that PostgreSQL has
    # not checked for old rows stays so, and an index is built in one go. The primary key comes last: of indexes that
    # seem to cost the same, as all do before the first ANALYZE, PostgreSQL takes the newest
    rest = [one for read in (_INDEXES, _CONSTRAINTS) for one in connection.execute(read, {"table": table}).scalars()]
    run = connection.exec_driver_sql
    run(f"ALTER TABLE {table} RENAME TO {table}_plain")
    run(f"CREATE TABLE {table} (LIKE {table}_plain INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY HASH (key)")
    for number in range(partitions):
        part = f"MODULUS {partitions}, REMAINDER {number}"
        run(f"CREATE TABLE {table}_{number} PARTITION OF {table} FOR VALUES WITH ({part})")
    copied = run(f"INSERT INTO {table} SELECT * FROM {table}_plain").rowcount  # noqa: S608  # our own names
    run(f"DROP TABLE {table}_plain")
    for statement in rest:
        run(statement.replace("%", "%%"))
    if copied:  # a table that is known to be empty would be read from end to end, by plans that are kept while it grows
        run(f"ANALYZE {table}")
