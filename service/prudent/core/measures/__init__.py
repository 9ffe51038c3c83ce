"""The risk measures, one file each; nothing outside this package asks which one it has."""

from prudent.core.measures.entropic import Entropic, EntropicLoss
from prudent.core.measures.expectile import Expectile, ExpectileLoss
from prudent.core.measures.mean import Mean, SquaredLoss
from prudent.core.measures.measure import INTERVAL_COUNT_MIN, INTERVAL_LEVEL, Array, Loss, Measure

MEASURES: tuple[type[Measure], ...] = (Mean, Expectile, Entropic)
"""All of them; a configuration exists for each (`prudent.campaigns.risk`)."""

__all__ = [
    "INTERVAL_COUNT_MIN",
    "INTERVAL_LEVEL",
    "MEASURES",
    "Array",
    "Entropic",
    "EntropicLoss",
    "Expectile",
    "ExpectileLoss",
    "Loss",
    "Mean",
    "Measure",
    "SquaredLoss",
]
