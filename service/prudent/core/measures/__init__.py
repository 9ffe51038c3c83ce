"""The risk measures, one file each; nothing outside this package asks which one it has."""

from prudent.core.measures.cvar import Cvar
from prudent.core.measures.entropic import Entropic, EntropicLoss
from prudent.core.measures.expectile import Expectile, ExpectileLoss
from prudent.core.measures.loss import Array, Loss
from prudent.core.measures.mean import Mean, SquaredLoss
from prudent.core.measures.mean_variance import MeanVariance
from prudent.core.measures.measure import Measure
from prudent.core.measures.moment import Moment
from prudent.core.measures.quantile import Quantile
from prudent.core.measures.samples import INTERVAL_COUNT_MIN, INTERVAL_LEVEL
from prudent.core.measures.stages import Stages

MEASURES: tuple[type[Measure], ...] = (Mean, Expectile, Entropic, Cvar, Quantile, MeanVariance, Moment)
"""All of them; a configuration exists for each (`prudent.campaigns.risk`)."""

__all__ = [
    "INTERVAL_COUNT_MIN",
    "INTERVAL_LEVEL",
    "MEASURES",
    "Array",
    "Cvar",
    "Entropic",
    "EntropicLoss",
    "Expectile",
    "ExpectileLoss",
    "Loss",
    "Mean",
    "MeanVariance",
    "Measure",
    "Moment",
    "Quantile",
    "SquaredLoss",
    "Stages",
]
