"""Whether the world has changed: a sequential test on each arm's residuals; a fold of the log.

A residual is a reward minus the estimate made for it before it was known. Its score z is how far it lies from the mean
of the arm's residuals so far, in their standard deviations, cut off at `SCORE_MAX`: while nothing changes it is about 0
on average for every risk measure, and a shift of all rewards by one spread moves it by 1. (The slopes of a loss, the
scores of the theory, hardly feel a shift upwards where losses are rare and large.) Two CUSUMs add the scores up, one
for each direction,

    S = max(0, S + z - k),    k = DRIFT + ERRORS / sqrt(n),

with n the arm's residuals so far: the second part of k stands for the errors of the estimate and of the mean, so that
learning is not taken for a change. Cutting moves the average of z by at most 1 / (4 SCORE_MAX) whatever the
distribution, as (z - c)+ <= z^2 / (4 c): a quarter of DRIFT. The alarm is raised where S exceeds `THRESHOLD`; the
change is dated where S last rose above `BEGINNING`, a few observations after it began. False alarms and delays are
measured, not proved: docs/changing-world.md.
Source: Page 1954, "Continuous inspection schemes".
"""

from collections.abc import Mapping
from math import log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays, take

RESIDUALS_MIN = 30
"""Of an arm, before its next ones are added up: until then their mean and spread are not known."""
ESTIMATES_MIN = 8
"""Observations of a block before rewards are compared with its estimates."""
SCORE_MAX = 4.0
DRIFT, ERRORS, THRESHOLD = 0.25, 2.0, 40.0
BEGINNING = 4.0
"""S below it is chance: where nothing changes it is above in few of a hundred rows, so it dates a change."""
ECHO_MARGIN = 1.5
RENEWED_AT = 4
"""Of the steps of forgetting, each so many-th renews the estimates."""
ROUNDING = 1e-9
"""A spread that is a smaller share of the reward is rounding."""

Side = tuple[float, int, float, float]
"""S; the log's row with which it rose above `BEGINNING`; the number of residuals before that row, and their mean."""
AT_ZERO: Side = (0.0, 0, 0.0, 0.0)
EMPTY = (0.0, 0.0, 0.0, AT_ZERO, AT_ZERO)
Weights = tuple[float, float, float]
"""Of a stream's residuals: of all of them, and of those before either side last rose above `BEGINNING`."""


class Change(NamedTuple):
    """A change of one arm's rewards. since: the first row of the log after it; raised: that of the alarm.

    size: how much rewards have moved, relative to the estimates, and spread: their standard deviation before; reward
    units. before, after: what the arm's observations before and since weigh; all 0 for no change.
    """

    since: int
    raised: int
    size: float
    spread: float
    before: float
    after: float

    @property
    def stands(self) -> bool:
        """Whether more of what the estimate rests on is from before the change than since."""
        return self.before > self.after

    @property
    def echo(self) -> float:
        """How far residuals may be from their mean since the change because the estimate learns it, in reward units.

        Where b observations before and a since count alike, the residual is b / (a + b) of the change, and has been
        b/a log(1 + a/b) of it on average. The factor is a margin for other weights.
        """
        if min(self.before, self.after) <= 0.0:
            return 0.0
        ratio = self.after / self.before
        return ECHO_MARGIN * abs(self.size) * (log1p(ratio) / ratio - 1.0 / (1.0 + ratio))


