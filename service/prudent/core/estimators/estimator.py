"""What an estimator is to the rest of the code: its estimate, its sums, its state, and what it says of itself."""

from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from prudent.core.estimators.blocks import StateArrays
from prudent.core.measures import Array

_CHUNK_PRODUCTS = 2**18


class Convergence(NamedTuple):
    """What an iterative solver did over the estimator's life.

    certified: whether every block's theta is the certified minimiser of its observations as of `refresh`. fits: solves
    asked for; uncertified: those that did not meet the certificate; bound_active: those in which the ball binds.
    """

    certified: bool
    fits: int
    uncertified: int
    bound_active: int


class SolverCounts(NamedTuple):
    """Fits; those of them that did not meet the certificate; those in which the parameter bound was binding."""

    fits: int = 0
    uncertified: int = 0
    bound_active: int = 0

    def plus(self, convergence: Convergence | None) -> "SolverCounts":
        """Return them with what another estimator's solver did."""
        if convergence is None:
            return self
        _, fits, uncertified, bound_active = convergence
        return SolverCounts(self.fits + fits, self.uncertified + uncertified, self.bound_active + bound_active)


class ScoreMoments(NamedTuple):
    """J = sum d1^2 x x^T of a block's observations at theta, and how much it takes to use it.

    observations: of the block. products: multiplications for one direction, beyond O(d^2).
    quadratics: v (K, d) -> v^T J v, (K,), in squared units of d1 times v's; nan where J is not known.
    """

    observations: int
    products: int
    quadratics: Callable[[Array], Array]


def score_quadratics(directions: Array, features: Array, slopes_of: Callable[[slice], Array]) -> Array:
    """Return sum d1^2 <x_i, v>^2 for each v, (K, d); (K,). O(n d K), a chunk at a time.

    features: (n, d), contiguous along n. slopes_of: from a slice of the observations to their d1.
    """
    total = np.zeros(len(directions))
    size = max(1, _CHUNK_PRODUCTS // (len(directions) + features.shape[1]))
    for start in range(0, len(features), size):
        part = slice(start, start + size)
        slopes = slopes_of(part)
        projections = directions @ features[part].T  # along memory, as a history lies
        projections *= projections
        total += projections @ (slopes * slopes)
    return total


class Estimator(Protocol):
    """An estimate of theta for each of B blocks of dimension d, from observations in their order.

    A block is a parameter vector of its own: the shared model has one, the disjoint model one per arm. Arrays are valid
    after `refresh` and until `add_block`, `restore` or `load`, and not to be written to. d1 and d2 are the derivatives
    of the loss in <theta, x>. Not thread safe.
    """

    has_snapshots: ClassVar[bool]
    """Whether `arrays` is the complete state. If not, the state is rebuilt from the log."""
    warns_of_large_features: ClassVar[bool]
    """Whether features above feature_bound deserve a warning even where no noise_scale is given."""

    @property
    def theta(self) -> Array:
        """(B, d), the published estimate, in reward units per feature unit."""

    @property
    def gram(self) -> Array:
        """(B, d, d), sum of x x^T, exactly symmetric."""

    @property
    def weighted_gram(self) -> Array:
        """(B, d, d), sum of d2 x x^T, exactly symmetric."""

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2 over all observations."""

    @property
    def d2_total(self) -> float:
        """Sum of d2 over all observations."""

    @property
    def regularization(self) -> float:
        """alpha, in units of d2 times squared feature units."""

    @property
    def observations(self) -> int:
        """Observations of all blocks."""

    @property
    def convergence(self) -> Convergence | None:
        """What the solver did; None for an estimator that has no certificate."""

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""

    def observe(self, block: int, x: Array, y: float) -> None:
        """Learn that features x, (d,), gave reward y.

        Raises ValueError, and changes nothing, for an unknown block and for what is not finite.
        """

    def recenter(self, center: float) -> None:
        """Learn rewards relative to a centre from now on, and those so far as well.

        In reward units, 0 at first. The last feature must be 1 always: only then is a shift a matter of the estimate.
        """

    def refresh(self) -> list[int]:
        """Bring the arrays up to date; return the blocks changed since the last call, in order."""

    def add_block(self) -> None:
        """Append a block without observations; theta is 0 there. The next `refresh` reports it."""

    def known_factor(self, block: int) -> tuple[Array, float | None] | None:
        """Return F with F^T F = (sum d2 x x^T + alpha I)^-1 and theta under it, (d + 1, d); None where no F is kept.

        And the logarithm of the determinant of sum d2 x x^T + alpha I, if it comes with F.
        """

    def score_moments(self, block: int, *, has_intercept: bool) -> ScoreMoments | None:
        """Return what an asymptotic variance of a block's theta needs.

        None where theta is not asymptotically normal about the minimiser: it need not have come near it, it lies on the
        ball's surface, or its fit has no certificate; and where the number of observations is not known.
        has_intercept: whether the last feature is always 1.
        """

    def warnings(self) -> list[str]:
        """Return sentences about what went wrong, for the campaign's owner."""

    def mark(self) -> None:
        """Remember this state for `restore`, in place of any earlier mark."""

    def restore(self) -> None:
        """Return to the mark, byte for byte; the mark stays. Raises RuntimeError without one."""

    def arrays(self) -> StateArrays:
        """Return copies of the complete state; nothing without `has_snapshots`."""

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the state that `arrays` gave; what follows is as if there had been no break.

        Forgets the mark. Raises ValueError, and changes nothing, for arrays that do not fit.
        """

    def is_sane(self) -> bool:
        """Whether everything is finite and the Gram matrices are symmetric, with diagonals not negative."""


@runtime_checkable
class RewardsKept(Protocol):
    """An estimate and the rewards that it rests on, from an estimator that keeps them."""

    @property
    def theta(self) -> Array:
        """(B, d), of the rewards relative to `center`."""

    @property
    def center(self) -> float:
        """What rewards are learned relative to, in reward units."""

    def observed(self, block: int) -> Array:
        """Return a block's rewards in their order, as they were observed, (n,); a view, not to be written to."""


def pooled_moments(count: int, d1_squares: float, gram: Array) -> ScoreMoments:
    """Return the moments of an estimator that keeps no observations: J = (sum d1^2 / n) sum x x^T.

    count: n; d1_squares: sum d1^2; gram: (d, d). It is J itself where the spread of d1 does not depend on the features.
    """

    def quadratics(directions: Array) -> Array:
        return np.asarray(d1_squares / count * np.vecdot(directions @ gram, directions))

    return ScoreMoments(count, 0, quadratics)


def skipped_warnings(skipped_steps: int) -> list[str]:
    """Return the warnings of an estimator that leaves out steps that are not finite."""
    return [f"{skipped_steps} steps were not finite and were left out"] if skipped_steps else []
