"""The exact minimiser of the empirical risk, refitted on the whole history."""

import math
from functools import partial

import numpy as np

from prudent.core.estimators.ages import Ages, Weighed
from prudent.core.estimators.blocks import Refitted
from prudent.core.estimators.estimator import Convergence, ScoreMoments, score_quadratics
from prudent.core.estimators.incremental import Window
from prudent.core.measures import Array, Loss
from prudent.core.numerics.newton import Solution, minimise, weighted_gram


class ExactMinimizer(Refitted):
    """theta = argmin over ||theta|| <= bound of sum L(y, <theta, x>) + alpha/2 ||theta||^2, for each block.

    The ball is each block's own; `bound` None means none. `refresh` solves the blocks that changed, starting
    from their last theta, so theta is the minimiser to rounding and its last digits depend on when `refresh`
    was called. A solve without a certificate is discarded: the block keeps its theta and its observations,
    and the solve is counted in `uncertified`.

    Piecewise quadratic losses are refitted from sums (`incremental`), at a cost nearly constant in n. The
    full solver takes over, and a new reference is made, for a block's first fit, where that refit fails or has no
    certificate of its own, and after every 2 sqrt(n) observations: then it starts at the refit's theta and so
    checks it on all observations. `full_fits` counts its solves, `corrections` the checked thetas it did not certify.

    Public arrays, valid after `refresh` and until `add_block` or `restore`; not to be written to:
    theta (B, d); gram (B, d, d), sum of x x^T; weighted_gram (B, d, d), sum of d2 x x^T at theta, both exactly
    symmetric; multiplier (B,), mu of the solver. Counters over the estimator's life: fits, uncertified,
    bound_active (fits in which the ball binds), full_fits, corrections. The history is kept, 8 (d + 1) bytes per
    observation and O(sqrt(n) d) per block, so there are no snapshots: the state is rebuilt from the log. Not thread
    safe.
    Source: algorithms of the project's mathematics page; Saux & Maillard 2023, Section 3.
    """

    counters = ("observations", "fits", "uncertified", "bound_active", "full_fits", "corrections")

    def __init__(self, loss: Loss, blocks: int, dimension: int, regularization: float, bound: float | None) -> None:
        if bound is not None and not 0.0 < bound < math.inf:
            raise ValueError(f"the bound must be positive and finite, not {bound}")
        super().__init__(
            blocks, dimension, regularization, dict.fromkeys(("multiplier", "is_uncertified", "fitted"), ())
        )
        self.loss = loss
        self.bound = bound
        self.fits = 0
        self.uncertified = 0
        self.bound_active = 0
        self.full_fits = 0
        self.corrections = 0
        self._windows: list[Window | None] = [None] * blocks
        self._marked_windows: list[Window | None] = []
        self._ages: Ages | None = None
        """None until something is forgotten."""

    def _bind(self) -> None:
        super()._bind()
        self.multiplier = self._rows["multiplier"]

    @property
    def certified(self) -> list[bool]:
        """Whether each block's theta is the certified minimiser of the observations as of `refresh`."""
        return [not flag for flag in self._rows["is_uncertified"]]

    @property
    def convergence(self) -> Convergence:
        """What the solver did."""
        return Convergence(not self._rows["is_uncertified"].any(), self.fits, self.uncertified, self.bound_active)

    def warnings(self) -> list[str]:
        """Return what the owner should know of a ball that binds, and of fits without a certificate."""
        found = []
        if self.bound_active * 2 > self.fits:
            found.append(
                "parameter_bound binds in more than half of the fits. If it is too small, nothing is learned: raise it"
            )
        if self.uncertified:
            found.append(f"{self.uncertified} fits did not meet the certificate and were not used")
        return found

    @property
    def center(self) -> float:
        """What rewards are learned relative to, in reward units."""
        return self._histories.center

    def observed(self, block: int) -> Array:
        """Return a block's rewards in their order, as they were observed, (n,); a view, not to be written to."""
        return self._histories.observed(block)

    def _forget_fit(self, block: int) -> None:
        self._windows[block] = None

    def _fit(self, block: int) -> None:
        """O(n d^2 + d^3) per Newton step of the full solver; O(sqrt(n) d + d^3) for a refit without it."""
        self.fits += 1
        if self._ages is not None:
            self._fit_weighed(block, self._ages.weights(block))
            return
        features, rewards = self._histories.features(block), self._histories.rewards(block)
        start, multiplier = self.theta[block], float(self._rows["multiplier"][block])
        is_checked = False
        window = self._windows[block]
        if window is not None and len(rewards) <= window.end:
            # Windows are replaced, never changed: a mark need only remember which they were.
            refit = window.copy()
            is_good = refit.advance(features, rewards, self.gram[block])
            if is_good and len(rewards) < window.end:
                self._windows[block] = refit
                self._adopt(block, refit)
                return
            if np.isfinite(refit.theta).all():
                start, multiplier, is_checked = refit.theta, refit.multiplier, is_good
        solution = self._fit_in_full(block, features, rewards, start, multiplier)
        self.corrections += is_checked and solution.iterations > 0

    def _fit_in_full(self, block: int, features: Array, rewards: Array, start: Array, multiplier: float) -> Solution:
        guess = None if self.loss.is_piecewise_quadratic else self._guess(block, features, rewards)
        solution = minimise(self.loss, features, rewards, self.regularization, self.bound, start, multiplier, guess)
        self.full_fits += 1
        self._windows[block] = None
        if solution.certified:
            self._adopt(block, solution)
            if self.loss.is_piecewise_quadratic:
                self._windows[block] = Window(self.loss, features, rewards, self.regularization, self.bound, solution)
        else:
            self._keep(block, features, rewards)
        return solution

    def _fit_weighed(self, block: int, weights: Array) -> None:
        """Fit to the latest observations, by their weights. O(n d^2 + d^3) per Newton step, n of them."""
        rows = self._rows
        if not len(weights):  # all of them forgotten
            rows["theta"][block] = 0.0
            rows["weighted_gram"][block] = 0.0
            return
        features, rewards = self._latest(block, len(weights))
        loss, start = Weighed(self.loss, weights), self.theta[block]
        multiplier = float(rows["multiplier"][block])
        solution = minimise(loss, features, rewards, self.regularization, self.bound, start, multiplier)
        self.full_fits += 1
        if solution.certified:
            self._adopt(block, solution)
        else:
            self._keep(block, features, rewards, loss)
        squares = self._weighed_squares(features, rewards, weights, self.theta[block])
        if math.isfinite(squares):
            rows["d1_squares"][block] = squares

    def _weighed_squares(self, features: Array, rewards: Array, weights: Array, theta: Array) -> float:
        return float(weights.dot(self.loss.d1(rewards, features @ theta) ** 2))

    def minimum(self, block: int) -> tuple[Array, tuple[Array, float, float] | None]:
        """Return a block's theta, (d,), and there sum d2 x x^T, (d, d), sum d1^2 and sum d2; None where one overflows.

        Solved from scratch, so that they depend on the observations only, and not on when `refresh` was called. The
        solver's best theta is taken even without a certificate.
        """
        loss, weights = self.loss, None if self._ages is None else self._ages.weights(block)
        features, rewards = self._latest(block, self._histories.length(block) if weights is None else len(weights))
        if weights is not None:
            loss = Weighed(loss, weights)
        theta = minimise(loss, features, rewards, self.regularization, self.bound).theta
        weighted_gram, squares, total = sums_at(loss, features, rewards, theta)
        if weights is not None:
            with np.errstate(over="ignore", invalid="ignore"):
                squares = self._weighed_squares(features, rewards, weights, theta)
        is_finite = np.isfinite(weighted_gram).all() and math.isfinite(squares)
        return theta, (weighted_gram, squares, total) if is_finite else None

    def _latest(self, block: int, count: int) -> tuple[Array, Array]:
        """Return a block's latest observations: features (count, d) and rewards (count,)."""
        features, rewards = self._histories.features(block), self._histories.rewards(block)
        return features[len(rewards) - count :], rewards[len(rewards) - count :]

    def forget(self, share: float) -> None:
        """Multiply the weight of everything observed by this share; the ridge keeps its own."""
        if self._ages is None:
            self._ages = Ages([self._histories.length(block) for block in range(self._rows.count)])
        self._ages.fade(share)
        self.observations = round(self.observations * share)
        for block in range(self._rows.count):
            if self._histories.length(block):
                self._rows.touch(block)
                self.gram[block] *= share
                self._windows[block] = None
                self._stale.add(block)

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2).

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        super().observe(block, x, y)
        if self._ages is not None:
            self._ages.append(block)

    def _guess(self, block: int, features: Array, rewards: Array) -> Array | None:
        """Return the weighted Gram matrix of all observations at theta, where it costs little."""
        fitted = int(self._rows["fitted"][block])
        if fitted == 0 or len(rewards) > fitted + self.dimension or self._rows["is_uncertified"][block]:
            return None
        added = sums_at(self.loss, features[fitted:], rewards[fitted:], self.theta[block])[0]
        guess: Array = self.weighted_gram[block] + added
        return guess if np.isfinite(guess).all() else None

    def _adopt(self, block: int, fit: Solution | Window) -> None:
        rows = self._rows
        self.theta[block] = fit.theta
        self.weighted_gram[block] = fit.weighted_gram
        rows["multiplier"][block] = fit.multiplier
        rows["d1_squares"][block] = fit.d1_squares
        rows["d2_total"][block] = fit.d2_total
        rows["is_uncertified"][block] = 0.0
        rows["fitted"][block] = self._histories.length(block)
        self.bound_active += fit.multiplier > 0.0

    def _keep(self, block: int, features: Array, rewards: Array, loss: Loss | None = None) -> None:
        """Stay at theta after a solve without a certificate; the sums count the new observations."""
        rows = self._rows
        self.uncertified += 1
        rows["is_uncertified"][block] = 1.0
        sums = sums_at(loss or self.loss, features, rewards, self.theta[block])
        # At a theta kept from before, a new observation's curvature may overflow; then the sums stay too.
        if np.isfinite(sums[0]).all() and math.isfinite(sums[1]):
            self.weighted_gram[block], rows["d1_squares"][block], rows["d2_total"][block] = sums

    def known_factor(self, block: int) -> None:
        """Return None: no factor is kept, since a fit changes the whole matrix."""

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments | None:  # noqa: ARG002 -- not needed here
        """Return the moments summed over the observations; None where the ball binds and without a certificate."""
        if self.multiplier[block] > 0.0 or self._rows["is_uncertified"][block]:
            return None
        count = self._histories.length(block)
        if self._ages is not None:
            count = round(float(self._ages.weights(block).sum()))
        return ScoreMoments(count, count * self.dimension, partial(self._score_quadratics, block))

    def _score_quadratics(self, block: int, directions: Array) -> Array:
        """Return `score_quadratics`; nan where all rewards are equal: they do not show how much the next may differ."""
        weights = None if self._ages is None else self._ages.weights(block)
        features, rewards = self._latest(block, self._histories.length(block) if weights is None else len(weights))
        if not len(rewards) or float(np.ptp(rewards)) == 0.0:
            return np.full(len(directions), np.nan)
        theta = self.theta[block]

        def slopes_of(part: slice) -> Array:
            slopes: Array = self.loss.d1(rewards[part], features[part] @ theta)
            if weights is not None:
                slopes = slopes * weights[part]
            return slopes

        return score_quadratics(directions, features, slopes_of)

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        super().add_block()
        self._windows.append(None)
        if self._ages is not None:
            self._ages.add_block()

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        super().mark()
        self._marked_windows = self._windows.copy()
        self._marked_ages = self._ages
        if self._ages is not None:
            self._ages.mark()

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        super().restore()
        self._windows = self._marked_windows.copy()
        self._ages = self._marked_ages
        if self._ages is not None:
            self._ages.restore()

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the history's spare capacity with them."""
        ages = 0 if self._ages is None else self._ages.nbytes
        return super().nbytes + ages + sum(window.nbytes for window in self._windows if window is not None)


def sums_at(loss: Loss, features: Array, rewards: Array, theta: Array) -> tuple[Array, float, float]:
    """Return sum d2 x x^T, (d, d) and exactly symmetric, sum d1^2 and sum d2 at theta; inf on overflow."""
    with np.errstate(over="ignore", invalid="ignore"):
        predictions = features @ theta
        slopes = loss.d1(rewards, predictions)
        curvatures = loss.d2(rewards, predictions)
        return weighted_gram(features.T, curvatures), float(slopes.dot(slopes)), float(curvatures.sum())
