"""Which name may have been meant by one that does not exist.

Names are as long as clients like, and there may be a thousand of them: hence rapidfuzz. `difflib` took 40 milliseconds
for a hundred names of 64 characters, and a batch asks 512 times.
"""

from collections.abc import Iterable

from rapidfuzz import process
from rapidfuzz.distance import Indel

ALIKE_MIN = 0.65
"""Of two names, without regard to case."""
SHOWN_MAX = 12


def likeness(one: str, other: str) -> float:
    """From 0 to 1: twice the longest common subsequence over both lengths."""
    return Indel.normalized_similarity(one, other)


def closest(name: str, names: Iterable[str], alike: float = ALIKE_MIN) -> str | None:
    """The name that is most like another one; None if none is alike."""
    scorer = Indel.normalized_similarity
    found = process.extractOne(name, list(names), scorer=scorer, processor=str.casefold, score_cutoff=alike)
    return None if found is None else found[0]


def hint(name: str, names: Iterable[str], what: str) -> str:
    """What to say of a name that does not exist. what: the names are of."""
    known = list(names)
    found = closest(name, known)
    if found is not None:
        return f"did you mean {found}?"
    shown = ", ".join(known[:SHOWN_MAX]) + (", ..." if len(known) > SHOWN_MAX else "")
    return f"the {what} are {shown}"
