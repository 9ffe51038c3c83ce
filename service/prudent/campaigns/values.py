"""The vocabulary of the contract: ids, numbers and limits, strict in what they accept."""

import json
import re
from collections.abc import Iterable
from typing import Annotated, Any, TypeVar

import orjson
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from prudent.identifiers import ID_PATTERN

DIMENSION_MAX = 512
ARMS_MAX = 1_000
DISJOINT_FLOATS_MAX = 4_000_000
"""K d^2 of a disjoint model: each of its matrices takes eight bytes a float."""
RETENTION_DAYS_MAX = 36_500
EXACT_UNTIL_MAX = 1_000_000_000
FEATURE_MAX = 1e6
REWARD_MAX = 1e9
INTEGER_MAX = 2**53 - 1
YEAR_MAX = 9_998
"""Of an instant: the calendar ends a year later, and what is shown of an instant may be rounded up."""
DESCRIPTION_MAX = 2_000
SUBJECT_MAX = 256
WITHOUT_CONTROLS_PATTERN = r"^[^\x00-\x1f]+$"

T = TypeVar("T")


class InvalidConfigurationError(ValueError):
    """A combination of settings that makes no sense. ``field`` is its dotted name in the request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def known(value: T | None) -> T:
    """A value that resolution filled in. Raises ValueError where it did not."""
    if value is None:
        raise ValueError("the configuration is not resolved")
    return value


def _not_a_path_step(value: str) -> str:
    if value in {".", ".."}:
        raise ValueError("must not be '.' or '..'")
    return value


_NAMES = re.compile(rb'"\s*:')
"""Follows every name of an object; in a text it would need an escaped quote."""


_PLAIN = frozenset({str, float, int, bool, type(None)})
"""Values without names in them."""


class RepeatedNameError(ValueError):
    """An object of a JSON text has a name twice, so that a parser would take one of the values and drop the other."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def refuse_repeated_names(text: bytes | bytearray, parsed: object) -> None:
    """Raise RepeatedNameError if an object has one name twice. parsed: what a parser made of the text, or a model.

    Nearly all texts have as many colons as names were parsed, which costs next to nothing to see; others are looked at
    more closely, and only what still has too many is parsed again.
    """
    names = _names_in(parsed)
    if text.count(b":") > names and len(_NAMES.findall(text)) > names:
        json.loads(text, object_pairs_hook=_refuse_pairs, parse_int=str, parse_float=str, parse_constant=str)


def _names_in(parsed: object) -> int:
    names, waiting = 0, [parsed]
    while waiting:
        one = waiting.pop()
        if type(one) in _PLAIN:
            continue
        if isinstance(one, list):
            if one and type(one[0]) not in _PLAIN:
                waiting += one
        elif isinstance(one, dict):
            names += len(one)
            if not _PLAIN.issuperset(map(type, one.values())):
                waiting += one.values()
        else:  # a model, or something without names
            names += len(getattr(one, "__pydantic_fields_set__", ()))
            waiting += getattr(one, "__dict__", {}).values()
    return names


def _refuse_pairs(pairs: list[tuple[str, object]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise RepeatedNameError(name)
        seen.add(name)


class Schema(BaseModel):
    """Base of every body: strict types, no unknown fields, no infinities, immutable."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


def _has_no_nul(value: str) -> str:
    if "\x00" in value:
        raise ValueError("must not contain NUL, which PostgreSQL cannot store")
    return value


StoredText = Annotated[str, AfterValidator(_has_no_nul)]
"""A text that is stored as it is, and not in JSON, or that is looked for so."""
Identifier = Annotated[
    str,
    StringConstraints(pattern=ID_PATTERN),
    AfterValidator(_not_a_path_step),
]
CampaignId = Annotated[Identifier, Field(description="Campaign id.", examples=["dose-advice"])]
ArmId = Annotated[Identifier, Field(description="Arm id, unique in its campaign.", examples=["a"])]
DecisionId = Annotated[Identifier, Field(description="Decision id, unique in its campaign.", examples=["order-4711"])]

Subject = Annotated[
    str,
    Field(
        min_length=1,
        max_length=SUBJECT_MAX,
        description="Whom or what a decision is for: any text. It is not stored; a keyed digest of it is.",
        examples=["user-1"],
    ),
]

Feature = Annotated[float, Field(ge=-FEATURE_MAX, le=FEATURE_MAX)]
Features = Annotated[list[Feature], Field(min_length=1, max_length=DIMENSION_MAX, fail_fast=True)]
FeatureObject = Annotated[
    dict[str, Any],
    Field(
        max_length=DIMENSION_MAX,
        description="Values by name, where the campaign's features have names: numbers, true or false, texts; null, or "
        "no such name, for a value that is missing.",
    ),
]
FeatureValues = FeatureObject | Features
"""Features as requests send them. Which names there are, and what they take, is the campaign's to say."""
VALUE_BYTES_MAX = 16_384
_KINDS: dict[type, str] = {
    str: "a string",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    dict: "an object",
    list: "an array",
}


def _is_arm_value(value: object) -> object:
    """Infinities, NaN and integers that other readers of JSON would round are refused, wherever they are in it."""
    try:
        text = orjson.dumps(value)
    except TypeError:  # orjson's own is one
        text = b""
    if not text or orjson.loads(text) != value:
        raise ValueError("must be JSON, with finite numbers of at most 64 bits")
    if len(text) > VALUE_BYTES_MAX:
        raise ValueError(f"must have at most {VALUE_BYTES_MAX} bytes as JSON")
    return value


ArmValue = Annotated[
    Any,
    AfterValidator(_is_arm_value),
    Field(
        description="What the application shows or does for this arm: any JSON of at most 16 KiB, of the same type for "
        "all arms of a campaign; null, the default, stands for the arm's id. Nothing is learned from it."
    ),
]


def own_value(arm_id: str, value: Any) -> Any:
    """An arm's value of its own; None where it is the arm's id, as it is without one."""
    return None if value == arm_id else value


def check_value(value: Any, others: Iterable[Any], field: str) -> None:
    """Refuse an arm's value that is of another type than those of the others. Raises InvalidConfigurationError."""
    kind = kind_of_value(value)
    for other in others:
        if kind_of_value(other) != kind:
            raise InvalidConfigurationError(
                field, f"is {kind}, but that of another arm is {kind_of_value(other)}: all must be of one type"
            )


def alike(values: dict[str, Any]) -> dict[str, Any]:
    """Arms' values with all numbers as floats if one is: JSON has one kind of number, and some of its readers two."""
    if not any(type(value) is float for value in values.values()):
        return values
    return {arm_id: float(value) if type(value) is int else value for arm_id, value in values.items()}


def kind_of_value(value: Any) -> str:
    """The JSON type of an arm's value, in words; None stands for the arm's id, a string."""
    return "a string" if value is None else _KINDS[type(value)]


RewardValue = Annotated[float, Field(ge=-REWARD_MAX, le=REWARD_MAX)]
