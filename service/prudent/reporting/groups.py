"""For whom which arm is best: the contexts that were seen, grouped by the values of one feature at a time."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from prudent.campaigns import RowReader, Vocabulary
from prudent.campaigns.rows import OTHER
from prudent.core.measures import Array

FEATURES_MAX = 6
"""Features that are told, those that say most about the best arm."""
GROUPS_MAX = 8
"""Groups of a feature; the rarest values beyond are one group together."""
FEW = 6
"""A number with at most so many values has a group for each, another one a group for each quarter of the contexts."""
QUARTERS = (0.25, 0.5, 0.75)
COVERED = 0.8
"""The values in so many of an arm's contexts are said to be the values there."""
SAID_MAX = 3
"""Values of a feature that a sentence names."""
YES, NO, MISSING = "yes", "no", "(missing)"

Places = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Group:
    """Contexts with the same value of a feature, or values close together. value: in words; shares: of best arms."""

    value: str
    contexts: int
    shares: dict[str, float]


@dataclass(frozen=True, slots=True)
class FeatureGroups:
    """The contexts by one feature, in the order of its values.

    told: how much of what is uncertain about the best arm the feature takes away, from 0 to 1: Theil's uncertainty
    coefficient, mutual information over entropy.
    """

    feature: str
    told: float
    groups: list[Group]


class Values:
    """The values of one feature in words. labels: in order; places: (n,) which one each row has."""

    def __init__(self, labels: Sequence[str], places: Places) -> None:
        self.labels, self.places = labels, places

    def most(self, members: NDArray[np.bool_]) -> list[str]:
        """The values that cover `COVERED` of these rows, the most frequent first."""
        counts = np.bincount(self.places[members], minlength=len(self.labels))
        order = np.argsort(-counts, kind="stable")
        needed = int(np.searchsorted(counts[order].cumsum(), COVERED * counts.sum())) + 1
        return [self.labels[place] for place in order[:needed]]


def values_of(rows: Array, names: Sequence[str], reader: RowReader, vocabulary: Vocabulary) -> list[Values]:
    """The values of each feature. rows: (n, d), n > 0."""
    kinds = [column.feature.kind for column in reader.columns] if reader.is_named else ["number"] * len(names)
    found = []
    for name, kind, column in zip(names, kinds, rows.T, strict=True):
        if kind == "boolean":
            found.append(_few(column, {0.0: NO, 1.0: YES}))
        elif kind == "category":
            found.append(_few(column, {float(place): text for place, text in vocabulary.values(name).items()}))
        else:
            found.append(_numbers(column))
    return found


def group(names: Sequence[str], values: Sequence[Values], best: Places, arm_ids: Sequence[str]) -> list[FeatureGroups]:
    """The features that say most about the best arm, of those that say anything. best: (n,) its place in arm_ids."""
    told = [_told(one, best, len(arm_ids)) for one in values]
    order = [place for place in np.argsort(-np.array(told), kind="stable").tolist() if told[place] > 0.0]
    return [
        FeatureGroups(names[place], told[place], _groups(values[place], best, arm_ids))
        for place in order[:FEATURES_MAX]
    ]


def _groups(values: Values, best: Places, arm_ids: Sequence[str]) -> list[Group]:
    groups = []
    for place, label in enumerate(values.labels):
        arms = best[values.places == place]
        counted = Counter(arms.tolist()).most_common()
        groups.append(Group(label, len(arms), {arm_ids[arm]: count / len(arms) for arm, count in counted}))
    return groups


def _told(values: Values, best: Places, arms: int) -> float:
    joint = np.bincount(values.places * arms + best, minlength=len(values.labels) * arms).reshape(-1, arms)
    uncertain = _entropy(joint.sum(axis=0))
    if uncertain == 0.0:
        return 0.0
    return max(0.0, (_entropy(joint.sum(axis=1)) + uncertain - _entropy(joint)) / uncertain)


def _entropy(counts: NDArray[np.intp]) -> float:
    shares = counts[counts > 0] / counts.sum()
    return -float(shares @ np.log(shares))


def _few(column: Array, texts: dict[float, str]) -> Values:
    """Each value that occurs, in the order of its number; rare ones, and position 0, are `OTHER`."""
    known, places = np.unique(column, return_inverse=True)  # nan is one value, the last
    counts = np.bincount(places)
    kept = np.sort(np.argsort(-counts, kind="stable")[:GROUPS_MAX])
    labels = {place: _label(float(known[place]), texts) for place in kept.tolist()}
    shown = list(dict.fromkeys(label for label in labels.values() if label != OTHER))
    if len(kept) < len(known) or OTHER in labels.values():
        shown.append(OTHER)
    at = {label: place for place, label in enumerate(shown)}
    return Values(shown, np.array([at[labels.get(place, OTHER)] for place in range(len(known))], dtype=np.intp)[places])


def _label(value: float, texts: dict[float, str]) -> str:
    return MISSING if value != value else texts.get(value, OTHER)


def _numbers(column: Array) -> Values:
    """The values of a number with few, else quarters; missing ones last."""
    missing = np.isnan(column)
    known = column[~missing]
    distinct = np.unique(known)
    if len(distinct) <= FEW:
        return _few(column, {value: f"{value:.4g}" for value in distinct.tolist()})
    edges = np.unique(np.quantile(known, QUARTERS, method="closest_observation"))
    quarters, own = np.unique(np.searchsorted(edges, known), return_inverse=True)
    members = [known[own == place] for place in range(len(quarters))]
    labels = [span(float(one.min()), float(one.max())) for one in members]
    places = np.full(len(column), len(labels), dtype=np.intp)
    places[~missing] = own
    return Values([*labels, MISSING] if missing.any() else labels, places)


def span(low: float, high: float) -> str:
    """A range in words."""
    return f"{low:.3g}" if low == high else f"{low:.3g} to {high:.3g}"
