"""Where the items of a batch begin and end, without parsing them.

Parsing 16 MiB at once takes seconds and hundreds of megabytes; found first, the items can be parsed one by one.
Only the envelope is judged here: what stands between its commas is for the parser, which refuses what is no JSON.
"""

import re
from collections.abc import Iterator

import numpy as np

BLOCK_BYTES = 2**18
BACKSLASHES_MAX = 2**16
"""In a row; no text of a request is that long."""
DEPTH_MAX = 200
"""The parser's own limit."""

_OPENING = re.compile(rb'[ \t\r\n]*\{[ \t\r\n]*"items"[ \t\r\n]*:[ \t\r\n]*\[')
_CLOSING = re.compile(rb"[ \t\r\n]*\}[ \t\r\n]*")
_BLANK = re.compile(rb"[ \t\r\n]*")
_QUOTE, _COMMA, _BACKSLASH = 34, 44, 92
_IS_STRUCTURAL = np.zeros(256, dtype=np.bool_)
_IS_STRUCTURAL[list(b'[]{},"')] = True
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(b"[{")] = 1
_STEP[list(b"]}")] = -1

Span = tuple[int, int]


class MalformedBatchError(Exception):
    """The body is not of the form ``{"items": [...]}``."""


class TooManyItemsError(Exception):
    """There are more items than a batch may have."""

    def __init__(self, items_max: int) -> None:
        super().__init__(items_max)
        self.items_max = items_max


def _end_of_block(body: bytes | bytearray, offset: int, block_bytes: int) -> int:
    """Where a block ends, not behind a backslash: what it escapes belongs to it."""
    end = min(offset + block_bytes, len(body))
    while end < len(body) and body[end - 1] == _BACKSLASH:
        end += 1
        if end > offset + block_bytes + BACKSLASHES_MAX:
            raise MalformedBatchError
    return end


def split_items(body: bytes | bytearray, items_max: int, *, block_bytes: int = BLOCK_BYTES) -> Iterator[list[Span]]:
    """Yield the places of the items, those that end in one block at a time: a block is about a millisecond's work.

    Raises MalformedBatchError or TooManyItemsError.
    """
    opening = _OPENING.match(body)
    if opening is None:
        raise MalformedBatchError
    start = edge = opening.end()
    depth, in_string, found = 1, False, 0
    while edge < len(body):
        offset, edge = edge, _end_of_block(body, edge, block_bytes)
        text = body[offset:edge]
        if b"\\" in text:  # blanks for what is escaped, so that every quote left begins or ends a string
            text = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
        block = np.frombuffer(text, np.uint8)
        places = np.flatnonzero(_IS_STRUCTURAL[block])
        marks = block[places]
        inside = np.logical_xor.accumulate(marks == _QUOTE) ^ in_string
        depths = depth + np.cumsum(np.where(inside, 0, _STEP[marks]), dtype=np.int64)
        closed = np.flatnonzero(depths == 0)
        stop = int(closed[0]) if closed.size else marks.size
        if stop and depths[:stop].max() > DEPTH_MAX:
            raise MalformedBatchError
        commas = places[:stop][(marks[:stop] == _COMMA) & (depths[:stop] == 1) & ~inside[:stop]] + offset
        found += commas.size
        if found >= items_max:
            raise TooManyItemsError(items_max)
        spans = []
        for comma in commas.tolist():
            spans.append((start, comma))
            start = comma + 1
        if closed.size:
            end = offset + int(places[stop])
            if body[end : end + 1] != b"]" or not _CLOSING.fullmatch(body, end + 1):
                raise MalformedBatchError
            if found or not _BLANK.fullmatch(body, start, end):
                spans.append((start, end))
            yield spans
            return
        yield spans
        if marks.size:
            depth, in_string = int(depths[-1]), bool(inside[-1])
    raise MalformedBatchError
