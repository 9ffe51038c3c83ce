"""The estimators. Each is one file, and an `Estimator`: nobody asks which one it is."""

from prudent.core.estimators.estimator import Convergence, Estimator, RewardsKept, ScoreMoments, SolverCounts
from prudent.core.estimators.exact import ExactMinimizer
from prudent.core.estimators.one_pass import OnePass
from prudent.core.estimators.online_gradient import OnlineGradient, Schedule
from prudent.core.estimators.ridge import Ridge
from prudent.core.estimators.staged import StagedMinimizer
from prudent.core.estimators.staged_one_pass import StagedOnePass

__all__ = [
    "Convergence",
    "Estimator",
    "ExactMinimizer",
    "OnePass",
    "OnlineGradient",
    "RewardsKept",
    "Ridge",
    "Schedule",
    "ScoreMoments",
    "SolverCounts",
    "StagedMinimizer",
    "StagedOnePass",
]
