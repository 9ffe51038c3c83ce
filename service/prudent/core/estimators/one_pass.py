"""One implicit step per observation: constant cost, no history, nearly the exact minimiser's regret."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import ddot, dgemv, dger, dnrm2, dscal

from prudent.core.estimators.blocks import (
    MAGNITUDE_MAX,
    BlockRows,
    StateArrays,
    check_observation,
    is_gram,
    take,
    take_counters,
)
from prudent.core.estimators.estimator import ScoreMoments, pooled_moments, skipped_warnings
from prudent.core.estimators.start import Start
from prudent.core.measures import Array, Loss
from prudent.core.numerics.positive_definite import QuadraticModel, inverse_factor, project

REGULARIZATION_MIN, REGULARIZATION_MAX = 1e-50, 1e50
"""With features and rewards of at most 1e50, nothing but the loss's own exponential can then overflow."""


class OnePass:
    """One implicit step per observation, in the metric A of the curvature observed so far, for each of B blocks.

    Start. The first `start_observations` observations, over all blocks, are kept, and theta is the exact
    constrained minimiser of those that have arrived. When they are complete, theta_0 is their minimiser,
    A = sum d2 x x^T at theta_0 + alpha I, and they are dropped. With `start_observations` 0, theta_0 = 0, A = alpha I.

    Step. For features x and reward y, with u0 = <theta, x> and q = x^T A^-1 x:

        u = u0 - q d1(y, u),    theta' = theta - A^-1 x d1(y, u),
        theta = argmin over ||z|| <= bound of ||z - theta'||_A,    then A += d2(y, u) x x^T.

    u is theta's own prediction after the step, <theta', x>, and lies between u0 and y. The curvature is taken
    there: at u0 one rare large reward under a steep loss would inflate A for good, and nothing would be
    learned after it. With unit curvature and without a ball this is ridge regression, exactly.

    A^-1 = R R^T is kept by its factor R, (d, d), not triangular, which an observation changes by one rank:
    R -= d2 / (s^2 + s) (R f) f^T, f = R^T x, s = sqrt(1 + d2 q). R R^T cannot become indefinite, and R's condition
    number is the root of A's, so that no digits are lost that a factorisation of A would have kept. After 1e6 steps
    R^T A R is I to 1e-13 (d = 20, measured), so that R is never recomputed. Time: O(d^2) per step, O(d^3) where the
    ball binds. Memory: 3 d^2 + d floats per block, whatever the number of observations.

    The sums of d1^2 and d2 behind the data-driven noise scale are taken at u too: at u0 a single exponential would
    outweigh them for thousands of rounds, in which all arms would look alike. An observation whose d1 or d2
    overflows at u adds to `gram` only and is counted in `skipped_steps`.

    Public arrays, valid after `refresh` and until `add_block`, `restore` or `load`; not to be written to:
    theta (B, d); gram (B, d, d), sum of x x^T; weighted_gram (B, d, d), A - alpha I, both exactly symmetric. A pure
    function of the sequence of observations, byte for byte. Not thread safe.

    No finite-sample guarantee: the bonus at this estimate is an exploration rule.
    Source: the mathematics page, "One pass", after Zhang, Xu, Zhao & Sugiyama 2025 (generalised linear bandits); an
    implicit step (Kulis & Bartlett 2010), and the point of its curvature, are our choice. The factor's update is
    Potter's: Bierman 1977, Factorization Methods for Discrete Sequential Estimation.
    """

    has_snapshots: ClassVar[bool] = True
    warns_of_large_features: ClassVar[bool] = True

    def __init__(
        self,
        loss: Loss,
        blocks: int,
        dimension: int,
        regularization: float,
        bound: float | None,
        start_observations: int,
    ) -> None:
        if dimension < 1 or not REGULARIZATION_MIN <= regularization <= REGULARIZATION_MAX:
            raise ValueError(
                f"the dimension must be positive, the regularization in [{REGULARIZATION_MIN}, {REGULARIZATION_MAX}]"
            )
        if bound is not None and not 0.0 < bound < math.inf:
            raise ValueError(f"the bound must be positive and finite, not {bound}")
        self.loss = loss
        self.dimension = dimension
        self.regularization = regularization
        self.bound = bound
        self.start_observations = start_observations
        self.observations = 0
        self.skipped_steps = 0
        self._center = 0.0
        shapes: dict[str, tuple[int, ...]] = {"scoring": (dimension, dimension + 1)}  # R, and theta as a last column
        shapes |= dict.fromkeys(("gram", "weighted_gram"), (dimension, dimension))
        shapes |= dict.fromkeys(("d1_squares", "d2_total"), ())
        self._rows = BlockRows(blocks, shapes)
        self._gain, self._outer = np.zeros(dimension), np.zeros((dimension, dimension), order="F")
        self._start = Start(loss, blocks, dimension, regularization, start_observations)
        self._changed: set[int] = set()
        self._bind()
        for block in range(blocks):
            self._reset_factor(block)

    def _bind(self) -> None:
        self._scoring = self._rows["scoring"]
        self.theta = self._scoring[:, :, -1]
        self.gram = self._rows["gram"]
        self.weighted_gram = self._rows["weighted_gram"]
        self._d1_squares = self._rows["d1_squares"]
        self._d2_total = self._rows["d2_total"]

    def _reset_factor(self, block: int) -> None:
        np.fill_diagonal(self._scoring[block, :, :-1], 1.0 / math.sqrt(self.regularization))

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2: at theta during the start, then at each observation's u."""
        return self._rows.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of d2: at theta during the start, then at each observation's u."""
        return self._rows.total("d2_total")

    @property
    def convergence(self) -> None:
        """None: each observation is one step."""

    def warnings(self) -> list[str]:
        """Return whether steps were left out."""
        return skipped_warnings(self.skipped_steps)

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. The observation that completes the start solves it.

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, self.dimension, x, y)
        self._rows.touch(block)
        self._outer.fill(0.0)  # what is added to 0 is exactly symmetric
        outer = dger(1.0, x, x, 1, 1, self._outer, 1, 1, 1).T
        gram = self.gram[block]
        gram += outer
        self.observations += 1
        self._changed.add(block)
        if not self._start.is_open:
            self._step(block, x, y - self._center, outer)
            return
        self._start.append(block, x, y)
        if self.observations == self._start.size:
            self._finish_start()

    def _step(self, block: int, x: Array, y: float, outer: Array) -> None:
        """outer: x x^T, overwritten."""
        scoring = self._scoring[block].T
        image = dgemv(1.0, scoring, x)
        prediction = image.item(-1)
        image[-1] = 0.0
        leverage = ddot(image, image)
        slope, curvature = self.loss.implicit_step(y, prediction, leverage)
        if not (abs(slope) <= MAGNITUDE_MAX and curvature <= MAGNITUDE_MAX):
            self.skipped_steps += 1
            return
        self._d1_squares[block] += slope * slope
        self._d2_total[block] += curvature
        self._absorb(scoring, image, leverage, curvature, slope)
        if self.bound is not None:
            theta = self.theta[block]
            if ddot(theta, theta) > self.bound * self.bound:
                theta[:] = self._nearest(block, theta, self.bound)
        weighted_gram = self.weighted_gram[block]
        outer *= curvature
        weighted_gram += outer

    def _absorb(self, scoring: Array, image: Array, leverage: float, curvature: float, slope: float) -> None:
        """Let curvature x x^T enter A, and theta take its step, in place.

        scoring: R^T over theta, (d + 1, d), Fortran-ordered; image: f = R^T x and a 0, overwritten; leverage: f.f.
        R (I - c f f^T) is a factor of (A + d2 x x^T)^-1 for the c below, which needs no difference of near numbers.
        """
        # arguments by position: names take as long as the products
        gain = dgemv(1.0, scoring, image, 0.0, self._gain, 0, 1, 0, 1, 1, 1)
        root = math.sqrt(1.0 + curvature * leverage)
        dscal(-curvature / (root * (root + 1.0)), image)
        image[-1] = -slope
        dger(1.0, image, gain, 1, 1, scoring, 1, 1, 1)

    def _nearest(self, block: int, theta: Array, bound: float) -> Array:
        """Return the point of the ball that is nearest to theta, outside it, in the metric A."""
        square = ddot(theta, theta)
        image = dgemv(1.0, self._scoring[block, :, :-1].T, theta)
        # Newton's first step for the multiplier, for which the factor suffices.
        multiplier = (math.sqrt(square) / bound - 1.0) * square / ddot(image, image)
        model = QuadraticModel(self.weighted_gram[block], self.regularization, bound)
        return project(theta + model.step(theta, np.zeros(self.dimension), multiplier)[0], bound)

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always. O(B).

        After the start theta's last coordinate moves against the centre, which is exact but for the ridge's share.
        """
        change, self._center = center - self._center, center
        self._start.recenter(center)
        for block in np.flatnonzero(self.gram[:, -1, -1]).tolist():
            self._rows.touch(block)
            self._changed.add(block)
            theta = self.theta[block]
            theta[-1] -= change
            if self.bound is not None and ddot(theta, theta) > self.bound * self.bound:
                theta[:] = self._nearest(block, theta, self.bound)

    def forget(self, share: float) -> None:
        """Multiply the weight of everything observed by this share; the ridge keeps its own. O(d^3) a block.

        A = sum d2 x x^T + alpha I becomes A' = share (A - alpha I) + alpha I, and theta, the minimiser of a quadratic
        with A, that of the one with A': theta - (1 - share) alpha A'^-1 theta. The few observations of an unfinished
        start keep their weights.
        """
        if self._start.is_open:
            return
        self.observations = round(self.observations * share)
        for block in np.flatnonzero(self.gram.any(axis=(1, 2))).tolist():
            self._rows.touch(block)
            for sums in (self.gram, self.weighted_gram, self._d1_squares, self._d2_total):
                sums[block] *= share
            factor = inverse_factor(self.weighted_gram[block], self.regularization)[0]
            self._scoring[block, :, :-1] = factor.T
            theta = self.theta[block]
            theta -= (1.0 - share) * self.regularization * (factor.T @ (factor @ theta))
            self._changed.add(block)

    def refresh(self) -> list[int]:
        """Return the blocks changed since the last call, in order; during the start, solve them."""
        changed = sorted(self._changed)
        if self._start.is_open:
            for block in changed:
                self._rows.touch(block)
                self._solve_start(block)
        self._changed.clear()
        return changed

    def known_factor(self, block: int) -> tuple[Array, None] | None:
        """Return R^T, as (R^T)^T R^T = A^-1, and theta under it, (d + 1, d); None in the start, when R is not kept."""
        return None if self._start.is_open else (self._scoring[block].T, None)

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments | None:
        """Return the moments pooled over the features; None on the ball's surface, and without a block's count."""
        count = self.observations
        if self._rows.count > 1:  # a block's count is the sum of its squared constant features, if there are any
            count = round(self.gram[block, -1, -1].item()) if has_intercept else 0
        on_surface = self.bound is not None and dnrm2(self.theta[block]) >= (1.0 - 1e-12) * self.bound
        if on_surface or not count:
            return None
        return pooled_moments(count, self._d1_squares.item(block), self.gram[block])

    def _solve_start(self, block: int) -> None:
        theta = self.theta[block] = self._start.minimiser(block, self.bound)
        sums = self._start.sums(block, theta)
        if sums is not None:
            self.weighted_gram[block], self._d1_squares[block], self._d2_total[block] = sums

    def _finish_start(self) -> None:
        """Solve the blocks not yet solved, and let each kept observation enter A with its curvature at theta_0."""
        for block in range(self._rows.count):
            self._rows.touch(block)
            if block in self._changed:
                self._solve_start(block)
            scoring, weighted_gram = self._scoring[block].T, self.weighted_gram[block]
            weighted_gram[:] = 0.0
            for x, y in zip(self._start.features(block), self._start.rewards(block).tolist(), strict=True):
                image = dgemv(1.0, scoring, x)
                curvature = self.loss.d2(y, image.item(-1))
                if not curvature <= MAGNITUDE_MAX:
                    self.skipped_steps += 1
                    continue
                weighted_gram += curvature * (x[:, None] * x)
                image[-1] = 0.0
                self._absorb(scoring, image, ddot(image, image), curvature, 0.0)
        self._changed.update(range(self._rows.count))  # from now on the bonuses are made of R
        self._start.close()

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._start.add_block()
        self._bind()
        self._reset_factor(self._rows.count - 1)
        self._changed.add(self._rows.count - 1)

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._start.mark()
        self._marked = self.observations, self.skipped_steps, self._center
        self._marked_changed = self._changed.copy()

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self._start.restore()
        self.observations, self.skipped_steps, self._center = self._marked
        self._changed = self._marked_changed.copy()
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies, the observations of an unfinished start with it."""
        counters = np.array([self.observations, self.skipped_steps], dtype=np.int64)
        is_changed = np.zeros(self._rows.count)
        is_changed[sorted(self._changed)] = 1.0
        kept = self._start.arrays(self._rows.count)
        return {
            **self._rows.arrays(),
            "is_changed": is_changed,
            "counters": counters,
            "center": np.array(self._center),
            **kept,
        }

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        observations, skipped_steps = take_counters(arrays, 2)
        rows = self._rows.like(0)
        rows.load(arrays)
        is_changed = take(arrays, "is_changed", (rows.count,))
        start, center = self._start.loaded(arrays, rows.count, observations), take(arrays, "center", ()).item()
        start.recenter(center)
        self._rows, self._start = rows, start
        self._changed = set(np.flatnonzero(is_changed).tolist())
        self.observations, self.skipped_steps, self._center = observations, skipped_steps, center
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram) and is_gram(self.weighted_gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the start's observations with them."""
        return self._rows.nbytes + self._start.nbytes
