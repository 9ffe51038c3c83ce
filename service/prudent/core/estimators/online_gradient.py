"""Projected online gradient descent over episodes, averaged."""

import math
from collections.abc import Mapping
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import (
    MAGNITUDE_MAX,
    BlockRows,
    StateArrays,
    check_observation,
    is_gram,
    take,
    take_counters,
)
from prudent.core.estimators.estimator import skipped_warnings
from prudent.core.estimators.start import Start
from prudent.core.measures import Array, Loss
from prudent.core.numerics.positive_definite import project

Schedule: TypeAlias = Literal["harmonic", "theory"]


class OnlineGradient:
    """One gradient step per episode of `episode_length` observations, and the mean of the iterates.

    Start. The first `start_observations` observations, over all blocks, are kept. Until they are complete theta is
    P(unconstrained exact minimiser of the observations so far), P the projection on the ball of radius `bound` (none if
    None). The last of these is theta_0, where descent begins; then the observations are dropped. With
    `start_observations` 0, theta_0 is 0. The expected regrets are those of this reading, or of beginning outside the
    ball at the minimiser itself; beginning at the constrained minimiser does as well or, with 0.1/n, better
    (experiment 2: 143 instead of 171, 500 replications).

    Episodes. One counter for all blocks, and all blocks step at the end of an episode:
    theta_n = P(theta_{n-1} - eps_n (sum of d1(y, <theta_{n-1}, x>) x + alpha theta_{n-1})). Published: the mean of
    theta_1..theta_n, theta_0 before.
    Schedules, with m and M the loss's curvature bounds, h the episode length, L the feature bound:
    "harmonic": eps_n = step_size / n; "theory": eps_n = 3 / (a (n + j0)), a = m h L^2 / d,
    j0 = max(0, 3 (M h L^2 + alpha)/a - 1), which ignores step_size: as j0 >= 2 always, the first
    step is 1/(M h L^2 + alpha), the inverse of the largest curvature an episode can have, and later ones are shorter.
    In both, n counts a block's own episodes, from the one of its first observation: the log does not say when an arm
    was registered.

    Safeguards, ours: where an episode's features exceed the bound, sum ||x||^2 > h L^2 in a block, its step is
    at most 1 / (M sum ||x||^2 + alpha), which cannot diverge. Under a steep loss, whose curvature has no bound of
    a useful size, a step is at most 1 / (sum d2 ||x||^2 + alpha), d2 at theta_{n-1}: the inverse of the curvature
    that the episode has there, so that no step moves a prediction by much more than the inverse of the loss's
    self-concordance. A step that is not finite is left out and counted in `skipped_steps`; likewise an observation
    whose d1 or d2 overflows adds nothing to the running sums.

    Public arrays, valid after `refresh` and until `add_block`, `restore` or `load`; not to be written to:
    theta (B, d); gram (B, d, d), sum of x x^T; weighted_gram (B, d, d), sum of d2 x x^T, at theta during the
    start and from then on at the theta published when each observation arrived. d1_squares and d2_total
    likewise. A pure function of the sequence of observations, byte for byte. Not thread safe.
    The penalty enters once per episode, as in the paper's algorithm, which biases theta towards 0.
    Source: Saux & Maillard 2023, Algorithm 2; step sizes as corrected in the mathematics page.
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
        feature_bound: float,
        episode_length: int,
        schedule: Schedule,
        step_size: float,
        start_observations: int,
    ) -> None:
        positive = (dimension, regularization, feature_bound, episode_length, step_size)
        if not all(0 < value < math.inf for value in positive):
            raise ValueError("sizes, bounds and steps must be positive and finite")
        if bound is not None and not 0.0 < bound < math.inf:
            raise ValueError(f"the bound must be positive and finite, not {bound}")
        if schedule not in ("harmonic", "theory"):
            raise ValueError(f"the schedule must be harmonic or theory, not {schedule}")
        self.loss = loss
        self._is_steep = loss.is_steep
        self.dimension = dimension
        self.regularization = regularization
        self.bound = bound
        self.feature_bound = feature_bound
        self.episode_length = episode_length
        self.schedule = schedule
        self.start_observations = start_observations
        self.step_size = step_size
        self.observations = 0
        self.episodes = 0
        self.skipped_steps = 0
        self._center = 0.0
        self._matrices = BlockRows(blocks, dict.fromkeys(("gram", "weighted_gram"), (dimension, dimension)))
        vectors: dict[str, tuple[int, ...]] = dict.fromkeys(("theta", "iterate", "gradient"), (dimension,))
        scalars: dict[str, tuple[int, ...]] = dict.fromkeys(
            (
                "feature_squares",
                "steepness",
                "d1_squares",
                "d2_total",
                "first_episode",
                "is_known",
                "has_overflowed",
                "is_changed",
            ),
            (),
        )
        self._vectors = BlockRows(blocks, vectors | scalars)
        self._start = Start(loss, blocks, dimension, regularization, start_observations)
        self._bind()

    def _bind(self) -> None:
        self.gram = self._matrices["gram"]
        self.weighted_gram = self._matrices["weighted_gram"]
        self.theta = self._vectors["theta"]
        self._iterate = self._vectors["iterate"]
        self._gradient = self._vectors["gradient"]
        self._feature_squares = self._vectors["feature_squares"]
        self._steepness = self._vectors["steepness"]
        self._d1_squares = self._vectors["d1_squares"]
        self._d2_total = self._vectors["d2_total"]
        self._has_overflowed = self._vectors["has_overflowed"]
        self._is_changed = self._vectors["is_changed"]
        self._is_known = self._vectors["is_known"]
        self._first_episode = self._vectors["first_episode"]

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2: at theta during the start, then at the theta published on arrival."""
        return self._vectors.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of d2: at theta during the start, then at the theta published on arrival."""
        return self._vectors.total("d2_total")

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2); O(B d) more at the end of an episode.

        The observation that completes the start solves the blocks whose solution is not up to date.
        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._matrices.count, self.dimension, x, y)
        self._matrices.touch(block)
        self._vectors.touch(block)
        outer = x[:, None] * x
        gram = self.gram[block]
        gram += outer
        if not self._is_known[block]:
            self._is_known[block] = 1.0
            self._first_episode[block] = self.episodes
        self.observations += 1
        self._is_changed[block] = 1.0
        if not self._start.is_open:
            self._stream(block, x, y - self._center, outer)
            return
        self._start.append(block, x, y)
        if self.observations == self._start.size:
            self._solve_start()
            self._start.close()

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always. O(B).

        After the start the last coordinates move against the centre, which is exact but for the ridge's share.
        """
        change, self._center = center - self._center, center
        self._start.recenter(center)
        known = self._is_known > 0.0
        self._vectors.touch_all()
        self._is_changed[known] = 1.0
        for points in (self._iterate, self.theta):
            points[known, -1] -= change
            if self.bound is not None:
                norms = np.sqrt(np.einsum("bi,bi->b", points, points))
                points *= (self.bound / np.maximum(norms, self.bound))[:, None]

    def _stream(self, block: int, x: Array, y: float, outer: Array) -> None:
        loss = self.loss
        published = float(self.theta[block].dot(x))
        slope, curvature = loss.d1(y, published), loss.d2(y, published)
        if abs(slope) <= MAGNITUDE_MAX and curvature <= MAGNITUDE_MAX:
            weighted_gram = self.weighted_gram[block]
            weighted_gram += curvature * outer
            self._d1_squares[block] += slope * slope
            self._d2_total[block] += curvature
        prediction, square = float(self._iterate[block].dot(x)), x.dot(x)
        slope = loss.d1(y, prediction)
        if abs(slope) <= MAGNITUDE_MAX:
            gradient = self._gradient[block]
            gradient += slope * x
            if self._is_steep:
                self._steepness[block] += loss.d2(y, prediction) * square
        else:
            self._has_overflowed[block] = 1.0
        self._feature_squares[block] += square
        if (self.observations - self._start.size) % self.episode_length == 0:
            self._step()

    def _step(self) -> None:
        """End an episode: step every block, average, and begin the next."""
        vectors = self._vectors
        vectors.touch_all()
        self.episodes += 1
        ages = self.episodes - self._first_episode
        iterate, gradient = self._iterate, self._gradient
        with np.errstate(over="ignore", invalid="ignore"):
            steps = self._step_sizes(ages, self._feature_squares)
            if self._is_steep:
                steps = np.minimum(steps, 1.0 / (self._steepness + self.regularization))
            moved = iterate - steps[:, None] * (gradient + self.regularization * iterate)
            finite = np.isfinite(np.einsum("bi,bi->b", moved, moved)) & (self._has_overflowed == 0.0)
        self.skipped_steps += int(len(finite) - finite.sum())
        iterate[finite] = moved[finite]
        if self.bound is not None:
            norms = np.sqrt(np.einsum("bi,bi->b", iterate, iterate))
            iterate *= (self.bound / np.maximum(norms, self.bound))[:, None]
        # At age 1 this replaces theta_0, which is not one of the iterates.
        self.theta += (iterate - self.theta) / ages[:, None]
        for sums in (gradient, self._feature_squares, self._steepness, self._has_overflowed):
            sums[:] = 0.0
        self._is_changed[:] = 1.0

    def _step_sizes(self, ages: Array, feature_squares: Array) -> Array:
        loss, alpha = self.loss, self.regularization
        episode_bound = self.episode_length * self.feature_bound * self.feature_bound
        if self.schedule == "harmonic":
            steps = self.step_size / ages
        else:
            strength = loss.curvature_min * episode_bound / self.dimension
            delay = max(0.0, 3.0 * (loss.curvature_max * episode_bound + alpha) / strength - 1.0)
            steps = 3.0 / (strength * (ages + delay))
        capped = np.minimum(steps, 1.0 / (loss.curvature_max * feature_squares + alpha))
        # Features at the bound itself must not trip the safeguard by a rounding error.
        return np.where(feature_squares > episode_bound * (1.0 + 1e-12), capped, steps)

    def refresh(self) -> list[int]:
        """Bring theta and the sums up to date; return the blocks changed since the last call, in order."""
        if self._start.is_open:
            self._solve_start()
        changed: list[int] = np.flatnonzero(self._is_changed).tolist()
        for block in changed:
            self._vectors.touch(block)
        self._is_changed[:] = 0.0
        return changed

    def _solve_start(self) -> None:
        """Solve the changed blocks. Blocks not changed are solved already."""
        for block in np.flatnonzero(self._is_changed).tolist():
            self._matrices.touch(block)
            self._vectors.touch(block)
            theta = self._start.minimiser(block, bound=None)
            if self.bound is not None:
                theta = project(theta, self.bound)
            self._iterate[block] = self.theta[block] = theta
            sums = self._start.sums(block, theta)
            if sums is not None:
                self.weighted_gram[block], self._d1_squares[block], self._d2_total[block] = sums

    def known_factor(self, block: int) -> None:
        """Return None: a step needs no factor."""

    def score_moments(self, block: int, *, has_intercept: bool) -> None:
        """Return None: theta need not have come near the minimiser that a variance would be about."""

    @property
    def convergence(self) -> None:
        """None: one step per episode solves nothing."""

    def warnings(self) -> list[str]:
        """Return whether steps were left out."""
        return skipped_warnings(self.skipped_steps)

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._matrices.add()
        self._vectors.add()
        self._start.add_block()
        self._bind()
        self._is_changed[-1] = 1.0

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._matrices.mark()
        self._vectors.mark()
        self._start.mark()
        self._marked = self.observations, self.episodes, self.skipped_steps, self._center

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._matrices.restore()
        self._vectors.restore()
        self._start.restore()
        self.observations, self.episodes, self.skipped_steps, self._center = self._marked
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies, the observations of an unfinished start with it."""
        return {
            **self._matrices.arrays(),
            **self._vectors.arrays(),
            "counters": np.array([self.observations, self.episodes, self.skipped_steps], dtype=np.int64),
            "center": np.array(self._center),
            **self._start.arrays(self._matrices.count),
        }

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        observations, episodes, skipped_steps = take_counters(arrays, 3)
        matrices, vectors = self._matrices.like(0), self._vectors.like(0)
        matrices.load(arrays)
        vectors.load(arrays)
        if matrices.count != vectors.count:
            raise ValueError("the arrays of a state must all have one row per block")
        start, center = self._start.loaded(arrays, matrices.count, observations), take(arrays, "center", ()).item()
        start.recenter(center)
        self._matrices, self._vectors, self._start = matrices, vectors, start
        self.observations, self.episodes, self.skipped_steps = observations, episodes, skipped_steps
        self._center = center
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        finite = self._matrices.is_finite() and self._vectors.is_finite()
        return finite and is_gram(self.gram) and is_gram(self.weighted_gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the start's observations with them."""
        return self._matrices.nbytes + self._vectors.nbytes + self._start.nbytes
