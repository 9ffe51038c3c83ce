"""What can be said of a campaign on a log without propensities. It is not an estimate of the policy's value.

The campaign is fitted on the first part of the log, and asked about the rest:

- calibration: the risk that it predicted for the arm that was used, against the rewards that came. In a bin of rows
  with predictions v_i, a calibrated campaign has risk(y_i - v_i) = 0, whatever the bin mixes, because each row's
  own risk is v_i and the measures are translation equivariant. The risk of the bin's rewards stands beside it; it
  mixes cases, so it need not equal the mean prediction exactly.
- agreement with the incumbent, the one who chose in the log.
- recommendations without support: where the recommended arm was never or rarely used in the cases of the fitted part
  that resemble this one most, the recommendation is an extrapolation.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from prudent_simulator.environments import FloatArray, IntArray
from prudent_simulator.offline_evaluation.columns import numbers_of
from prudent_simulator.offline_evaluation.estimates import Session, rewards_of
from prudent_simulator.offline_evaluation.frozen import Frozen, freeze
from prudent_simulator.offline_evaluation.measures import bootstrap, interval
from prudent_simulator.offline_evaluation.reading import Row
from prudent_simulator.runner import RunError

BINS_MAX = 10
BIN_ROWS_MIN = 30
NEIGHBOURS = 100
RARE_BELOW = 5


@dataclass(frozen=True)
class Bin:
    """Rows of similar predictions, all in reward units.

    predicted: their mean, lowest and highest; empirical: risk of their rewards; off_by: risk of reward less
    prediction, 0 when calibrated, with its interval.
    """

    rows: int
    predicted: float
    predicted_min: float
    predicted_max: float
    empirical: float
    off_by: float
    off_by_interval: tuple[float, float] | None

    @property
    def calibrated(self) -> bool:
        """Whether the interval of off_by holds 0."""
        return self.off_by_interval is not None and self.off_by_interval[0] <= 0.0 <= self.off_by_interval[1]


@dataclass(frozen=True)
class Shadow:
    """What fitting on the first part shows on the rest.

    overall: all rows as one bin; logged, recommended: rows of the rest by arm; never, rarely: recommendations, by arm,
    of an arm that was used in none, or in fewer than RARE_BELOW, of the `neighbours` most similar fitted rows;
    compares_cases: whether something describes the cases, so that they can be similar.
    """

    fitted: int
    held_out: int
    overall: Bin
    bins: list[Bin]
    agreement: float
    logged: dict[str, int]
    recommended: dict[str, int]
    neighbours: int
    compares_cases: bool
    never: dict[str, int]
    rarely: dict[str, int]


def _predictions(frozen: Frozen) -> FloatArray:
    predicted = []
    for row, reply in zip(frozen.held_out, frozen.replies, strict=True):
        found = [score.estimate for score in reply.arms or () if score.arm_id == row.arm]
        if not found:
            raise RunError(f"the service sent no score for {row.arm}, though explain was set")
        predicted.append(found[0])
    return np.array(predicted)


def _edges(predicted: FloatArray) -> list[IntArray]:
    """Split rows into bins of neighbouring predictions, about as many rows in each; equal predictions stay together."""
    wanted = min(BINS_MAX, max(1, predicted.size // BIN_ROWS_MIN))
    cuts = np.unique(np.quantile(predicted, np.linspace(0.0, 1.0, wanted + 1)[1:-1], method="lower"))
    place = np.searchsorted(cuts, predicted, side="right")
    return [np.flatnonzero(place == number) for number in np.unique(place)]


def _bin(session: Session, rewards: FloatArray, predicted: FloatArray, seed: int) -> Bin:
    errors = rewards - predicted

    def off_by(counts: FloatArray) -> FloatArray:
        return np.array([session.measure.of_masses(errors, counts / counts.sum())])

    drawn = bootstrap(off_by, errors.size, session.resamples, np.random.default_rng((session.seed, seed)))
    return Bin(
        rows=errors.size,
        predicted=float(predicted.mean()),
        predicted_min=float(predicted.min()),
        predicted_max=float(predicted.max()),
        empirical=session.measure.of_sample(rewards),
        off_by=session.measure.of_sample(errors),
        off_by_interval=interval(drawn[:, 0]),
    )


def _cases(rows: Sequence[Row]) -> FloatArray | None:
    """Give what describes the cases, (n, d); None where nothing does.

    That is the context, or the features of all candidates where these are always the same arms.
    """
    if isinstance(rows[0].context, dict):
        return np.array(numbers_of([row.context for row in rows if isinstance(row.context, dict)]))
    if rows[0].context is not None:
        return np.array([row.context for row in rows])
    if rows[0].features is None or any((row.features or {}).keys() != rows[0].features.keys() for row in rows):
        return None
    return np.array([np.concatenate([(row.features or {})[arm] for arm in rows[0].features]) for row in rows])


def _support(frozen: Frozen) -> tuple[IntArray, int, bool]:
    """Count how often each recommended arm was used in the most similar fitted rows, (n,), and among how many.

    The last value says whether cases could be compared; else all fitted rows count.
    """
    cases = _cases([*frozen.fitted, *frozen.held_out])
    arms = [row.arm for row in frozen.fitted]
    if cases is None:
        used = Counter(arms)
        return np.array([used[reply.arm_id] for reply in frozen.replies]), len(arms), False
    fitted = cases[: len(arms)]
    spread = fitted.std(axis=0)
    spread[spread == 0.0] = 1.0
    count = min(NEIGHBOURS, len(arms))
    _, nearest = cKDTree(fitted / spread).query(cases[len(arms) :] / spread, k=[*range(1, count + 1)])
    names = np.array(arms)[nearest]
    recommended = np.array([reply.arm_id for reply in frozen.replies])
    return (names == recommended[:, None]).sum(axis=1), count, True


def look_in_shadow(session: Session, fit_share: float) -> Shadow:
    """Fit, freeze, and compare with what happened."""
    frozen = freeze(session, fit_share, explain=True)
    rewards, predicted = rewards_of(frozen.held_out), _predictions(frozen)
    bins = []
    for number, members in enumerate(_edges(predicted), start=1):
        bins.append(_bin(session, rewards[members], predicted[members], number))
    used, neighbours, compares = _support(frozen)
    recommended = [reply.arm_id for reply in frozen.replies]
    never = Counter(arm for arm, count in zip(recommended, used, strict=True) if count == 0)
    rarely = Counter(arm for arm, count in zip(recommended, used, strict=True) if 0 < count < RARE_BELOW)
    return Shadow(
        fitted=len(frozen.fitted),
        held_out=len(frozen.held_out),
        overall=_bin(session, rewards, predicted, 0),
        bins=bins,
        agreement=frozen.agreement,
        logged=dict(Counter(row.arm for row in frozen.held_out)),
        recommended=dict(Counter(recommended)),
        neighbours=neighbours,
        compares_cases=compares,
        never=dict(never),
        rarely=dict(rarely),
    )
