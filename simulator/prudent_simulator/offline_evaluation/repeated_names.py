"""Objects of JSON that have one name twice: a parser takes one of the values and drops the other without a word."""

import json
from typing import Any


class _RepeatedError(ValueError):
    """Its text is the name."""


def repeated_name(text: str, parsed: Any) -> str | None:
    """A name that an object of the text has twice; None if there is none. parsed: what a parser made of the text.

    Nearly all texts have as many colons as names were parsed; only others are parsed again, which takes longer.
    """
    if text.count(":") > _names_in(parsed):
        try:
            json.loads(text, object_pairs_hook=_refuse, parse_int=str, parse_float=str, parse_constant=str)
        except _RepeatedError as error:
            return str(error)
    return None


def _names_in(parsed: Any) -> int:
    if isinstance(parsed, dict):
        return len(parsed) + sum(map(_names_in, parsed.values()))
    return sum(map(_names_in, parsed)) if isinstance(parsed, list) else 0


def _refuse(pairs: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise _RepeatedError(name)
        seen.add(name)
