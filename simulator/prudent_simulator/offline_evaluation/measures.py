"""Risk measures of weighted samples, and the uncertainty of whatever is computed from one.

A sample is rewards y_i with masses q_i >= 0. Where the masses sum to 1 they are a probability distribution, and its
risk is meant. Estimates from logs also have masses that sum to 1 on average only (inverse propensity weights divided
by the number of rows). Each measure is then what its defining expectations give, each estimated by a sum over the
masses:

- mean: m = sum q y.
- entropic: log(sum q exp(gamma y)) / gamma.
- cvar at level a: the largest of q - sum q_i (q - y_i)+ / a over q; quantile: the smallest q at which it is that large.
- mean-variance: m - l sqrt(sum q (y - m)^2), or m - l/2 sum q (y - m)^2. moment: sum q T(y).
- expectile at level p <= 1/2: the root of p (m - v + B(v)) = (1 - p) B(v), with the shortfall B(v) = sum q (v - y)+.
  This is the balance p E(Y - v)+ = (1 - p) E(v - Y)+ with E(Y - v)+ = E Y - v + E(v - Y)+ put in, and at p = 1/2 it
  is the mean. Above 1/2 it is minus the expectile of -y at 1 - p. The root is unique, as B rises and 2 p - 1 <= 0.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from prudent_simulator.environments import FloatArray, IntArray

INTERVAL = 0.95
RESAMPLES_MAX = 100_000


@dataclass(frozen=True)
class Measure:
    """A risk measure. dial: a level, gamma, or the aversion of mean-variance.

    of: what mean-variance punishes, or the kind of a moment; parameters: of a moment, by name.
    """

    name: str
    dial: float = 0.0
    of: str = ""
    parameters: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of_campaign(cls, risk: dict[str, Any]) -> "Measure":
        """Take it from a campaign as the service resolved it."""
        name = risk["measure"]
        given = {key: value for key, value in risk.items() if key not in {"measure", "of"} and value is not None}
        if name == "moment":
            return cls(name, 0.0, risk["of"], tuple(given.items()))
        dial = given.get({"entropic": "gamma", "mean-variance": "aversion"}.get(name, "level"), 0.0)
        return cls(name, float(dial), risk.get("of") or "")

    def __str__(self) -> str:
        dial = f"{self.dial:.4g}"
        if self.name == "expectile":
            return f"expectile at level {dial} (downside weight {(1.0 - self.dial) / self.dial:.4g})"
        if self.name == "mean-variance":
            penalty = f"{dial} deviations" if self.of == "deviation" else f"{self.dial / 2:.4g} times the variance"
            return f"mean less {penalty}"
        if self.name == "moment":
            return " ".join(["moment", self.of, *(f"{key} {value:.4g}" for key, value in self.parameters)])
        shown = {"entropic": f"entropic risk, gamma {dial}", "cvar": f"CVaR at level {dial}"}
        return shown.get(self.name, f"quantile at level {dial}" if self.name == "quantile" else self.name)

    @property
    def rises_with_the_law(self) -> bool:
        """Whether a law with larger rewards never has a smaller risk. A larger reward spreads them, too."""
        return self.name != "mean-variance"

    def of_sample(self, rewards: FloatArray) -> float:
        """Give the risk of rewards, (n,), that count the same."""
        return self.of_masses(rewards, np.full(rewards.size, 1.0 / rewards.size))

    def of_masses(self, rewards: FloatArray, masses: FloatArray) -> float:
        """Give the risk of rewards, (n,), with masses, (n,); nan where all masses are 0."""
        if not (masses > 0.0).any():
            return math.nan
        if self.name == "expectile":
            if self.dial > 0.5:
                return -_expectile(-rewards, masses, 1.0 - self.dial)
            return _expectile(rewards, masses, self.dial)
        if self.name == "entropic":
            return float(logsumexp(self.dial * rewards, b=masses)) / self.dial
        if self.name in {"cvar", "quantile"}:
            quantile, cvar = _worst(rewards, masses, self.dial)
            return cvar if self.name == "cvar" else quantile
        if self.name == "moment":
            return float(masses @ _outcomes(rewards, self.of, dict(self.parameters)))
        mean = float(masses @ rewards)
        if self.name == "mean-variance":
            variance = float(masses @ (rewards - mean) ** 2)
            return mean - (self.dial * math.sqrt(variance) if self.of == "deviation" else self.dial / 2 * variance)
        return mean

    def error_of(self, rewards: FloatArray, masses: FloatArray, counts: FloatArray, risk: float) -> float:
        """Give the standard error of the risk of a sample, by its influence function; (n,) arrays.

        masses: of sum 1, of all counts of a row together. nan where there is none, as for a quantile, whose error is
        one of the density there.
        """
        if not math.isfinite(risk) or self.name == "quantile":
            return math.nan
        drawn = counts > 0.0
        gaps, own = rewards[drawn] - risk, masses[drawn]
        scores, slope = gaps, 1.0
        if self.name == "expectile":
            sides = np.where(gaps >= 0.0, self.dial, 1.0 - self.dial)
            scores, slope = sides * gaps, float(own @ sides)
        elif self.name == "entropic":
            scores = np.expm1(self.dial * gaps) / self.dial
        else:
            scores = self._learned(rewards[drawn], own) - risk
        return math.sqrt(float((own * own / counts[drawn]) @ (scores * scores))) / slope

    def _learned(self, rewards: FloatArray, masses: FloatArray) -> FloatArray:
        """Give what the risk is the mean of, (n,): the rewards, or what takes their place."""
        if self.name == "cvar":
            quantile, _ = _worst(rewards, masses, self.dial)
            return quantile - np.maximum(quantile - rewards, 0.0) / self.dial
        if self.name == "moment":
            return _outcomes(rewards, self.of, dict(self.parameters))
        if self.name != "mean-variance":
            return rewards
        squares = (rewards - float(masses @ rewards)) ** 2
        if self.of == "variance":
            return rewards - self.dial / 2 * squares
        deviation = math.sqrt(float(masses @ squares))
        return rewards - (self.dial / 2 * (deviation + squares / deviation) if deviation > 0.0 else 0.0)


def _worst(rewards: FloatArray, masses: FloatArray, level: float) -> tuple[float, float]:
    """Give the quantile and the CVaR. The slope 1 - F(q) / level of what is maximised changes sign at the quantile."""
    order = np.argsort(rewards, kind="stable")
    values, below = rewards[order], masses[order]
    place = min(int(np.searchsorted(np.cumsum(below), level * (1.0 - 1e-12))), values.size - 1)
    quantile = float(values[place])
    return quantile, quantile - float(below[:place] @ (quantile - values[:place])) / level


def _outcomes(rewards: FloatArray, kind: str, parameters: dict[str, float]) -> FloatArray:
    """Give T(y) of a moment, (n,)."""
    if kind == "above":
        return np.where(rewards >= parameters["threshold"], 1.0, 0.0)
    if kind == "shortfall":
        return np.minimum(rewards - parameters["threshold"], 0.0)
    if kind == "capped":
        return np.clip(rewards, parameters["lower"], parameters["upper"])
    if kind == "gain-loss":
        distance = rewards - parameters["reference"]
        return parameters["reference"] + np.where(distance > 0.0, distance, parameters["factor"] * distance)
    found: FloatArray = np.log(rewards) if kind == "log" else rewards ** parameters["exponent"]
    return found


MEAN = Measure("mean")


def _expectile(rewards: FloatArray, masses: FloatArray, level: float) -> float:
    """Solve v = m + c B(v), c = (2 p - 1) / p <= 0, whose right side is linear between neighbouring rewards."""
    order = np.argsort(rewards, kind="stable")
    values, below = rewards[order], masses[order]
    mass, moment = np.cumsum(below), np.cumsum(below * values)
    mean, slope = moment[-1], (2.0 * level - 1.0) / level
    surplus = mean + slope * (values * mass - moment) - values  # falls from one reward to the next
    shorter = int(np.count_nonzero(surplus > 0.0))  # how many rewards lie below the root
    if shorter == 0:
        return float(mean)
    return float((mean - slope * moment[shorter - 1]) / (1.0 - slope * mass[shorter - 1]))


def effective_sample_size(weights: FloatArray) -> float:
    """Give (sum w)^2 / sum w^2, Kish's number of equally weighted rows that would say as much."""
    squares = float(weights @ weights)
    return float(weights.sum()) ** 2 / squares if squares > 0.0 else 0.0


