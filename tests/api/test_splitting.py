"""Items of a batch are found without parsing it: the same ones that a parser finds, whatever stands in the strings."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from prudent.api.server.batch_items import DEPTH_MAX, MalformedBatchError, TooManyItemsError, split_items

NASTY = st.text(alphabet='[]{},":\\"\n\taé💊 ', max_size=12)
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | NASTY,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NASTY, inner, max_size=4),
    max_leaves=12,
)


def items(body: bytes, block_bytes: int = 2**18, items_max: int = 1_000) -> list[bytes]:
    """The items as they stand in the body."""
    spans = [span for found in split_items(body, items_max, block_bytes=block_bytes) for span in found]
    return [body[start:end] for start, end in spans]


@given(st.lists(VALUES, max_size=8), st.integers(1, 40), st.booleans(), st.sampled_from([None, 1]))
def test_finds_what_a_parser_finds(values: list[Any], block_bytes: int, ascii_only: bool, indent: int | None) -> None:
    """An item would be cut in two at a bracket in a string, or where a block ends."""
    body = json.dumps({"items": values}, ensure_ascii=ascii_only, indent=indent).encode()
    assert [json.loads(item) for item in items(body, block_bytes)] == values


@given(st.binary(max_size=60), st.integers(1, 20))
def test_whatever_is_accepted_is_json_if_its_items_are(tail: bytes, block_bytes: int) -> None:
    """Something that is no JSON would be learned, because only its items were parsed."""
    body = b'{"items": [1, ' + tail
    try:
        found = [json.loads(item) for item in items(body, block_bytes)]
        if any(isinstance(value, float) and value != value for value in found):  # Python's own NaN
            return
    except (MalformedBatchError, ValueError, RecursionError):
        return
    assert json.loads(body) == {"items": found}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b'{"items": 1}',
        b'{"items": [1]',
        b'{"items": [1}',
        b'{"items": [1]}}',
        b'{"items": [1], "x": 1}',
        b'{"x": 1, "items": [1]}',
        b'{"items": [1}]',
        b'{"items": ["]}',
        b'{"items": ["\\"]}',
        b'{"items": [' + b"[" * 300 + b"]" * 300 + b"]}",
        b'\xef\xbb\xbf{"items": []}',
    ],
)
def test_another_envelope_is_refused(body: bytes) -> None:
    """A body of another form would be taken for a batch."""
    with pytest.raises(MalformedBatchError):
        items(body)


def test_limits() -> None:
    """A batch of a million items would be found to the end before it is refused."""
    for count in (0, 1, 1_000):
        assert len(items(json.dumps({"items": [1] * count}).encode())) == count
    with pytest.raises(TooManyItemsError):
        items(b'{"items": [1' + b",1" * 1_000 + b"]}")
    deep = b"[" * (DEPTH_MAX - 1) + b"]" * (DEPTH_MAX - 1)
    assert items(b'{"items":[' + deep + b"]}") == [deep]
    assert items(b'{"items": [1,]}') == [b" 1"[1:], b""]
