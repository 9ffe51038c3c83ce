"""The candidates of a decision as its row holds them: their ids, with what probability each was chosen, their features.

A compressed text of bytes: the length of a header and the header, `[ids, places of those with features]` in JSON; the
probabilities; the rows of features. A registered arm's features are with the arm, which never changes them, and are
not repeated: a select that lists no arms takes a few bytes for each.
"""

import zlib
from typing import NamedTuple

import numpy as np
import orjson
from numpy.typing import NDArray

_LENGTH_BYTES = 4
_FLOAT_BYTES = 8
_LEVEL = 1
"""Of compression: higher ones take several times as long for a few per cent."""


class LoggedCandidates(NamedTuple):
    """The K candidates of a decision, in the request's order.

    propensities: K, which sum to 1; features: of each the arm's own as bytes, None for those registered with the arm.
    """

    arms: list[str]
    propensities: list[float]
    features: list[bytes | None]


def pack(candidates: LoggedCandidates) -> bytes:
    """The candidates as a row holds them; features of all that have any must be of one length."""
    own = [(place, one) for place, one in enumerate(candidates.features) if one is not None]
    header = orjson.dumps([candidates.arms, [place for place, _ in own]])
    chances = np.array(candidates.propensities, dtype="<f8").tobytes()
    parts = [len(header).to_bytes(_LENGTH_BYTES, "little"), header, chances, *(row for _, row in own)]
    return zlib.compress(b"".join(parts), _LEVEL)


def unpack(data: bytes, length: int) -> LoggedCandidates:
    """What `pack` was given. length: of an arm's own features. Raises ValueError for bytes that are damaged."""
    try:
        content = zlib.decompress(data)
        start = _LENGTH_BYTES + int.from_bytes(content[:_LENGTH_BYTES], "little")
        arms, places = orjson.loads(content[_LENGTH_BYTES:start])
        rows = start + _FLOAT_BYTES * len(arms)
        chances: NDArray[np.float64] = np.frombuffer(content[start:rows], "<f8")
        size = _FLOAT_BYTES * length
        if len(content) != rows + size * len(places) or len(chances) != len(arms):
            raise ValueError("their length is wrong")
        features: list[bytes | None] = [None] * len(arms)
        for order, place in enumerate(places):
            features[place] = content[rows + size * order : rows + size * (order + 1)]
    except (zlib.error, ValueError, TypeError, IndexError) as error:
        raise ValueError(f"the candidates of a decision are damaged: {error}") from None
    return LoggedCandidates(arms, chances.tolist(), features)
