"""What is wrong with a field, in words: what was expected, what was sent instead, and what may have been meant.

Numbers, true, false and null are said as they were sent, of everything else only what it is: a text may be a person's
name.
"""

import re
from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from prudent.api.suggestions import about_unknown, listed, required_of
from prudent.campaigns.configuration import UNION_TAGS
from prudent.campaigns.events import STEPS_PATTERN
from prudent.campaigns.features import KINDS
from prudent.campaigns.values import WITHOUT_CONTROLS_PATTERN
from prudent.identifiers import ID_PATTERN
from prudent.spelling import closest

DIGITS_MAX = 24
"""Of a number that is said as it was sent."""
PLAIN_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")
"""A name from a request that may be shown: it could be a misspelling of one of ours."""
IS_ID = "must be an id: 1 to 128 letters, digits and characters of . _ ~ -, without spaces"
PATTERNS = {
    ID_PATTERN: IS_ID,
    STEPS_PATTERN: "must be names with a point between them, such as properties.revenue",
    WITHOUT_CONTROLS_PATTERN: "must not contain control characters",
}
"""What texts must be, in words."""
_NOT_FIELDS = re.compile(r"float|int|str|bool|constrained-.*|literal\[.*|nullable.*|function-.*")
_FORMS = re.compile(r"(list|dict)\[.*")
"""The two forms of features, in the path of an error in one of them."""
_EXPECTED = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "dict_type": "an object",
    "features_type": "a list of numbers or an object of values by name",
    "finite_number": "a finite number",
    "float_parsing": "a number",
    "float_type": "a number",
    "greater_than": "above {gt:.15g}",
    "greater_than_equal": "at least {ge:.15g}",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "less_than": "below {lt:.15g}",
    "less_than_equal": "at most {le:.15g}",
    "list_type": "a list",
    "literal_error": "{expected}",
    "model_attributes_type": "an object",
    "model_type": "an object",
    "string_type": "a string",
}
"""What pydantic's kinds of errors say that a value must be."""
_OF_BODIES = {kind for kind in _EXPECTED if kind.endswith("_type")}
_SIZES = {"too_short": "item", "too_long": "item", "string_too_short": "character", "string_too_long": "character"}


def errors_in_words(
    error: ValidationError | RequestValidationError, *, below: tuple[str | int, ...], most: int, say_values: bool
) -> list[dict[str, str]]:
    """Field and message of each error, at most so many. below: the place of what was validated.

    say_values: whether the values may be looked at, which takes a multiple of a body's size.
    """
    if isinstance(error, ValidationError):
        details: Sequence[Any] = error.errors(include_url=False, include_input=say_values)
        schema = error.title
    else:
        details, schema = error.errors(), ""
    details = _of_the_form_sent(details)
    missing = [tuple(one["loc"]) for one in details if one["type"] == "missing"]
    expected: dict[str, list[str]] = {}
    said: dict[str, str] = {}
    for one in details:
        field = _field(one, below)
        if field not in expected and len(expected) == most:
            break
        words, instead = _words(one, schema, missing)
        expected.setdefault(field, []).append(words)
        said[field] = instead or said.get(field, "")
    return [{"field": field, "message": _joined(words) + said[field]} for field, words in expected.items()]


def is_not_json(error: ValidationError) -> bool:
    """Whether the body could not be parsed at all."""
    return (
        error.error_count() == 1 and error.errors(include_url=False, include_input=False)[0]["type"] == "json_invalid"
    )


