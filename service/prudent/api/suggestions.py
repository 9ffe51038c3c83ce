"""Which field may have been meant by one that a body does not have."""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from prudent.campaigns import Schema

ALIKE_MIN = 0.6


def meant(title: str, location: Sequence[str | int]) -> str | None:
    """The field most like an unknown one, of the schema that it was found in; None if none is alike.

    title: of the body's schema. location: as pydantic has it, the unknown name last.
    """
    *path, name = location
    schemas = [schema for schema in _subclasses(Schema) if schema.__name__ == title]
    for step in path:
        below = [inner for schema in schemas if step in schema.model_fields for inner in _fields_of(schema, str(step))]
        schemas = below or schemas  # not a field, but an item of a list or the member of a union
    names = [field.alias or key for schema in schemas for key, field in schema.model_fields.items()]
    close = get_close_matches(str(name), names, n=1, cutoff=ALIKE_MIN)
    return close[0] if close else None


def _fields_of(schema: type[Schema], field: str) -> Iterator[type[Schema]]:
    """The schemas that a field's values may have."""
    waiting: list[Any] = [schema.model_fields[field].annotation]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, type) and issubclass(kind, Schema):
            yield kind
        waiting += get_args(kind)


def _subclasses(schema: type[Schema]) -> Iterator[type[Schema]]:
    for one in schema.__subclasses__():
        yield one
        yield from _subclasses(one)