class ChangeWatch:
    """The tests of all arms, by order of registration, and one for all that are not registered. Not thread safe.

    Constant state, constant time. Estimates are those of the arm's block as of its last observation whose number has
    only zeros after its first three binary digits, 8, 10, 12, 14, 16, 20, ...: the state is then a function of the log
    however lazily an estimator works, and a change is hardly learned while it is being found. With forgetting they
    are renewed every eighth of a half-life as well: an estimate that forgets moves on however long its history is.
    """

    def __init__(self, blocks: int, arms: int) -> None:
        self._streams: list[tuple[float, float, float, Side, Side]] = [EMPTY] * (1 + arms)
        self._weights: list[Weights] = [(0.0, 0.0, 0.0)] * (1 + arms)
        self._changes: dict[int, Change] = {}
        self._observed = [0] * blocks
        self._parameters: list[NDArray[np.float64] | None] = [None] * blocks
        self.mark()

    def add_arm(self, *, has_block: bool) -> None:
        """Register one more."""
        self._streams.append(EMPTY)
        self._weights.append((0.0, 0.0, 0.0))
        if has_block:
            self._observed.append(0)
            self._parameters.append(None)

    def observe(self, block: int, features: NDArray[np.float64], reward: float, arm: int | None, sequence: int) -> bool:
        """Test one reward, before it is learned. Returns whether the block's parameters are to be renewed after it.

        features: (d,) as the model has them. arm: None for one that is not registered. sequence: in the log.
        """
        place = 0 if arm is None else arm + 1
        if place in self._changes:
            change = self._changes[place]
            self._changes[place] = change._replace(after=change.after + 1.0)
        parameters = self._parameters[block]
        if parameters is not None:
            self._test(place, reward - float(parameters @ features), ROUNDING * abs(reward), sequence)
        self._observed[block] = count = self._observed[block] + 1
        return count >= ESTIMATES_MIN and not count & ((1 << count.bit_length() - 3) - 1)

    def _test(self, place: int, residual: float, rounding: float, sequence: int) -> None:
        count, mean, squares, rise, fall = self._streams[place]
        weight, before_rise, before_fall = self._weights[place]
        if count >= RESIDUALS_MIN:
            spread = sqrt(squares / count)
            if spread > rounding:
                score = max(-SCORE_MAX, min(SCORE_MAX, (residual - mean) / spread))
                slack = DRIFT + ERRORS / sqrt(count)
                if place in self._changes:
                    slack += self._changes[place].echo / spread
                rise = _add(rise, score - slack, sequence, count, mean)
                fall = _add(fall, -score - slack, sequence, count, mean)
                before_rise = _begun(before_rise, weight, rise, sequence)
                before_fall = _begun(before_fall, weight, fall, sequence)
        count += 1.0
        step = residual - mean
        mean += step / count
        squares += step * (residual - mean)
        weight += 1.0
        self._streams[place] = count, mean, squares, rise, fall
        self._weights[place] = weight, before_rise, before_fall
        if rise[0] > THRESHOLD or fall[0] > THRESHOLD:
            _, since, earlier, mean_before = rise if rise[0] > THRESHOLD else fall
            size = (count * mean - earlier * mean_before) / (count - earlier) - mean_before
            before = before_rise if rise[0] > THRESHOLD else before_fall
            after = weight - before
            if place in self._changes:  # the estimate rests on more than the observations since the last alarm
                before = self._changes[place].before + self._changes[place].after - after
            self._changes[place] = Change(since, sequence, size, spread, before, after)
            self._streams[place], self._weights[place] = EMPTY, (0.0, 0.0, 0.0)

    def renew(self, block: int, theta: NDArray[np.float64], center: float) -> None:
        """Estimate by these parameters from now on, (d,); the last is the intercept, relative to the centre."""
        parameters = theta.copy()
        parameters[-1] += center
        self._parameters[block] = parameters

    def forget(self, share: float, step: int) -> list[int]:
        """Multiply what every observation so far weighs by this share; return the blocks whose parameters are due.

        step: observations from one call to the next. As a block forgets, its estimate goes on moving however many
        observations it has: so all are renewed at each fourth call, an eighth of a half-life apart.
        """
        self._weights = [(share * one, share * rise, share * fall) for one, rise, fall in self._weights]
        for place, change in self._changes.items():
            self._changes[place] = change._replace(before=share * change.before, after=share * change.after)
        if sum(self._observed) // step % RENEWED_AT:
            return []
        return [block for block, parameters in enumerate(self._parameters) if parameters is not None]

    def changes(self) -> dict[int | None, Change]:
        """The last change of each arm that had one, by order of registration; None for those not registered."""
        return {place - 1 if place else None: self._changes[place] for place in sorted(self._changes)}

    @property
    def stands(self) -> bool:
        """Whether a change of any arm does."""
        return any(change.stands for change in self._changes.values())

    def mark(self) -> None:
        """Remember this state for `restore`."""
        self._marked = self._streams.copy(), self._changes.copy(), self._observed.copy(), self._parameters.copy()
        self._marked_weights = self._weights.copy()

    def restore(self) -> None:
        """Return to the mark."""
        streams, changes, observed, parameters = self._marked
        self._streams, self._changes = streams.copy(), changes.copy()
        self._observed, self._parameters = observed.copy(), parameters.copy()
        self._weights = self._marked_weights.copy()

    def arrays(self) -> StateArrays:
        """Return the complete state."""
        changes = np.zeros((len(self._streams), len(Change._fields)))
        for place, change in self._changes.items():
            changes[place] = change
        known = [one for one in self._parameters if one is not None]
        return {
            "change_streams": np.array([[*one[:3], *one[3], *one[4]] for one in self._streams]),
            "changes": changes,
            **({"change_weights": np.array(self._weights)} if self._weights != self._counted() else {}),
            "change_observed": np.array(self._observed, dtype=np.int64),
            "change_known": np.array([one is not None for one in self._parameters], dtype=np.int64),
            "change_parameters": np.array(known) if known else np.zeros((0, 0)),
        }

    def _counted(self) -> list[Weights]:
        """What the streams weigh where nothing was forgotten since they began."""
        return [(count, rise[2], fall[2]) for count, _, _, rise, fall in self._streams]

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; arms that came since have none. Raises ValueError and KeyError."""
        streams, observed, known = (arrays[name] for name in ("change_streams", "change_observed", "change_known"))
        parameters = arrays["change_parameters"]
        arms, blocks = len(streams), len(observed)
        if arms > len(self._streams) or blocks > len(self._observed) or known.shape != (blocks,):
            raise ValueError("the change's arrays are of more arms than there are")
        rows = take(arrays, "change_streams", (arms, 11)).tolist()
        changes = take(arrays, "changes", (arms, len(Change._fields))).tolist()
        own = iter(take(arrays, "change_parameters", (int(known.sum()), *parameters.shape[1:])))
        self._streams[:arms] = [(*row[:3], _side(row[3:7]), _side(row[7:])) for row in rows]
        self._changes = {
            place: Change(int(row[0]), int(row[1]), *row[2:]) for place, row in enumerate(changes) if row[0]
        }
        self._weights = self._counted()
        if "change_weights" in arrays:
            self._weights[:arms] = [
                (row[0], row[1], row[2]) for row in take(arrays, "change_weights", (arms, 3)).tolist()
            ]
        self._observed[:blocks] = observed.tolist()
        self._parameters[:blocks] = [next(own) if one else None for one in known.tolist()]


def _add(side: Side, gain: float, sequence: int, count: float, mean: float) -> Side:
    total, since, before, mean_before = side
    total += gain
    if total <= 0.0:
        return AT_ZERO
    if total <= BEGINNING:
        return total, 0, 0.0, 0.0
    if since:
        return total, since, before, mean_before
    return total, sequence, count, mean


def _begun(before: float, weight: float, side: Side, sequence: int) -> float:
    """What the residuals before a side rose above `BEGINNING` weigh; 0 while it is not. weight: before this one."""
    if side[1] == sequence:
        return weight
    return before if side[1] else 0.0


def _side(numbers: list[float]) -> Side:
    total, since, before, mean = numbers
    return total, int(since), before, mean