def what_was_sent(value: object) -> str:
    """A value in few words: itself where it is a number, true, false or null, else what it is."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**DIGITS_MAX else f"a number of more than {DIGITS_MAX} digits"
    if isinstance(value, float) and isfinite(value):
        return repr(value).removesuffix(".0")
    return "a number that is not finite"


def _joined(words: list[str]) -> str:
    """The ways to be right of one field, of which none was taken."""
    first, *others = dict.fromkeys(words)
    return " or ".join([first, *(one.removeprefix("must be ") for one in others)])


def _words(error: Any, schema: str, missing: list[tuple[str | int, ...]]) -> tuple[str, str]:
    """What was expected of a field, and what to say of the value that was sent."""
    kind, context, sent = error["type"], error.get("ctx", {}), error.get("input", ...)
    if kind in _EXPECTED:
        needed = required_of(context.get("class_name", ""))
        having = f" with {listed(needed)}" if needed else ""
        return f"must be {_EXPECTED[kind].format(**context)}{having}", _instead(kind, context, sent)
    if kind in _SIZES:
        bound = "min_length" if kind.endswith("short") else "max_length"
        size, what = context[bound], _SIZES[kind]
        amount = f"at {'least' if bound == 'min_length' else 'most'} {size} {what}{'' if size == 1 else 's'}"
        received = len(sent) if isinstance(sent, str | list | dict) else context.get("actual_length")
        return f"must have {amount}", "" if received is None else f", not {received}"
    if kind == "missing":
        return "is required", ""
    if kind == "union_tag_not_found":
        tags = UNION_TAGS.get(str(error["loc"][-1]))
        return "is required" + (f": one of {', '.join(tags)}" if tags else ""), ""
    if kind == "union_tag_invalid":
        return f"must be one of {context['expected_tags']}".replace("'", ""), _meant(context, "expected_tags", "tag")
    if kind == "feature_kind":
        given = sent.get("kind") if isinstance(sent, dict) else None
        return str(error["msg"]), _nearest(str(given), sorted(KINDS))
    if kind == "extra_forbidden":
        is_name = PLAIN_NAME.fullmatch(str(error["loc"][-1])) is not None
        return about_unknown(schema, error["loc"], missing) if is_name else "unknown field", ""
    if kind == "string_pattern_mismatch" and context.get("pattern") in PATTERNS:
        return PATTERNS[context["pattern"]], ""
    if kind == "json_invalid":
        return _not_json(str(context.get("error", "it cannot be parsed"))), ""
    if kind == "value_error":
        return str(context.get("error", "is not valid")), ""
    return str(error["msg"])[:1].lower() + str(error["msg"])[1:], ""


def _instead(kind: str, context: dict[str, Any], sent: object) -> str:
    """What to say of a value that is not what it must be."""
    if kind == "literal_error" and isinstance(sent, str):
        return _meant(context | {"sent": sent}, "expected", "sent")
    if sent is ... or kind == "finite_number":
        return ""
    if isinstance(sent, str) and kind not in _OF_BODIES:  # a parameter: all of them are texts
        return ""
    instead = f", not {what_was_sent(sent)}"
    if isinstance(sent, str) and kind in {"float_type", "int_type", "bool_type"} and _is_unquoted(sent):
        return f"{instead}: send it without quotes"
    largest = context.get("le", context.get("lt"))
    if isinstance(largest, float) and largest <= 1 and isinstance(sent, float | int) and 1 < sent <= 100:
        return f"{instead}: it is a share, such as 0.1 for 10%"
    return instead


def _is_unquoted(text: str) -> bool:
    """Whether a text would be a number, or true or false, without its quotes."""
    return re.fullmatch(r"-?[0-9]+(\.[0-9]*)?([eE][-+]?[0-9]+)?|true|false", text.strip()) is not None


def _meant(context: dict[str, Any], allowed: str, sent: str) -> str:
    """A hint at the nearest of the values that pydantic lists."""
    return _nearest(str(context[sent]), re.findall(r"'([^']*)'", str(context[allowed])))


def _nearest(sent: str, allowed: list[str]) -> str:
    meant = closest(sent, allowed)
    return "" if meant is None else f": did you mean {meant}?"


def _not_json(reason: str) -> str:
    """Why a text is not JSON, with what helps where that is known."""
    if reason.startswith("EOF while parsing a value at line 1 column 0"):
        return "must be a JSON object, and is empty"
    hint = " (names and texts stand in double quotes)" if reason.startswith("key must be a string") else ""
    return f"is not valid JSON: {reason}{hint}"


def _of_the_form_sent(details: Sequence[Any]) -> Sequence[Any]:
    """The errors without those of the form of features that was not sent: an array, or an object with names.

    What is neither has one error.
    """
    kept = []
    for one in details:
        location = one["loc"]
        if one["type"] in {"list_type", "dict_type"} and location and _FORMS.match(str(location[-1])):
            place = location[:-1]
            others = [other for other in details if other is not one and other["loc"][: len(place)] == place]
            if any(other["type"] not in {"list_type", "dict_type"} for other in others):
                continue
            if one["type"] == "dict_type" and others:
                continue
            one = one | {"type": "features_type", "loc": place}
        kept.append(one)
    return kept


def _field(error: Any, below: tuple[str | int, ...]) -> str:
    """Dotted path of the field. An unknown name is shown only if it could be a misspelling of one of ours."""
    if error["type"] == "json_invalid":
        return "body"
    location = [*below, *error["loc"]]
    if error["type"] == "extra_forbidden" and not PLAIN_NAME.fullmatch(str(location[-1])):
        location[-1] = "(unknown field)"
    if location and location[0] in {"body", "query", "path"}:  # FastAPI's, of parameters
        del location[0]
    if error["type"] in {"union_tag_invalid", "union_tag_not_found"}:
        location.append(error["ctx"]["discriminator"].strip("'"))
    return ".".join(_names(location)) or "body"


def _names(location: Sequence[str | int]) -> Iterator[str]:
    for place, part in enumerate(location):
        is_last = place == len(location) - 1
        if isinstance(part, int) or place == 0 or not _is_label(part, location[place - 1], last=is_last):
            yield str(part)


def _is_label(part: str, before: str | int, *, last: bool) -> bool:
    """Whether pydantic put this into the path to name a member of a union instead of a field."""
    if _FORMS.fullmatch(part) or (isinstance(before, int) and part in KINDS):
        return True
    return part in UNION_TAGS.get(str(before), ()) or (last and bool(_NOT_FIELDS.fullmatch(part)))
