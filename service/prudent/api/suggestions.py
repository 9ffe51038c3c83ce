"""What may have been meant by a field or a path that does not exist."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

from prudent.campaigns import Schema
from prudent.spelling import closest, likeness

PATH_COMPARED_MAX, STEPS_ALIKE_MIN = 200, 0.7
"""Of a path that does not exist: the longest that is compared, and how like each of its steps must be."""
WHOLE = {"CampaignChange": "CampaignConfiguration", "AlgorithmChange": "Algorithm", "ArmChange": "ArmConfiguration"}
"""Schemas of changes, and the schemas of what they change: other fields of these are settled at creation."""
CHANGED_ELSEWHERE = {"arms": "here: POST /campaigns/{campaign_id}/arms adds one"}
"""Of these fields, those that a call of their own changes."""
Place = Sequence[str | int]


def about_unknown(title: str, location: Place, missing: Iterable[Place]) -> str:
    """What to say of a field that a body does not have, with what may have been meant if anything is like it.

    title: of the body's schema. location: as pydantic has it, the unknown name last. missing: where fields are.
    """
    *path, last = location
    name = str(last)
    schemas, siblings = _schemas_at(title, path)
    for schema in schemas:
        if any(name in one.model_fields for one in _named(WHOLE.get(schema.__name__, ""))):
            return f"cannot be changed {CHANGED_ELSEWHERE.get(name, 'once the campaign exists')}"
    owners = sorted(_tag_of(one) for one in siblings if name in one.model_fields)
    if owners:
        return f"unknown field: it belongs to {listed(owners)}"
    names = [field.alias or key for schema in schemas for key, field in schema.model_fields.items()]
    meant = closest(name, names)
    inner = [meant] if meant else [one for schema in schemas for one in _paths_to(schema, name)]
    required = inner or [str(one[-1]) for one in missing if list(one[:-1]) == path]
    is_clear = bool(inner) or len(required) == 1
    return f"unknown field: did you mean {required[0]}?" if is_clear else "unknown field"


def required_of(title: str) -> list[str]:
    """The fields that a schema cannot do without."""
    return [
        field.alias or key
        for schema in _named(title)
        for key, field in schema.model_fields.items()
        if field.is_required()
    ]


def listed(names: Sequence[str]) -> str:
    """Names as a sentence lists them."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def nearest_path(path: str, templates: Iterable[str]) -> str | None:
    """The template of the path that may have been meant.

    It has the same steps, but for misspelt ones, steps before it such as a version, or one that lacks.
    """
    if len(path) > PATH_COMPARED_MAX:
        return None
    steps = path.strip("/").split("/")
    best, found = 0.0, None
    for template in templates:
        wanted = template.strip("/").split("/")
        likeness = max(
            _likeness(steps, wanted),
            0.9 * _likeness(steps[-len(wanted) :], wanted) if len(steps) > len(wanted) else 0.0,
            0.8 * _likeness(steps, wanted[:-1]) if len(steps) == 1 else 0.0,
            0.7 * _likeness(steps, wanted[-1:]) if len(steps) == 1 else 0.0,
        )
        if likeness > best:
            best, found = likeness, template
    return found


def _likeness(steps: Sequence[str], wanted: Sequence[str]) -> float:
    """From 0 to 1: how like the steps of a path are to those of a template, whose variables are like everything."""
    if len(steps) != len(wanted):
        return 0.0
    ratios = [likeness(step, one) for step, one in zip(steps, wanted, strict=True) if not one.startswith("{")]
    return sum(ratios) / len(ratios) if ratios and min(ratios) > STEPS_ALIKE_MIN else 0.0


def _schemas_at(title: str, path: Place) -> tuple[list[type[Schema]], list[type[Schema]]]:
    """The schemas that a place of a body may have, and those that it might have had by another tag."""
    schemas = _named(title)
    siblings: list[type[Schema]] = []
    for step in path:
        below = [inner for schema in schemas if step in schema.model_fields for inner in _fields_of(schema, str(step))]
        tagged = [schema for schema in schemas if _tag_of(schema) == step]
        if below:
            schemas, siblings = below, []
        elif tagged:
            schemas, siblings = tagged, [schema for schema in schemas if schema not in tagged]
    return schemas, siblings


def _paths_to(schema: type[Schema], name: str) -> Iterator[str]:
    """Where a field of this name stands one level below, as a dotted path."""
    for key, field in schema.model_fields.items():
        if any(name in inner.model_fields for inner in _fields_of(schema, key)):
            is_list = "list[" in str(field.annotation)
            yield f"{key}.0.{name}" if is_list else f"{key}.{name}"


def _tag_of(schema: type[Schema]) -> str:
    """The name of a member of a union: the only value that its first field of one value may have."""
    for field in schema.model_fields.values():
        values = get_args(field.annotation)
        if len(values) == 1 and isinstance(values[0], str):
            return values[0]
    return ""


def _named(title: str) -> list[type[Schema]]:
    return [schema for schema in _subclasses(Schema) if schema.__name__ == title]


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
