"""Arrays to bytes and back: fixed layout, checksum, never pickle."""

import json
from hashlib import blake2b
from math import prod

import numpy as np
from numpy.typing import NDArray

FORMAT_VERSION = 14
_CHECKSUM_BYTES = 16


class CorruptSnapshotError(ValueError):
    """Bytes that ``pack`` did not write, or that were damaged since."""


def pack(arrays: dict[str, NDArray[np.float64] | NDArray[np.int64]]) -> bytes:
    """Checksum, length of the header, header (name, type, shape of each array, as JSON), then the arrays' bytes.

    Arrays are float64 or int64, little-endian. The same arrays give the same bytes.
    """
    header = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
    encoded = json.dumps(header, separators=(",", ":")).encode()
    body = b"".join([len(encoded).to_bytes(4, "little"), encoded, *(array.tobytes() for array in arrays.values())])
    return checksum(body) + body


def unpack(data: bytes) -> dict[str, NDArray[np.float64] | NDArray[np.int64]]:
    """Return the arrays that ``pack`` was given. Raises CorruptSnapshotError."""
    body = data[_CHECKSUM_BYTES:]
    if len(data) < _CHECKSUM_BYTES + 4 or checksum(body) != data[:_CHECKSUM_BYTES]:
        raise CorruptSnapshotError("the checksum does not match")
    start = 4 + int.from_bytes(body[:4], "little")
    arrays = {}
    for name, dtype, shape in json.loads(body[4:start]):
        count = prod(shape)
        arrays[name] = np.frombuffer(body, dtype, count, start).reshape(shape).copy()
        start += count * np.dtype(dtype).itemsize
    return arrays


def checksum(data: bytes) -> bytes:
    """Return 16 bytes that change when the data does."""
    return blake2b(data, digest_size=_CHECKSUM_BYTES).digest()
