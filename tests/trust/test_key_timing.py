"""R23. How long a key is checked says nothing about how much of it is right."""

import gc
import random
import time

import pytest

from prudent.security.keys import KeyRing, digest_of, new_key
from tests.promises import Promise, length


def timed(ring: KeyRing, key: bytes) -> int:
    """Nanoseconds that a check takes."""
    started = time.perf_counter_ns()
    ring.role_of(key)
    return time.perf_counter_ns() - started


def superiority(first: list[int], second: list[int]) -> float:
    """How often a value of the first exceeds one of the second, ties half: 0.5 if they are alike."""
    ranks: dict[int, float] = {}
    ordered = sorted(first + second)
    start = 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end] == ordered[start]:
            end += 1
        ranks[ordered[start]] = (start + end + 1) / 2
        start = end
    count = len(first)
    return (sum(ranks[one] for one in first) - count * (count + 1) / 2) / (count * len(second))


@pytest.mark.alone
def test_the_time_of_a_check_is_the_same_for_every_wrong_key(promise: Promise) -> None:
    """R23. Comparing keys by their characters would give one away, character by character.

    Relative and interleaved, so that a busy machine slows both down alike.
    """
    tries = length("KEY_CHECKS", 20_000)
    draw = random.Random(1)  # noqa: S311  # no secret
    keys = [new_key().encode() for _ in range(50)]
    ring = KeyRing(may_be_open=False)
    ring.load([(digest_of(key), "reader", "") for key in keys], was_key_made=True)
    times: dict[bool, list[int]] = {True: [], False: []}
    opened = 0
    gc.disable()
    try:
        for _ in range(tries):
            is_near = draw.random() < 0.5
            begun = draw.choice(keys), new_key().encode()  # both are made each time, and no wrong key comes twice
            wrong = (begun[0] if is_near else begun[1])[:-6] + new_key().encode()[-6:]
            times[is_near].append(timed(ring, wrong))
            opened += ring.role_of(wrong) is not None
    finally:
        gc.enable()
    found = superiority(times[True], times[False])
    promise("R23", f"{tries:,} checks: a key that is right but for its end takes longer in {found:.1%} of all pairs")
    assert opened == 0
    assert abs(found - 0.5) < (0.02 if tries >= 1_000_000 else 0.1)
