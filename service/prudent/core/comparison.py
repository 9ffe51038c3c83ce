"""In which contexts which arm has the best estimate: what a campaign with a context per request has learned, in short.

No arm is the best whatever the context, so arms are not compared: the greedy policy is described by its regions. With
estimates that are linear in the context, the contexts in which one arm is the best are a convex set, so a context near
the middle of those that were seen in it is in it, too, and stands for them. That middle is no context: of a feature
that is 0 or 1 it may be 0.5. So the context shown is one that was seen, the closest to it, in the columns of the model:
the position of a category, or a missing value, has no distance of its own.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.measures import Array
from prudent.core.policy import Policy

RANGE = (0.1, 0.9)
"""Quantiles that a region's features are described by."""
REGIONS_MAX = 8
"""Regions that are described, the largest; of the others only the shares are told."""
RIVALS_MAX = 3
"""Arms whose estimates are given at a region's typical context, the best ones."""


class Region(NamedTuple):
    """The contexts in which one arm has the best estimate.

    arms: (m,) places among those compared of the best arms at `typical`, best first: the first one's region it is.
    estimates: (m,); intervals: (m, 2), nan where there is none. typical: (d,) and ranges: (d, 2), as sent; a range is
    that of the values that are not missing, nan if all are.
    """

    arms: NDArray[np.intp]
    estimates: Array
    intervals: Array
    typical: Array
    ranges: Array


@dataclass(frozen=True, slots=True)
class Comparison:
    """K arms over n contexts.

    best: (n,) the place of each context's best arm. shares: (K,) of the contexts in which an arm has the best estimate.
    averages: (K,) of an arm's estimates; average: of the best estimate of each context, in reward units. regions: the
    largest, in order of size.
    """

    contexts: int
    best: NDArray[np.intp]
    shares: Array
    averages: Array
    average: float
    regions: list[Region]


def compare(policy: Policy, contexts: Array, blocks: NDArray[np.intp]) -> Comparison:
    """Compare arms with parameters of their own. contexts: (n, d) as sent, n > 0; blocks: (K,), K > 0. O(n d K)."""
    policy.refresh()
    columns = policy.feature_map(contexts)
    estimates = columns @ policy.parameters()[blocks].T
    best = estimates.argmax(axis=1)
    counts = np.bincount(best, minlength=len(blocks))
    largest = np.argsort(-counts, kind="stable")[:REGIONS_MAX].tolist()
    regions = []
    for members in (best == arm for arm in largest if counts[arm]):
        middle = closest_to_middle(columns[members])
        regions.append(_region(policy, contexts[members], middle, estimates[members], blocks))
    averages, average = estimates.mean(axis=0), float(estimates.max(axis=1).mean())
    return Comparison(len(contexts), best, counts / len(contexts), averages, average, regions)


def _region(policy: Policy, contexts: Array, middle: int, estimates: Array, blocks: NDArray[np.intp]) -> Region:
    typical = contexts[middle]
    arms = np.argsort(-estimates[middle], kind="stable")[:RIVALS_MAX]
    return Region(
        arms=arms,
        estimates=estimates[middle][arms],
        intervals=policy.intervals(typical, blocks[arms]).ends,
        typical=typical,
        ranges=_ranges(contexts),
    )


def _ranges(contexts: Array) -> Array:
    """(d, 2) quantiles of each feature."""
    if not np.isnan(contexts).any():
        return np.quantile(contexts, RANGE, axis=0, method="closest_observation").T
    known = [column[~np.isnan(column)] for column in contexts.T]
    return np.array(
        [np.quantile(one, RANGE, method="closest_observation") if len(one) else (np.nan, np.nan) for one in known]
    )


def closest_to_middle(rows: Array) -> int:
    """Return which of the rows, (n, d), is closest to their mean, each feature in units of its standard deviation."""
    distances = rows - rows.mean(axis=0)
    spreads = rows.std(axis=0)
    distances /= np.where(spreads > 0.0, spreads, 1.0)
    return int(np.vecdot(distances, distances).argmin())
