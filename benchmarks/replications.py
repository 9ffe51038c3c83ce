"""Many runs of one bandit side by side, for `benchmarks.coverage`.

Written apart from `prudent.core`, so that it can judge it; tests/core/test_replications.py compares the two. Every
array ends with an axis of N runs, and one numpy call does a step of all of them.

The learner is the exact minimiser of docs/mathematics.md, with the ball or without. For the expectile a fit is a
weighted least squares problem once it is known on which side of its prediction each reward lies. The sums over
the rewards above their prediction are kept, and corrected for those that change sides. To find these without
reading the history, the observations nearest to the kink at a reference parameter are set apart: an observation
at a distance |y - <x, theta_ref>| / ||x|| cannot change sides while theta stays nearer than that to theta_ref.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from benchmarks.small_matrices import Floats, cholesky, forward, log_determinant, ridge_solution, shifted

Columns = npt.NDArray[np.intp]

NEAREST = 64
REFERENCE_ROUNDS = 16
STEPS_MAX = 200


class Learner(Protocol):
    """What the index needs, for N runs: theta (d, N), sums of x x^T and of d2 x x^T (d, d, N), of d1^2 and d2 (N,)."""

    theta: Floats
    gram: Floats
    weighted_gram: Floats
    d1_squares: Floats
    d2_total: Floats

    def observe(self, x: Floats, y: Floats) -> None:
        """One observation of every run: (d, N), (N,)."""

    def fit(self) -> None:
        """Bring everything up to date."""


class ExpectileLearner:
    """Exact minimiser for the expectile. rounds: how many observations there can be."""

    def __init__(self, level: float, dimension: int, runs: int, rounds: int, ridge: float, bound: float | None) -> None:
        self.level, self.ridge, self.bound = level, ridge, bound
        self.theta = np.zeros((dimension, runs))
        self._multiplier = np.zeros(runs)
        self._pairs = np.triu_indices(dimension)
        terms = len(self._pairs[0]) + dimension + 2
        # Sums of x x^T (upper triangle), x y, y^2 and 1 over all observations and over those above their prediction.
        self._total, self._above_total = np.zeros((terms, runs)), np.zeros((terms, runs))
        self._x, self._y, self._count = np.zeros((dimension, rounds, runs)), np.zeros((rounds, runs)), 0
        # The few that may change sides: x = 0, y = 1 marks an unused place, above whatever theta is.
        width = NEAREST + REFERENCE_ROUNDS
        self._near_x, self._near_y = np.zeros((dimension, width, runs)), np.ones((width, runs))
        self._near_above = np.ones((width, runs), dtype=bool)
        self._used = NEAREST
        self._reference, self._reach = np.zeros((dimension, runs)), np.full(runs, np.inf)

    def _terms(self, x: Floats, y: Floats) -> Floats:
        first, second = self._pairs
        return np.concatenate([x[first] * x[second], x * y, (y * y)[None], np.ones_like(y)[None]])

    def observe(self, x: Floats, y: Floats) -> None:
        """One observation of every run: (d, N), (N,)."""
        self._x[:, self._count], self._y[self._count] = x, y
        self._count += 1
        terms = self._terms(x, y)
        self._total += terms
        if self._used == self._near_y.shape[0]:
            self._renew(np.arange(len(y)))
            self._used = NEAREST
            return
        above = y >= (x * self.theta).sum(axis=0)
        self._above_total += terms * above
        self._near_x[:, self._used], self._near_y[self._used], self._near_above[self._used] = x, y, above
        self._used += 1

    def _renew(self, runs: Columns) -> None:
        """Make theta the reference of these runs: sum over the whole history and set the nearest apart."""
        every = slice(None) if len(runs) == self.theta.shape[1] else runs
        x, y, theta = self._x[:, : self._count, every], self._y[: self._count, every], self.theta[:, runs]
        residuals = y - np.einsum("dtn,dn->tn", x, theta)
        above = residuals >= 0.0
        high_x, high_y = x * above, y * above
        products = [np.einsum("tn,tn->n", high_x[i], x[j]) for i, j in zip(*self._pairs, strict=True)]
        moments = [np.einsum("tn,tn->n", high_x[i], y) for i in range(len(x))]
        self._above_total[:, runs] = [*products, *moments, np.einsum("tn,tn->n", high_y, y), above.sum(axis=0)]
        self._near_x[:, :, runs], self._near_y[:, runs], self._near_above[:, runs] = 0.0, 1.0, True
        self._reference[:, runs] = theta
        kept = min(self._count, NEAREST)
        chosen = np.broadcast_to(np.arange(kept)[:, None], (kept, len(runs)))
        self._reach[runs] = np.inf
        if self._count > NEAREST:
            # Features of norm 0 never change sides.
            norms = np.sqrt((x * x).sum(axis=0))
            distances = np.where(norms > 0.0, np.abs(residuals) / np.maximum(norms, 1e-300), np.inf)
            order = np.argpartition(distances, NEAREST, axis=0)
            chosen = order[:NEAREST]
            self._reach[runs] = np.take_along_axis(distances, order[NEAREST : NEAREST + 1], axis=0)[0]
        self._near_x[:, :kept, runs] = np.take_along_axis(x, chosen[None], axis=1)
        self._near_y[:kept, runs] = np.take_along_axis(y, chosen, axis=0)
        self._near_above[:kept, runs] = np.take_along_axis(above, chosen, axis=0)

    def _square(self, terms: Floats) -> Floats:
        dimension = len(self.theta)
        matrices = np.empty((dimension, dimension, terms.shape[-1]))
        for term, (row, column) in zip(terms, zip(*self._pairs, strict=True), strict=False):
            matrices[row, column] = matrices[column, row] = term
        return matrices

    def _weighted(self, above: float, below: float) -> Floats:
        return above * self._above_total + below * (self._total - self._above_total)

    def fit(self) -> None:
        """Solve, correct the sides, and again, until no reward changes sides: then theta is the minimiser."""
        runs = self.theta.shape[1]
        pairs, dimension = len(self._pairs[0]), len(self.theta)
        open_runs = np.ones(runs, dtype=bool)
        for _ in range(STEPS_MAX):
            sums = self._weighted(2 * self.level, 2 * (1 - self.level))
            moments = sums[pairs : pairs + dimension]
            solved = ridge_solution(self._square(sums), moments, self.ridge, self.bound, self._multiplier)
            self.theta = np.where(open_runs, solved, self.theta)
            open_runs = self._change_sides()
            if not open_runs.any():
                break
        else:
            # Full steps can cycle, at levels such as .001; at the experiments' .1 none has been seen to.
            raise ArithmeticError("the sides did not settle")
        self._publish()

    def _change_sides(self) -> npt.NDArray[np.bool_]:
        """Move what changed sides between the sums; return which runs may be affected, (N,)."""
        runs = self.theta.shape[1]
        affected = np.zeros(runs, dtype=bool)
        far = np.flatnonzero(((self.theta - self._reference) ** 2).sum(axis=0) >= self._reach**2)
        if len(far):
            self._renew(far)
            affected[far] = True
        used = slice(0, self._used)
        predictions = np.einsum("dwn,dn->wn", self._near_x[:, used], self.theta)
        above = self._near_y[used] >= predictions
        rows, columns = np.nonzero(above != self._near_above[used])
        if len(rows):
            signs = np.where(above[rows, columns], 1.0, -1.0)
            terms = self._terms(self._near_x[:, rows, columns], self._near_y[rows, columns]) * signs
            for kept, moved in zip(self._above_total, terms, strict=True):
                kept += np.bincount(columns, weights=moved, minlength=runs)
            self._near_above[rows, columns] = above[rows, columns]
            affected[columns] = True
        return affected

    def _publish(self) -> None:
        pairs, dimension = len(self._pairs[0]), len(self.theta)
        curvatures = self._weighted(2 * self.level, 2 * (1 - self.level))
        squares = self._weighted((2 * self.level) ** 2, (2 * (1 - self.level)) ** 2)
        self.gram, self.weighted_gram = self._square(self._total), self._square(curvatures)
        image = np.einsum("abn,bn->an", self._square(squares), self.theta)
        cross = (squares[pairs : pairs + dimension] * self.theta).sum(axis=0)
        self.d1_squares = np.maximum(squares[-2] - 2.0 * cross + (image * self.theta).sum(axis=0), 0.0)
        self.d2_total = curvatures[-1]


class EntropicLearner:
    """Exact minimiser for the entropic risk, gamma > 0, where features are unit vectors: sums are all it needs."""

    def __init__(self, gamma: float, dimension: int, runs: int, ridge: float, bound: float | None) -> None:
        self.gamma, self.ridge, self.bound = gamma, ridge, bound
        self.theta = np.zeros((dimension, runs))
        self._count, self._first, self._second = (np.zeros((dimension, runs)) for _ in range(3))

    def observe(self, x: Floats, y: Floats) -> None:
        """One observation of every run: (d, N) unit vectors, (N,)."""
        self._count += x
        self._first += x * np.exp(self.gamma * y)
        self._second += x * np.exp(2.0 * self.gamma * y)

    def fit(self) -> None:
        """Solve for each arm, and for the ball's multiplier where the ball binds."""
        runs = self.theta.shape[1]
        self.theta = self._arms(np.full(runs, self.ridge), np.arange(runs))
        if self.bound is not None:
            out = np.flatnonzero((self.theta**2).sum(axis=0) > self.bound**2)
            if len(out):
                self.theta[:, out] = self._on_the_sphere(out, self.bound)
        decay = np.exp(-self.gamma * self.theta)
        curvatures = self.gamma * self._first * decay
        self.gram, self.weighted_gram = (_diagonal(values) for values in (self._count, curvatures))
        squares = self._count - 2.0 * self._first * decay + self._second * decay**2
        self.d1_squares, self.d2_total = squares.sum(axis=0), curvatures.sum(axis=0)

    def _arms(self, ridge: Floats, runs: Columns) -> Floats:
        """Root of ridge theta + n - S exp(-gamma theta), concave in theta: Newton rises to it from the left."""
        count, total = self._count[:, runs], self._first[:, runs]
        theta = np.minimum(np.where(count > 0, np.log(np.maximum(total, 1e-300) / np.maximum(count, 1.0)), 0.0), 0.0)
        theta = theta / self.gamma
        for _ in range(STEPS_MAX):
            pull = total * np.exp(-self.gamma * theta)
            step = (pull - count - ridge * theta) / (ridge + self.gamma * pull)
            theta = theta + step
            if float(np.abs(step).max()) <= 1e-14 * (1.0 + float(np.abs(theta).max())):
                return theta
        raise ArithmeticError("an arm's equation was not solved")

    def _on_the_sphere(self, runs: Columns, bound: float) -> Floats:
        mu = np.zeros(len(runs))
        for _ in range(STEPS_MAX):
            theta = self._arms(self.ridge + mu, runs)
            norms = np.sqrt((theta * theta).sum(axis=0))
            excess = norms / bound - 1.0
            if float(np.abs(excess).max()) <= 1e-12:
                return theta
            curvatures = self.gamma * self._first[:, runs] * np.exp(-self.gamma * theta)
            slopes = (theta * theta / (self.ridge + mu + curvatures)).sum(axis=0)
            mu = np.maximum(mu + excess * norms * norms / slopes, 0.0)
        raise ArithmeticError("the secular equation was not solved")