def bootstrap(
    statistic: Callable[[FloatArray], FloatArray],
    rows: int,
    resamples: int,
    generator: np.random.Generator,
    on_resample: Callable[[int], None] = lambda _: None,
) -> FloatArray:
    """Resample rows with replacement, and give the statistics, (resamples, m).

    statistic: from how often each row was drawn, (rows,), to (m,); on_resample: called with how many are done.
    """
    drawn = []
    for number in range(resamples):
        chosen: IntArray = generator.integers(rows, size=rows)
        drawn.append(statistic(np.bincount(chosen, minlength=rows).astype(np.float64)))
        on_resample(number + 1)
    return np.array(drawn)


def studentized(value: float, error: float, statistics: FloatArray, errors: FloatArray) -> tuple[float, float] | None:
    """Give the percentile-t interval around a value; None where it has no ends.

    error: of the value; statistics, errors: of the resamples, (resamples,). Resamples whose rewards are all equal have
    no error, and are left out; there is no interval where most are such.
    """
    kept = errors > 0.0
    if not error > 0.0 or not np.isfinite(statistics).all() or 2 * np.count_nonzero(kept) < errors.size:
        return None
    ratios = (statistics[kept] - value) / errors[kept]
    low, high = np.quantile(ratios, [(1.0 - INTERVAL) / 2.0, (1.0 + INTERVAL) / 2.0])
    return float(value - high * error), float(value - low * error)


def interval(statistics: FloatArray) -> tuple[float, float] | None:
    """Give the percentile interval of bootstrap statistics, (resamples,); None where any of them is undefined."""
    if not np.isfinite(statistics).all():
        return None
    low, high = np.quantile(statistics, [(1.0 - INTERVAL) / 2.0, (1.0 + INTERVAL) / 2.0])
    return float(low), float(high)
