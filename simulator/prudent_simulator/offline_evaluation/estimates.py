"""What the ways to judge a campaign on a log have in common: the session, and values with intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from prudent_simulator.client import Client
from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.measures import MEAN, Measure, bootstrap, interval
from prudent_simulator.offline_evaluation.reading import Log, Row


@dataclass(frozen=True)
class Session:
    """A log, and the campaign on a service that it is played through.

    measure: the campaign's risk; run_id: goes into the ids of decisions; resamples, seed: of the bootstrap; on_step:
    told how many rows and resamples have been dealt with since it was last called.
    """

    client: Client
    log: Log
    campaign_id: str
    measure: Measure
    run_id: str
    resamples: int
    seed: int
    on_step: Callable[[int], None] = lambda _: None


@dataclass(frozen=True)
class Value:
    """A mean and a risk, in reward units, with bootstrap intervals (None where a resample has no value)."""

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
            return np.array([[measure.of_masses(rewards, own) for measure in measures] for own in weighted])

        generator = np.random.default_rng(session.seed)
        self._point = statistic(np.ones(rewards.size))
        self._drawn = bootstrap(statistic, rewards.size, session.resamples, generator, lambda _: session.on_step(1))

    def value(self, column: int) -> Value:
        """Give the value under one of the masses."""
        mean, risk = self._point[column]
        of_mean, of_risk = (interval(self._drawn[:, column, measure]) for measure in (0, 1))
        return Value(float(mean), float(risk), of_mean, of_risk)

    def risk_difference(self, column: int, other: int) -> tuple[float, tuple[float, float] | None]:
        """Give by how much the risk is higher under one than under another, with its interval."""
        difference = self._drawn[:, column, 1] - self._drawn[:, other, 1]
        return float(self._point[column, 1] - self._point[other, 1]), interval(difference)


def shares(counts: FloatArray) -> FloatArray:
    """Give masses of sum 1 to rows that count as often as this."""
    normalised: FloatArray = counts / counts.sum()
    return normalised
