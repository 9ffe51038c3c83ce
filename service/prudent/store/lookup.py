"""Look-ups by many ids in one statement with one parameter, so that it is compiled and planned once."""

from collections.abc import Collection, Sequence
from typing import Any

import orjson
from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Connection,
    Select,
    Text,
    any_,
    bindparam,
    column,
    func,
    select,
)
from sqlalchemy import cast as sql_cast

from prudent.store.prepared import Prepared


class Lookup:
    """``statement`` restricted to the rows whose ``among`` is one of the ids given at each call."""

    def __init__(self, statement: Select[Any], among: ColumnElement[Any]) -> None:
        members: Select[Any] = select(column("value")).select_from(func.json_each(bindparam("ids", type_=Text)))
        array = bindparam("ids", type_=ARRAY(among.type))
        self._sqlite = Prepared(statement.where(among.in_(members)))
        self._postgres = Prepared(statement.where(among == any_(sql_cast(array, ARRAY(among.type)))))

    def rows(self, connection: Connection, ids: Collection[str] | Collection[int], **parameters: Any) -> Sequence[Any]:
        """The rows found, in the statement's own order. No round trip for no ids."""
        if not ids:
            return []
        if connection.dialect.name == "postgresql":
            return self._postgres.rows(connection, {"ids": list(ids), **parameters})
        encoded = orjson.dumps(list(ids)).decode()
        return self._sqlite.rows(connection, {"ids": encoded, **parameters})
