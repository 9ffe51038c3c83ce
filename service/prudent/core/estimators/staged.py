"""The exact estimator of a measure in stages: every observation is kept, and looked at again."""

from functools import partial

import numpy as np

from prudent.core.estimators.blocks import Refitted
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

_EVERY_MAX, _GROWTH = 20, 10


class StagedMinimizer(Refitted):
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

    counters = ("observations", "fits", "uncertified")

    def __init__(self, stages: Stages, blocks: int, dimension: int, regularization: float) -> None:
        vectors: dict[str, tuple[int, ...]] = dict.fromkeys(("mean", "nuisance", "correlation"), (dimension,))
        scalars = ("squares", "summed", "spread", "curvature", "fitted", "is_uncertified")
        super().__init__(blocks, dimension, regularization, {**vectors, **dict.fromkeys(scalars, ())})
        self.stages = stages
        self.fits = 0
        self.uncertified = 0

    @property
    def convergence(self) -> Convergence:
        """What the solver of the nuisance did."""
        return Convergence(not self._rows["is_uncertified"].any(), self.fits, self.uncertified, 0)

    def warnings(self) -> list[str]:
        """Return what the owner should know of fits without a certificate."""
        return [f"{self.uncertified} fits of stage one did not meet the certificate"] if self.uncertified else []

    def _forget_fit(self, block: int) -> None:
        self._rows["fitted"][block] = 0.0

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
        """Return None: no factor is kept, since a fit changes the whole matrix."""

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
