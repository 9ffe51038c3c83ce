"""Statements about the categories that campaigns have learned. The table only grows, under the lock of the head."""

from collections.abc import Collection, Iterable

from sqlalchemy import Connection, select

from prudent.store.statements import Insertion, Lookup
from prudent.store.tables import CategoryRow, categories

_OF_CAMPAIGNS = Lookup(
    select(*(categories.c[name] for name in CategoryRow._fields)).order_by(
        categories.c.key, categories.c.feature, categories.c.position
    ),
    categories.c.key,
)
_INSERTION = Insertion(categories, CategoryRow._fields)


def read_categories(connection: Connection, keys: Collection[int]) -> dict[int, list[CategoryRow]]:
    """The learned categories of these campaigns, by feature and position."""
    found: dict[int, list[CategoryRow]] = {key: [] for key in keys}
    for row in _OF_CAMPAIGNS.rows(connection, sorted(keys)):
        found[row[0]].append(CategoryRow._make(row))
    return found


def insert_categories(connection: Connection, rows: Iterable[CategoryRow]) -> None:
    """Add categories, in the order of their keys and positions."""
    _INSERTION.execute(connection, sorted(rows))
