"""The estimators, which share one shape: observe, refresh, theta, gram, weighted_gram, mark, restore."""

from typing import TypeAlias

from prudent.core.estimators.exact import ExactMinimizer
from prudent.core.estimators.one_pass import OnePass
from prudent.core.estimators.online_gradient import OnlineGradient, Schedule
from prudent.core.estimators.ridge import Ridge

Estimator: TypeAlias = Ridge | ExactMinimizer | OnlineGradient | OnePass

__all__ = ["Estimator", "ExactMinimizer", "OnePass", "OnlineGradient", "Ridge", "Schedule"]
