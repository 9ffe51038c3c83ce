"""A measure in stages, one step per observation: nothing of the past is looked at again."""

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import (
    MAGNITUDE_MAX,
    BlockRows,
    StateArrays,
    check_observation,
    is_gram,
    take,
)
from prudent.core.estimators.estimator import ScoreMoments, pooled_moments, skipped_warnings
from prudent.core.estimators.stage_fits import StagedFit, fit_in_stages
from prudent.core.measures import Array, Stages
from prudent.core.numerics.newton import weighted_gram
from prudent.core.numerics.positive_definite import inverse_factor, with_row

START_BASE, START_PER_FEATURE = 14, 2
MEAN_TO_SPREAD = 1.2533
"""The standard deviation of a normal law is this times its mean absolute deviation."""


class StagedOnePass:
    """As `StagedMinimizer`, with running estimates of both stages, for each of B blocks.

    Start. A block's first 14 + 2 d observations are kept, and its estimates are those of `StagedMinimizer`; when they
    are complete they become the starting point, with A = sum x x^T + alpha I and, for the nuisance, A_v the same with
    its d2, and they are dropped.

    Step. With m, v and theta before the observation (x, y), and q = x^T A^-1 x,

        Z as the stages say, from y - <m, x> and <v, x>;
        m += A^-1 x (y - <m, x>) / (1 + q),   theta += A^-1 x (Z - <theta, x>) / (1 + q),   A += x x^T;
        v takes the implicit step of its loss in the metric A_v (`OnePass`), and A_v += d2 x x^T there.

    A nuisance that moves with the rewards (a quantile) is learned as m + v, directly from y, so that it does not follow
    the early m. The spread and the curvature of its loss are running means whose weights grow with n. Z is made of
    estimates that do not know y, and their error enters it squared, so that the sum of these errors over all
    observations grows as log n. Inverses are kept as factors, A^-1 = R R^T, which a step changes by one rank
    (`OnePass`). O(d^2) per step; memory 5 d^2 floats per block and the start's.

    Arrays as in `Estimator`, valid after `refresh`. A pure function of the sequence of observations, byte for byte. Not
    thread safe. No finite-sample guarantee. Source: the mathematics page, "Measures in two stages".
    """

    has_snapshots: ClassVar[bool] = True
    warns_of_large_features: ClassVar[bool] = False

    def __init__(self, stages: Stages, blocks: int, dimension: int, regularization: float) -> None:
        if dimension < 1 or not 0.0 < regularization < math.inf:
            raise ValueError("the dimension and the regularization must be positive and finite")
        self.stages = stages
        self.dimension = dimension
        self.regularization = regularization
        self.start_size = START_BASE + START_PER_FEATURE * dimension
        self.skipped_steps = 0
        vectors = dict.fromkeys(("theta", "mean", "nuisance"), (dimension,))
        square = (dimension, dimension)
        matrices = dict.fromkeys(("gram", "weighted_gram", "factor", "nuisance_factor"), square)
        scalars = dict.fromkeys(("d1_squares", "d2_total", "spread", "curvature", "count"), ())
        kept = {"kept_features": (self.start_size, dimension), "kept_rewards": (self.start_size,)}
        self._rows = BlockRows(blocks, {**vectors, **matrices, **scalars, **kept})
        self._center = 0.0
        self._changed: set[int] = set()
        self._bind()

    def _bind(self) -> None:
        self.theta = self._rows["theta"]
        self.gram = self._rows["gram"]
        self.weighted_gram = self._rows["weighted_gram"]

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2: at theta during the start, then where each step ended."""
        return self._rows.total("d1_squares")

    @property
    def d2_total(self) -> float:
        """Sum of d2: at theta during the start, then where each step ended."""
        return self._rows.total("d2_total")

    @property
    def observations(self) -> int:
        """Observations of all blocks."""
        return int(self._rows.total("count"))

    @property
    def convergence(self) -> None:
        """None: each observation is one step."""

    def warnings(self) -> list[str]:
        """Return whether steps were left out."""
        return skipped_warnings(self.skipped_steps)

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y. O(d^2) but for the one that completes the block's start.

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """
        check_observation(block, self._rows.count, self.dimension, x, y)
        rows = self._rows
        rows.touch(block)
        count = int(rows["count"].item(block))
        gram = self.gram[block]
        outer = x[:, None] * x
        gram += outer
        rows["count"][block] = count + 1
        self._changed.add(block)
        if count < self.start_size:
            rows["kept_features"][block, count] = x
            rows["kept_rewards"][block, count] = y
            if count + 1 == self.start_size:
                self._finish_start(block)
        else:
            self._step(block, x, y - self._center, outer)

    def _finish_start(self, block: int) -> None:
        """Make what the start found the starting point, and drop its observations."""
        rows, alpha = self._rows, self.regularization
        features, rewards = rows["kept_features"][block], rows["kept_rewards"][block] - self._center
        first, fit = fit_in_stages(self.stages, features, rewards, alpha)
        self._adopt(block, fit)
        rows["mean"][block], rows["nuisance"][block] = first.mean, first.nuisance
        rows["spread"][block], rows["curvature"][block] = first.spread, first.curvature
        rows["factor"][block] = inverse_root(self.gram[block], alpha)
        loss = first.loss(self.stages)
        bend = self.gram[block]
        if loss is not None:
            residuals = rewards - features @ first.mean
            bend = weighted_gram(features.T, loss.d2(residuals, features @ first.nuisance))
        rows["nuisance_factor"][block] = inverse_root(bend, alpha)
        if self.stages.is_direct:
            rows["nuisance"][block] = fit.theta
        elif self.stages.moves_with_rewards:
            rows["nuisance"][block] += first.mean
        rows["kept_features"][block] = 0.0
        rows["kept_rewards"][block] = 0.0

    def _adopt(self, block: int, fit: StagedFit) -> None:
        rows = self._rows
        self.theta[block], self.weighted_gram[block] = fit.theta, fit.weighted_gram
        rows["d1_squares"][block], rows["d2_total"][block] = fit.d1_squares, fit.d2_total

    def _step(self, block: int, x: Array, y: float, outer: Array) -> None:
        rows, stages = self._rows, self.stages
        theta, mean, nuisance = self.theta[block], rows["mean"][block], rows["nuisance"][block]
        expected, known = float(mean.dot(x)), float(nuisance.dot(x))
        residual = y - expected
        relative = known - expected if stages.moves_with_rewards else known
        pseudo = stages.pseudo_residuals(np.array([residual]), np.array([relative]), rows["spread"].item(block)).item()
        if not abs(pseudo) <= MAGNITUDE_MAX:
            self.skipped_steps += 1
            return
        slope, curvature = self._step_nuisance(block, x, y if stages.moves_with_rewards else residual, residual)
        factor = rows["factor"][block]
        image = x @ factor
        leverage = float(image.dot(image))
        gain = factor @ image
        if stages.is_direct:
            theta[:] = nuisance
        else:
            slope, curvature = (float(theta.dot(x)) - expected - pseudo) / (1.0 + leverage), 1.0
            theta -= gain * slope
        mean += gain * (residual / (1.0 + leverage))
        absorb(factor, gain, image, leverage, 1.0)
        self.weighted_gram[block] += curvature * outer
        rows["d1_squares"][block] += slope * slope
        rows["d2_total"][block] += curvature

    def _step_nuisance(self, block: int, x: Array, target: float, residual: float) -> tuple[float, float]:
        """Let the nuisance take its step towards the target; return d1 and d2 where it ended. residual: y - <m, x>."""
        rows = self._rows
        count, spread, curvature = (
            int(rows["count"].item(block)),
            rows["spread"].item(block),
            rows["curvature"].item(block),
        )
        weight = 2.0 / (count + 1.0)
        rows["spread"][block] += weight * (MEAN_TO_SPREAD * abs(residual) - spread)
        loss = None if spread == 0.0 else self.stages.nuisance_loss(spread, count, self.dimension, curvature)
        if loss is None:
            return 0.0, 1.0
        nuisance, factor = rows["nuisance"][block], rows["nuisance_factor"][block]
        known = float(nuisance.dot(x))
        plain = self.stages.nuisance_loss(spread, count, self.dimension)
        if plain is not None:
            rows["curvature"][block] += weight * (plain.d2(target, known) - curvature)
        image = x @ factor
        leverage = float(image.dot(image))
        slope, bend = loss.implicit_step(target, known, leverage)
        gain = factor @ image
        nuisance -= gain * slope
        absorb(factor, gain, image, leverage, bend)
        return slope, bend

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre, those so far as well; the last feature must be 1 always. O(B)."""
        change, self._center = center - self._center, center
        rows = self._rows
        for block in np.flatnonzero(rows["count"]).tolist():
            rows.touch(block)
            self._changed.add(block)
            self.theta[block, -1] -= change
            rows["mean"][block, -1] -= change
            if self.stages.moves_with_rewards:
                rows["nuisance"][block, -1] -= change

    def forget(self, share: float) -> None:
        """Multiply the weight of everything observed by this share; the ridge keeps its own. O(d^3) a block.

        As `OnePass.forget`, for the metric of each stage; a block's count stays at least its start's, whose few
        observations keep their weights while it is open.
        """
        rows, alpha, lost = self._rows, self.regularization, 1.0 - share
        for block in np.flatnonzero(rows["count"] >= self.start_size).tolist():
            rows.touch(block)
            bend = np.linalg.inv(rows["nuisance_factor"][block] @ rows["nuisance_factor"][block].T)
            for name in ("gram", "weighted_gram", "d1_squares", "d2_total"):
                rows[name][block] *= share
            rows["count"][block] = max(self.start_size, round(rows["count"].item(block) * share))
            factor = rows["factor"][block] = inverse_root(self.gram[block], alpha)
            bent = rows["nuisance_factor"][block] = inverse_root(share * bend, lost * alpha)
            rows["mean"][block] -= lost * alpha * (factor @ (rows["mean"][block] @ factor))
            rows["nuisance"][block] -= lost * alpha * (bent @ (rows["nuisance"][block] @ bent))
            theta = self.theta[block]
            theta -= lost * alpha * (factor @ (theta @ factor))
            self._changed.add(block)

    def refresh(self) -> list[int]:
        """Return the blocks changed since the last call, in order; during their start, fit them."""
        changed = sorted(self._changed)
        for block in changed:
            count = int(self._rows["count"].item(block))
            if 0 < count < self.start_size:
                self._rows.touch(block)
                features = self._rows["kept_features"][block, :count]
                rewards = self._rows["kept_rewards"][block, :count] - self._center
                self._adopt(block, fit_in_stages(self.stages, features, rewards, self.regularization)[1])
        self._changed.clear()
        return changed

    def known_factor(self, block: int) -> tuple[Array, None] | None:
        """Return R^T of the metric of the last stage, and theta under it, (d + 1, d); None in a block's start."""
        if self._rows["count"].item(block) < self.start_size:
            return None
        factor = self._rows["nuisance_factor" if self.stages.is_direct else "factor"][block]
        return with_row(factor.T, self.theta[block]), None

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments | None:  # noqa: ARG002 -- not needed here
        """Return the moments pooled over the features; None without an observation."""
        count = int(self._rows["count"].item(block))
        return pooled_moments(count, self._rows["d1_squares"].item(block), self.gram[block]) if count else None

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""
        self._rows.add()
        self._bind()
        self._changed.add(self._rows.count - 1)

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""
        self._rows.mark()
        self._marked = self.skipped_steps, self._center
        self._marked_changed = self._changed.copy()

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""
        self._rows.restore()
        self.skipped_steps, self._center = self._marked
        self._changed = self._marked_changed.copy()
        self._bind()

    def arrays(self) -> StateArrays:
        """Return the complete state as copies, the observations of an unfinished start with it."""
        is_changed = np.zeros(self._rows.count)
        is_changed[sorted(self._changed)] = 1.0
        extra = {"is_changed": is_changed, "center": np.array(self._center)}
        return {**self._rows.arrays(), **extra, "skipped_steps": np.array(float(self.skipped_steps))}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state `arrays()` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """
        rows = self._rows.like(0)
        rows.load(arrays)
        if (rows["count"] < 0.0).any() or (rows["count"] % 1.0).any():
            raise ValueError("count must be whole numbers, not negative")
        is_changed, center = take(arrays, "is_changed", (rows.count,)), take(arrays, "center", ()).item()
        skipped = take(arrays, "skipped_steps", ()).item()
        self._rows, self._center, self.skipped_steps = rows, center, int(skipped)
        self._changed = set(np.flatnonzero(is_changed).tolist())
        self._bind()

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""
        return self._rows.is_finite() and is_gram(self.gram) and is_gram(self.weighted_gram)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held, the start's observations with them."""
        return self._rows.nbytes


def inverse_root(gram: Array, ridge: float) -> Array:
    """Return R, (d, d), with R R^T = (gram + ridge I)^-1."""
    return np.ascontiguousarray(inverse_factor(gram, ridge)[0].T)


def absorb(factor: Array, gain: Array, image: Array, leverage: float, curvature: float) -> None:
    """Let curvature x x^T enter the matrix that R R^T is the inverse of, in place: Potter's update.

    factor: R; image: f = R^T x; gain: R f; leverage: f.f.
    """
    root = math.sqrt(1.0 + curvature * leverage)
    factor -= gain[:, None] * ((curvature / (root * (root + 1.0))) * image)
