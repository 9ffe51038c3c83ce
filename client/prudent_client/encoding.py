"""JSON as the client writes and reads it, by pydantic's own serialiser: one dependency less than a JSON library."""

from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json


def encode(body: Any) -> bytes:
    """A request's body. NumPy's arrays and numbers are taken too; NaN and infinities become null.

    Raises TypeError for what JSON cannot express.
    """
    try:
        return to_json(body, inf_nan_mode="null", fallback=_plain)
    except PydanticSerializationError as error:
        raise TypeError(f"the request body cannot be written as JSON: {error}") from error


def decode(content: bytes) -> Any:
    """A reply's body. Raises ValueError for what is not JSON."""
    return from_json(content, allow_inf_nan=False)


def _plain(value: Any) -> Any:
    """NumPy's arrays and numbers as Python's, without importing NumPy."""
    tolist = getattr(value, "tolist", None)
    if tolist is None:
        raise TypeError(f"{type(value).__name__} is not JSON serialisable")
    return tolist()
