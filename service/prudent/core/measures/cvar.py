"""CVaR, the conditional value at risk or expected shortfall: the average of the bad cases."""

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from prudent.core.measures.loss import Array
from prudent.core.measures.mean import SquaredLoss
from prudent.core.measures.measure import Measure
from prudent.core.measures.quantile import QuantileStages, check_level, share_in_words
from prudent.core.measures.samples import outcomes_of, pseudo_interval


@dataclass(frozen=True, slots=True)
class CvarStages(QuantileStages):
    """Stage one: the quantile q at the level. Stage two: Z = q - (q - y)+ / level, whose mean is largest at q.

    So dE[Z]/dq = 1 - P(Y < q) / level = 0 at the quantile, and E[Z] is the CVaR there.
    Source: Rockafellar & Uryasev 2000, Theorem 1.
    """

    is_direct = False

    def pseudo_residuals(self, residuals: Array, nuisance: Array, spread: float) -> Array:  # noqa: ARG002 -- one signature for every measure
        """Return v - (v - r)+ / level, (n,): r and v are relative to the mean, and so is this."""
        return nuisance - np.maximum(nuisance - residuals, 0.0) / self.level


@dataclass(frozen=True, slots=True)
class Cvar(Measure):
    """The mean of the worst share `level` of the rewards, in (0, 1).

    It follows every change of unit with the same level. Raises ValueError for a level outside (0, 1).
    """

    name = "cvar"
    noun = "CVaR"
    meaning = "The CVaR is the average of the bad cases: of the worst tenth of the rewards, for instance."

    level: float
    loss: SquaredLoss = field(default=SquaredLoss(), init=False, repr=False)

    def __post_init__(self) -> None:
        check_level(self.level)

    @property
    def stages(self) -> CvarStages:
        """A quantile, then the excess below it."""
        return CvarStages(self.level)

    @property
    def title(self) -> str:
        """Its name with its level."""
        return f"CVaR at level {self.level:.4g}"

    @property
    def aim(self) -> str:
        """What a campaign that goes by it looks for."""
        return f"Cautious: maximises the average of the worst {share_in_words(self.level)} of the rewards."

    def risk(self, values: ArrayLike, weights: ArrayLike | None = None) -> float:
        """Return the average of the lowest values whose weights make up `level` of the sum; see `Measure.risk`.

        A value on the border counts in part. It is the largest of mean(q - (q - y)+ / level) over q.
        """
        outcomes, masses = outcomes_of(values, weights)
        order = np.argsort(outcomes)
        outcomes, masses = outcomes[order], masses[order]
        lowest = float(outcomes[0])  # relative to it, so that values that share a large offset lose no digits
        target = self.level * float(masses.sum())
        before = np.concatenate([[0.0], np.cumsum(masses)[:-1]])
        taken = np.minimum(masses, np.maximum(target - before, 0.0))
        return lowest + float(taken @ (outcomes - lowest)) / float(taken.sum())

    def transformed(self, scale: float, shift: float) -> Self:  # noqa: ARG002 -- one signature for every measure
        """Return itself."""
        return self

    def interval(self, values: Array, risk: float) -> tuple[float, float] | None:
        """As `Measure.interval`, from the spread of Z at the sample's own quantile."""
        quantile = float(np.quantile(values, self.level, method="inverted_cdf"))
        return pseudo_interval(quantile - np.maximum(quantile - values, 0.0) / self.level, risk)
