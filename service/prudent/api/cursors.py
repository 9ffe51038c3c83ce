"""Opaque cursors: where the previous page of a list ended."""

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode

from prudent.errors import InvalidCommandError


def encode_cursor(position: str) -> str:
    """The cursor of a position, ASCII."""
    return urlsafe_b64encode(position.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, pattern: str) -> re.Match[str]:
    """The position: a full match of the pattern. Raises InvalidCommandError for whatever else it decodes to."""
    try:
        position = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError:
        position = ""
    found = re.fullmatch(pattern, position)
    if found is None:
        raise InvalidCommandError("is not a cursor of this list", field="cursor")
    return found
