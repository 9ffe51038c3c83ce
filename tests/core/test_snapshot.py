"""Snapshots are bytes that say what they are, and are not believed when damaged."""

import numpy as np
import pytest

from prudent.core.snapshot import CorruptSnapshotError, pack, unpack

ARRAYS = {"theta": np.array([[1.5, -0.0], [np.pi, 5e-324]]), "count": np.array(7), "none": np.zeros((0, 3))}


def test_what_was_packed_is_unpacked_to_the_bit() -> None:
    """A restart must continue from exactly the state that was stored."""
    found = unpack(pack(ARRAYS))
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].tobytes() == array.tobytes()
        assert found[name].shape == array.shape
        assert found[name].dtype == array.dtype


def test_every_single_damaged_byte_is_noticed() -> None:
    """A flipped bit on disk must lead to a replay of the log, not to wrong decisions."""
    data = pack(ARRAYS)
    for place in range(len(data)):
        damaged = bytearray(data)
        damaged[place] ^= 0x40
        with pytest.raises(CorruptSnapshotError):
            unpack(bytes(damaged))


@pytest.mark.parametrize("data", [b"", b"short", pack(ARRAYS)[:-1]])
def test_truncated_bytes_are_noticed(data: bytes) -> None:
    """A torn write must be noticed, too."""
    with pytest.raises(CorruptSnapshotError):
        unpack(data)
