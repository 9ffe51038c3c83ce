"""Measures that no fixed convex loss elicits are learned in stages: what must be known of the rewards comes first.

Stage one is a mean m(x) and, for most of them, a nuisance v(x), both linear in the features: the mean by least squares,
the nuisance by a convex loss of the residuals r = y - m(x), whose scale is that of the residuals. Stage two is a ridge
regression of the pseudo-reward Z(y, m, v) on the features. Each Z here is orthogonal: at the true m and v, E[Z | x] is
the measure and its derivatives in m and v vanish, so that an error of stage one enters stage two only squared. For the
quantile there is no stage two: its nuisance is what is sought.
Source: the mathematics page, "Measures in two stages", after Rockafellar & Uryasev 2000 and Chernozhukov et al. 2018.
"""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from prudent.core.measures.loss import Array, Loss

CONSISTENCY = 1.4826
"""The standard deviation of a normal law is this times its median absolute deviation."""
ROUNDING = 1e-11
"""Residuals below this part of the rewards are rounding: the rewards then lie on the fit."""


class Stages(ABC):
    """How a measure is learned in stages. Residuals and nuisances are (n,) arrays, or floats, in reward units."""

    __slots__ = ()

    is_direct: ClassVar[bool] = False
    """Whether the nuisance, added to the mean, is the risk itself, so that there is no stage two."""
    moves_with_rewards: ClassVar[bool] = True
    """Whether m + v, and not v, is what the rewards show directly: it moves with them, as a quantile does."""

    def nuisance_loss(self, spread: float, count: int, dimension: int, curvature: float = 1.0) -> Loss | None:  # noqa: ARG002 -- of some
        """Return the convex loss of the residuals that the nuisance minimises; None if there is no nuisance.

        spread: of the residuals, positive, in reward units; count: observations; dimension: of the features.
        curvature: the average second derivative of the loss without this argument, at its minimiser; that of the loss
        returned is then about 1, so that a ridge weight means what it does for the mean.
        """
        return None

    @abstractmethod
    def pseudo_residuals(self, residuals: Array, nuisance: Array, spread: float) -> Array:
        """Return Z - m(x), (n,). residuals: y - m(x); nuisance: v(x), or 0 without one; spread: 0 if there is none."""


def spread_of(residuals: Array, largest: float) -> float:
    """Return how widely residuals, (n,), scatter, in reward units; 0 where they are rounding.

    1.4826 times the median absolute deviation from their median; at least half of their mean absolute deviation, as the
    median is 0 where more than half of them are equal. largest: the largest size of the rewards.
    """
    if not len(residuals):
        return 0.0
    deviations = np.abs(residuals - np.median(residuals))
    spread = max(CONSISTENCY * float(np.median(deviations)), 0.5 * float(deviations.mean()))
    return spread if spread > ROUNDING * largest else 0.0
