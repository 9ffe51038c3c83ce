"""The estimators, which share one shape: observe, refresh, theta, gram, weighted_gram, mark, restore."""

from typing import TypeAlias

from service.core.exact import ExactMinimizer
from service.core.onepass import OnePass
from service.core.online import OnlineGradient, Schedule
from service.core.ridge import Ridge

Estimator: TypeAlias = Ridge | ExactMinimizer | OnlineGradient | OnePass

__all__ = ["Estimator", "ExactMinimizer", "OnePass", "OnlineGradient", "Ridge", "Schedule"]