def _diagonal(values: Floats) -> Floats:
    matrices = np.zeros((len(values), *values.shape))
    rows = np.arange(len(values))
    matrices[rows, rows] = values
    return matrices


@dataclass(frozen=True)
class Dials:
    """The bonus of a batch. noise_scale None: the data-driven dial. bound None: the norm of the estimate."""

    bonus: str
    noise_scale: float | Floats | None
    conditioning: float
    bound: float | None
    curvatures: tuple[float, float]
    regularization: float = 0.1
    delta: float = 0.05


def bonuses(learner: Learner, x: Floats, dials: Dials) -> Floats:
    """(K, N) bonus of each arm; x: (d, K, N)."""
    dimension, alpha, kappa = len(x), dials.regularization, dials.conditioning
    lowest, highest = dials.curvatures
    ridge = kappa * alpha / highest
    if dials.noise_scale is None:
        scale: float | Floats = np.sqrt(learner.d1_squares / learner.d2_total)
    else:
        scale = dials.noise_scale
    volume = log_determinant(shifted(learner.gram, ridge)) - dimension * np.log(ridge)
    radius = scale * np.sqrt(2.0 * np.log(1.0 / dials.delta) + volume)
    bound = dials.bound if dials.bound is not None else np.sqrt((learner.theta**2).sum(axis=0))
    if dials.bonus.startswith("local"):
        metric = shifted(learner.weighted_gram, kappa * alpha)
        width = kappa * radius + np.sqrt(kappa * alpha) * bound
    else:
        metric = shifted(learner.gram, alpha / lowest)
        width = np.sqrt(kappa / lowest) * radius + np.sqrt(alpha / lowest) * bound
    if not dials.bonus.endswith("tight"):
        width = 2.0 * width
    lower = cholesky(metric)
    images = np.stack([forward(lower, x[:, arm]) for arm in range(x.shape[1])], axis=1)
    return np.asarray(width * np.sqrt((images * images).sum(axis=0)))


