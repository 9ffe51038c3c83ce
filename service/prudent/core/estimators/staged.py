"""The exact estimator of a measure in stages: every observation is kept, and looked at again."""

import math
from collections.abc import Mapping
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import BlockRows, Histories, StateArrays, check_observation, is_gram
from prudent.core.estimators.estimator import Convergence, ScoreMoments, score_quadratics
from prudent.core.estimators.stage_fits import (
    FirstStage,
    StagedFit,
    fit_directly,
    fit_first_stage,
    fit_second_stage,
    pseudo_residuals,
    ridge_of,
)
from prudent.core.measures import Array, Stages

_COUNTERS = ("observations", "fits", "uncertified")
_EVERY_MAX, _GROWTH = 20, 10


class StagedMinimizer:
    """theta for each block by stages (`prudent.core.measures.stages`), from all of the block's observations.

    Stage one is fitted to the block's first k observations, where k is the largest of 1, 2, .., 20, 22, 24, 26, 28, 30,
    33, .. (then each a tenth more than the last) that does not exceed their number n: it depends on the log's length
    and not on when `refresh` is called. Stage two is the ridge regression of all n pseudo-rewards Z on the features,

        theta = m + (sum x x^T + alpha I)^-1 (sum (Z - <m, x>) x - alpha m),

    with m the mean of stage one: sums are of the residuals' size, however far from 0 the rewards lie. A new k makes Z
    anew for all observations; in between a refit costs O(d^3). Where the nuisance is the risk itself, theta is m + v
    with v its minimiser over all n, by Newton's method from the last.

    Arrays as in `Estimator`, valid after `refresh`. With stage two the curvature is 1, so that weighted_gram is gram,
    and d1 is <theta, x> - Z; otherwise both are those of the nuisance's loss. theta is never projected. The history is
    kept, so there are no snapshots: the state is rebuilt from the log. Not thread safe. No finite-sample guarantee.
    Source: the mathematics page, "Measures in two stages".
    """

    has_snapshots: ClassVar[bool] = False
    warns_of_large_features: ClassVar[bool] = False

    def __init__(self, stages: Stages, blocks: int, dimension: int, regularization: float) -> None:
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.stages = stages
        self.dimension = dimension
        self.regularization = regularization
        self.observations = 0
        self.fits = 0
        self.uncertified = 0
        vectors = dict.fromkeys(("theta", "mean", "nuisance", "correlation"), (dimension,))
        matrices = dict.fromkeys(("gram", "weighted_gram"), (dimension, dimension))
        scalars = ("d1_squares", "d2_total", "squares", "summed", "spread", "curvature", "fitted", "is_uncertified")
        self._rows = BlockRows(blocks, {**vectors, **matrices, **dict.fromkeys(scalars, ())})
        self._histories = Histories(blocks, dimension)
        self._stale: set[int] = set()
        self._bind()

    def _bind(self) -> None:
        self.theta = self._rows["theta"]
        self.gram = self._rows["gram"]
        self.weighted_gram = self._rows["weighted_gram"]

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2 at theta over all observations, as of `refresh`."""
        return self._rows.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of d2 at theta over all observations, as of `refresh`."""
        return self._rows.total("d2_total")

    @property
    def convergence(self) -> Convergence:
        """What the solver of the nuisance did."""
        return Convergence(not self._rows["is_uncertified"].any(), self.fits, self.uncertified, 0)

    def warnings(self) -> list[str]:
        """Return what the owner should know of fits without a certificate."""
        return [f"{self.uncertified} fits of stage one did not meet the certificate"] if self.uncertified else []

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2).

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, self.dimension, x, y)
        self._rows.touch(block)
        gram = self.gram[block]
        gram += x[:, None] * x
        self._histories.append(block, x, y)
        self.observations += 1
        self._stale.add(block)

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always."""
        change = center - self._histories.center
        self._histories.recenter(center)
        for block in range(self._rows.count):
            if self._histories.length(block):
                self._rows.touch(block)
                self.theta[block, -1] -= change
                self._rows["fitted"][block] = 0.0
                self._stale.add(block)

    def refresh(self) -> list[int]:
        """Fit the blocks observed since the last call; return them in order."""
        changed = sorted(self._stale)
        for block in changed:
            if self._histories.length(block):
                self._rows.touch(block)
                with np.errstate(over="ignore", invalid="ignore", divide="ignore", under="ignore"):
                    self._fit(block)
        self._stale.clear()
        return changed

    def _fit(self, block: int) -> None:
        rows = self._rows
        features, rewards = self._histories.features(block), self._histories.rewards(block)
        count = fitted_count(int(rows["fitted"][block]), len(rewards))
        is_new = count != rows["fitted"][block]
        if is_new:
            ridge = ridge_of(self.stages, self.regularization)
            self._keep(block, fit_first_stage(self.stages, features[:count], rewards[:count], ridge))
        first = self._first_stage(block)
        if self.stages.is_direct:
            start = first.nuisance if is_new else self.theta[block] - first.mean
            loss = first.loss(self.stages)
            self._adopt(block, fit_directly(first, loss, features, rewards, start, self.regularization))
        else:
            self._adopt(block, self._fit_second_stage(block, first, features, rewards))

    def _keep(self, block: int, first: FirstStage) -> None:
        rows = self._rows
        rows["mean"][block], rows["nuisance"][block] = first.mean, first.nuisance
        rows["spread"][block], rows["curvature"][block] = first.spread, first.curvature
        rows["fitted"][block] = first.observations
        rows["correlation"][block] = 0.0
        rows["squares"][block] = rows["summed"][block] = 0.0
        rows["is_uncertified"][block] = not first.certified
        self.fits += 1
        self.uncertified += not first.certified

    def _first_stage(self, block: int) -> FirstStage:
        rows = self._rows
        spread, curvature = rows["spread"].item(block), rows["curvature"].item(block)
        return FirstStage(
            rows["mean"][block],
            rows["nuisance"][block],
            spread,
            curvature,
            int(rows["fitted"][block]),
            certified=not rows["is_uncertified"][block],
        )

    def _fit_second_stage(self, block: int, first: FirstStage, features: Array, rewards: Array) -> StagedFit:
        rows, count = self._rows, len(rewards)
        new = slice(int(rows["summed"][block]), count)
        added = pseudo_residuals(self.stages, first, features[new], rewards[new])
        rows["correlation"][block] += features[new].T @ added
        rows["squares"][block] += added.dot(added)
        rows["summed"][block] = count
        squares = rows["squares"].item(block)
        return fit_second_stage(
            first.mean, self.gram[block], rows["correlation"][block], squares, count, self.regularization
        )

    def _adopt(self, block: int, fit: StagedFit) -> None:
        rows = self._rows
        self.fits += self.stages.is_direct
        self.uncertified += not fit.certified
        if self.stages.is_direct:
            rows["is_uncertified"][block] = not fit.certified
        if np.isfinite(fit.theta).all():
            self.theta[block], self.weighted_gram[block] = fit.theta, fit.weighted_gram
            rows["d1_squares"][block], rows["d2_total"][block] = fit.d1_squares, fit.d2_total

    def known_factor(self, block: int) -> None:
        """Return None: no factor is kept."""

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments | None:  # noqa: ARG002 -- not needed here
        """Return the moments summed over the observations; None without a certificate."""
        if self._rows["is_uncertified"][block]:
            return None
        count = self._histories.length(block)
        return ScoreMoments(count, count * self.dimension, partial(self._score_quadratics, block))

    def _score_quadratics(self, block: int, directions: Array) -> Array:
        """Return `score_quadratics`; nan without spread."""
        features, rewards = self._histories.features(block), self._histories.rewards(block)
        first, theta = self._first_stage(block), self.theta[block]
        loss = first.loss(self.stages) if self.stages.is_direct else None
        if float(np.ptp(rewards)) == 0.0 or (self.stages.is_direct and loss is None):
            return np.full(len(directions), np.nan)

        def slopes_of(part: slice) -> Array:
            chunk, own = features[part], rewards[part]
            moved = chunk @ (theta - first.mean)
            if loss is None:
                slopes: Array = moved - pseudo_residuals(self.stages, first, chunk, own)
                return slopes
            return loss.d1(own - chunk @ first.mean, moved)

        return score_quadratics(directions, features, slopes_of)

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._histories.add_block()
        self._stale.add(self._rows.count - 1)
        self._bind()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._histories.mark()
        self._marked_stale = self._stale.copy()
        self._marked_counters = tuple(getattr(self, name) for name in _COUNTERS)

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self._histories.restore()
        self._stale = self._marked_stale.copy()
        for name, value in zip(_COUNTERS, self._marked_counters, strict=True):
            setattr(self, name, value)
        self._bind()

    def arrays(self) -> StateArrays:
        """Return nothing: the state is the history, and rebuilt from the log."""
        return {}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:  # noqa: ARG002 -- none will do
        """Raise ValueError: this estimator has no snapshots."""
        raise ValueError("this estimator has no snapshots: its state is rebuilt from the log")

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram) and is_gram(self.weighted_gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the history's spare capacity with them."""
        return self._rows.nbytes + self._histories.nbytes


def fitted_count(fitted: int, count: int) -> int:
    """Return how many of a block's `count` observations stage one is fitted to: see `StagedMinimizer`.

    fitted: how many it was fitted to before, a value of this function for a smaller count, or 0.
    """
    if count <= _EVERY_MAX:
        return count
    following = max(fitted, _EVERY_MAX)
    while following <= count:
        fitted, following = following, following + following // _GROWTH
    return fitted
