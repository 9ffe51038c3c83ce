"""Which name may have been meant by one that does not exist.

Names may have 128 characters, and there may be hundreds of them: hence rapidfuzz. `difflib` took 100 milliseconds for a
hundred names of that length, and a batch asks 512 times.
"""

from collections.abc import Iterable, Sequence

from rapidfuzz import process
from rapidfuzz.distance import Indel

ALIKE_MIN = 0.65
"""Of two names, without regard to case."""
SHOWN_MAX = 12
"""Of the names that exist, where none is alike."""


def likeness(one: str, other: str) -> float:
    """From 0 to 1: twice the longest common subsequence over both lengths."""
    return Indel.normalized_similarity(one, other)


def closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like another one; None if none is alike."""
    scorer = Indel.normalized_similarity
    found = process.extractOne(name, list(names), scorer=scorer, processor=str.casefold, score_cutoff=ALIKE_MIN)
    return None if found is None else found[0]


def hint(name: str, names: Iterable[str], what: str) -> str:
    """What to say of a name that does not exist. what: the names are of."""
    known = list(names)
    found = closest(name, known)
    return f"the {what} are {some_of(known)}" if found is None else f"did you mean {found}?"


def some_of(names: Sequence[str]) -> str:
    """The first names of a list, as a message shows them."""
    return ", ".join(names[:SHOWN_MAX]) + (", ..." if len(names) > SHOWN_MAX else "")