@dataclass(frozen=True)
class Outcome:
    """(N,) final regret, in reward units, and the largest |estimate - risk| / bonus over arms and rounds."""

    regret: Floats
    worst: Floats


def play(learner: Learner, features: Floats, risks: Floats, rewards: Floats, dials: Dials, warmup: int) -> Outcome:
    """Play all rounds, after `warmup` plays of each arm.

    features: (T, d, K, R); risks, rewards: (T, K, R). The learner may have a multiple of R runs: then each of the
    R worlds is played that many times, in turn.
    """
    rounds, arms, worlds = risks.shape
    runs = learner.theta.shape[1]
    every, times = np.arange(runs), runs // worlds
    regret, worst = np.zeros(runs), np.zeros(runs)
    for number in range(rounds):
        x, risk = (np.tile(array[number], times) for array in (features, risks))
        if number < arms * warmup:
            arm = np.full(runs, number % arms)
        else:
            learner.fit()
            estimates = (x * learner.theta[:, None]).sum(axis=0)
            width = bonuses(learner, x, dials)
            worst = np.maximum(worst, (np.abs(estimates - risk) / width).max(axis=0))
            arm = (estimates + width).argmax(axis=0)
        regret += risk.max(axis=0) - risk[arm, every]
        learner.observe(x[:, arm, every], rewards[number, arm, every % worlds])
    return Outcome(regret, worst)
