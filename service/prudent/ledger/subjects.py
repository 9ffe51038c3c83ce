"""Subjects: whom or what decisions are for, and under which ids the decisions for one of them are found.

No subject is stored. The id of a decision for one is made of the time and of a digest with the campaign's own key, so
that whoever lacks the key cannot try out subjects, and nobody can follow one from campaign to campaign. Ids begin with
the time, so that the index of decisions grows at one end.
"""

from hashlib import blake2b

from prudent.store.decisions import SUBJECT_PREFIX
from prudent.store.tables import EVENT_PREFIX

WINDOW_DIGITS, MOMENT_DIGITS = 10, 16
"""The number of a window, decimal; the beginning of a time-ordered id, hexadecimal."""


def windowed_ids(key: bytes, subject: str, sticky_seconds: int, now: int) -> tuple[str, str]:
    """The ids of the decisions that stand for a subject in the window of now, and in the one before.

    key: the campaign's; now: microseconds since 1970.
    """
    window = now // (sticky_seconds * 1_000_000)
    digest = digest_of(key, subject)
    return _id_of(window, digest), _id_of(window - 1, digest)


def single_id(key: bytes, subject: str, new_id: str) -> str:
    """The id of a decision that stands for itself. new_id: a time-ordered UUID."""
    return f"{SUBJECT_PREFIX}{new_id.replace('-', '')[:MOMENT_DIGITS]}-{digest_of(key, subject)}"


def event_key(key: bytes, event_id: str) -> str:
    """Under which id the log has the observation of an event, as that of a warm start has the client's."""
    return f"{EVENT_PREFIX}{digest_of(key, event_id)}"


def _id_of(window: int, digest: str) -> str:
    return f"{SUBJECT_PREFIX}{window:0{WINDOW_DIGITS}d}-{digest}"


def digest_of(key: bytes, subject: str) -> str:
    """What the ids of all decisions for a subject end with."""
    return blake2b(subject.encode(), key=key, digest_size=16).hexdigest()
