"""What the ways to judge a campaign on a log have in common: the session, and values with intervals."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from prudent_simulator.client import Client
from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.bounds import lower_bound, upper_bound
from prudent_simulator.offline_evaluation.measures import MEAN, Measure, bootstrap, interval, studentized
from prudent_simulator.offline_evaluation.reading import Log, Row

FEW_ROWS = 200
"""Matched rows below which percentiles of the bootstrap cover too seldom: docs/logged-data.md has the figures."""


@dataclass(frozen=True)
class Session:
    """A log, and the campaign on a service that it is played through.

    measure: the campaign's risk; minimum, maximum: of rewards, where known; run_id: goes into the ids of decisions;
    resamples, seed: of the bootstrap; on_step: told how many rows and resamples have been dealt with since it was last
    called.
    """

    client: Client
    log: Log
    campaign_id: str
    measure: Measure
    run_id: str
    resamples: int
    seed: int
    minimum: float | None = None
    maximum: float | None = None
    on_step: Callable[[int], None] = lambda _: None


@dataclass(frozen=True)
class Value:
    """A mean and a risk, in reward units, with their intervals (None where there is none)."""

    mean: float
    risk: float
    mean_interval: tuple[float, float] | None
    risk_interval: tuple[float, float] | None


def rewards_of(rows: Sequence[Row]) -> FloatArray:
    """Give the rewards, (n,)."""
    return np.array([row.reward for row in rows])


Masses = Callable[[FloatArray], FloatArray]
"""How the masses, (n,), of a sample follow from how often each row counts, (n,)."""


class Resampled:
    """Values of one sample of rewards, (n,), under several masses, resampled together so that they compare."""

    def __init__(self, session: Session, rewards: FloatArray, masses: Sequence[Masses]) -> None:
        measures = (MEAN, session.measure)

        def statistic(counts: FloatArray) -> FloatArray:
            weighted = [of_counts(counts) for of_counts in masses]
            found = []
            for own in weighted:
                values = [measure.of_masses(rewards, own) for measure in measures]
                pairs = zip(measures, values, strict=True)
                found.append([*values, *(measure.error_of(rewards, own, counts, value) for measure, value in pairs)])
            return np.array(found)

        generator = np.random.default_rng(session.seed)
        self._session, self._rewards = session, rewards
        self._point = statistic(np.ones(rewards.size))
        self._drawn = bootstrap(statistic, rewards.size, session.resamples, generator, lambda _: session.on_step(1))

    def value(self, column: int) -> Value:
        """Give the value under one of the masses, with percentiles of the bootstrap for intervals."""
        mean, risk = self._point[column, :2]
        of_mean, of_risk = (interval(self._drawn[:, column, measure]) for measure in (0, 1))
        return Value(float(mean), float(risk), of_mean, of_risk)

    def value_of_few(self, column: int) -> Value:
        """Give the value under masses of sum 1 with percentile-t intervals, which suit fewer rows than percentiles."""
        mean, risk, *errors = self._point[column].tolist()
        of_mean, of_risk = (
            studentized(value, error, self._drawn[:, column, place], self._drawn[:, column, 2 + place])
            for place, (value, error) in enumerate(zip((mean, risk), errors, strict=True))
        )
        return Value(mean, risk, of_mean, of_risk)

    def bounded(self, value: Value) -> Value:
        """Put the bounds that follow from the range of rewards in place of a value's ends, where it is known.

        The rows must count the same, and be independent and of one law. A risk that does not rise with the law keeps
        its ends.
        """

        def ends(measure: Measure, known: tuple[float, float] | None) -> tuple[float, float] | None:
            if not measure.rises_with_the_law:
                return known
            low, high = (-math.inf, math.inf) if known is None else known
            if self._session.minimum is not None:
                low = lower_bound(measure, self._rewards, self._session.minimum)
            if self._session.maximum is not None:
                high = upper_bound(measure, self._rewards, self._session.maximum)
            return (low, high) if math.isfinite(low) and math.isfinite(high) else None

        return replace(
            value,
            mean_interval=ends(MEAN, value.mean_interval),
            risk_interval=ends(self._session.measure, value.risk_interval),
        )

    def risk_difference(self, column: int, other: int) -> tuple[float, tuple[float, float] | None]:
        """Give by how much the risk is higher under one than under another, with its interval."""
        difference = self._drawn[:, column, 1] - self._drawn[:, other, 1]
        return float(self._point[column, 1] - self._point[other, 1]), interval(difference)


def shares(counts: FloatArray) -> FloatArray:
    """Give masses of sum 1 to rows that count as often as this."""
    normalised: FloatArray = counts / counts.sum()
    return normalised
