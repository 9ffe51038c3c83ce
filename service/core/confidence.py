"""How wide an optimistic index is: the radius, the metric and the bonus.

Symbols as in docs/mathematics.md: ``m`` and ``M`` bound the loss's curvature, ``kappa`` is the conditioning,
``alpha`` the ridge, ``S`` bounds the parameter's norm, ``L`` the features', ``sigma`` is the noise scale.
Source: Saux & Maillard 2023, Theorem 1 and Section 4; the tight bonuses and the per-arm radius are ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.lapack import dpotrf, dtrtri

from service.core.losses import EntropicLoss, Loss

Bonus = Literal["local", "global", "local-tight", "global-tight"]
Conditioning = float | Literal["theory", "self-concordant"] | None
Radius = Literal["per-arm", "joint"]


class Evidence(Protocol):
    """What the confidence needs from an estimator; every estimator has it. B blocks of dimension d."""

    theta: NDArray[np.float64]
    """(B, d), the published estimate."""
    gram: NDArray[np.float64]
    """(B, d, d), sum of x x^T."""
    weighted_gram: NDArray[np.float64]
    """(B, d, d), sum of d2(y, <theta, x>) x x^T."""

    @property
    def d1_squares(self) -> float:
        """Sum of d1^2 over all of them."""

    @property
    def d2_total(self) -> float:
        """Sum of d2 over all of them."""


@dataclass(frozen=True, slots=True)
class ConfidenceSettings:
    """The dials of the bonus. ``None`` has the meaning of docs/mathematics.md, "The data-driven dial"."""

    regularization: float
    delta: float = 0.05
    noise_scale: float | None = None
    parameter_bound: float | None = None
    feature_bound: float = 1.0
    bonus: Bonus = "local-tight"
    conditioning: Conditioning = None
    radius: Radius = "per-arm"
    linear: bool = False
    """LinUCB's own bonus: one curvature, no projection, so neither conditioning nor a factor 2."""
    norm_bonus: float = 0.0
    """c_ogd, reward units a unit of the features: a bound on how far the estimate is from the exact one."""


class Confidence:
    """Bonuses of the optimistic index, kept current block by block.

    bonus(x) = factor (c_r r + c_S S) ||x||_{A^-1} + c_ogd ||x||, with

    - local: A = sum d2 x x^T + kappa alpha I, c_r = kappa, c_S = sqrt(kappa alpha);
    - global: A = sum x x^T + (alpha/m) I, c_r = sqrt(kappa/m), c_S = sqrt(alpha/m);
    - r = sigma sqrt(2 log(1/delta) + log det(I + M/(kappa alpha) sum x x^T));
    - factor 2 as in the paper, 1 for the tight forms;
    - c_ogd = 0 unless given: where it bounds ||theta - exact estimate||, the bonus of the exact estimate holds.

    Guarantee: the interval estimate +- bonus holds for all rounds and features with probability 1 - delta for
    the exact constrained estimator if ``noise_scale`` and ``parameter_bound`` are true bounds. It stops there:
    with the data-driven dial, a conditioning given as a number, or a streaming estimator, it is an exploration
    rule and no confidence interval.
    """

    def __init__(
        self,
        loss: Loss,
        settings: ConfidenceSettings,
        blocks: int,
        dimension: int,
        *,
        blocks_at_creation: int,
    ) -> None:
        self.settings = settings
        self.curvature_min, self.curvature_max = loss.curvature_min, loss.curvature_max
        self.conditioning = _conditioning(loss, settings)
        self.noise_scale = settings.noise_scale if settings.noise_scale is not None else 1.0
        self.parameter_bound = settings.parameter_bound if settings.parameter_bound is not None else 0.0
        self._blocks_at_creation = blocks_at_creation
        alpha, kappa, m = settings.regularization, self.conditioning, self.curvature_min
        self._radius_ridge = kappa * alpha / self.curvature_max
        self._is_local = settings.bonus.startswith("local") and not settings.linear
        tight = settings.linear or settings.bonus.endswith("tight")
        doubled = 1.0 if tight else 2.0
        if self._is_local:
            self._metric_ridge = kappa * alpha
            self._radius_weight, self._bound_weight = doubled * kappa, doubled * sqrt(kappa * alpha)
        else:
            self._metric_ridge = alpha / m
            self._radius_weight, self._bound_weight = doubled * sqrt(kappa / m), doubled * sqrt(alpha / m)
        self._inverse_factors = np.zeros((blocks, dimension, dimension))
        self._log_determinants = np.zeros(blocks)
        self._multipliers = np.zeros(blocks)

    @property
    def radii(self) -> NDArray[np.float64]:
        """(B,) r of each block, in units of the noise scale's (the reward's) unit; equal where joint."""
        blocks = len(self._log_determinants)
        if self.settings.radius == "joint" or blocks == 1:
            total = 2 * log(1 / self.settings.delta) + float(np.add.reduce(self._log_determinants))
            return np.array([self.noise_scale * sqrt(max(total, 0.0))] * blocks)
        levels = 2 * np.log(1 / self._deltas(blocks)) + self._log_determinants
        return np.asarray(self.noise_scale * np.sqrt(np.maximum(levels, 0.0)))

    def _deltas(self, blocks: int) -> NDArray[np.float64]:
        """(B,) the error probability of each block: a union bound over arms.

        The arms at creation share delta equally. Once arms have come later, the k-th arm has
        6 delta/(pi^2 k^2), which sums to delta for any number of arms; over the whole life of such a campaign
        the two unions add up to at most 2 delta.
        """
        if blocks == self._blocks_at_creation:
            return np.full(blocks, self.settings.delta / max(blocks, 1))
        k = np.arange(1, blocks + 1)
        return np.asarray(6 * self.settings.delta / (pi * k) ** 2)

    def refresh(self, evidence: Evidence, changed: Iterable[int]) -> None:
        """Recompute the changed blocks' metric, then the radii. O(d^3) a changed block."""
        blocks, dimension = evidence.theta.shape
        if blocks > len(self._log_determinants):
            self._grow(blocks, dimension)
        metric_matrices = evidence.weighted_gram if self._is_local else evidence.gram
        is_one = metric_matrices is evidence.gram and self._metric_ridge == self._radius_ridge
        base = dimension * log(self._radius_ridge)
        for block in changed:
            factor, log_determinant = inverse_factor(metric_matrices[block], self._metric_ridge)
            self._inverse_factors[block] = factor
            if not is_one:
                log_determinant = log_determinant_of(evidence.gram[block], self._radius_ridge)
            self._log_determinants[block] = log_determinant - base
        self._refresh_dials(evidence)
        bound = self.parameter_bound * (sqrt(blocks) if self.settings.radius == "joint" else 1.0)
        self._multipliers = self._radius_weight * self.radii + self._bound_weight * bound

    def _grow(self, blocks: int, dimension: int) -> None:
        added = blocks - len(self._log_determinants)
        self._inverse_factors = np.concatenate([self._inverse_factors, np.zeros((added, dimension, dimension))])
        self._log_determinants = np.concatenate([self._log_determinants, np.zeros(added)])

    def _refresh_dials(self, evidence: Evidence) -> None:
        if self.settings.noise_scale is None:
            curvature = evidence.d2_total
            self.noise_scale = sqrt(evidence.d1_squares / curvature) if curvature > 0 else 1.0
        if self.settings.parameter_bound is None:
            squares = np.vecdot(evidence.theta, evidence.theta).tolist()
            self.parameter_bound = sqrt(max(squares, default=0.0))

    def bonus(self, features: NDArray[np.float64], blocks: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Bonus of each candidate, in reward units.

        features: (K, d) with one block (``blocks`` None), or (d,) one context for all of ``blocks``: (K,).
        Returns (K,).
        """
        if blocks is None:
            images, multipliers = features @ self._inverse_factors[0].T, self._multipliers[0]
        else:
            images, multipliers = self._inverse_factors[blocks] @ features, self._multipliers[blocks]
        bonuses: NDArray[np.float64] = multipliers * np.sqrt(np.vecdot(images, images))
        if self.settings.norm_bonus:
            bonuses += self.settings.norm_bonus * np.sqrt(np.vecdot(features, features))
        return bonuses

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices held."""
        return self._inverse_factors.nbytes + self._log_determinants.nbytes


def _conditioning(loss: Loss, settings: ConfidenceSettings) -> float:
    """Kappa as a number. Self-concordant: 1 + 2 |gamma| L S, for the entropic loss and a ball of radius S."""
    choice = settings.conditioning
    if settings.linear:
        return 1.0
    if choice is None:
        choice = 1.0 if settings.noise_scale is None else "theory"
    if choice == "theory":
        return loss.conditioning
    if choice == "self-concordant":
        if not isinstance(loss, EntropicLoss) or settings.parameter_bound is None:
            raise ValueError("self-concordant conditioning needs the entropic loss and a parameter bound")
        return 1 + 2 * abs(loss.gamma) * settings.feature_bound * settings.parameter_bound
    return float(choice)


def inverse_factor(matrix: NDArray[np.float64], ridge: float) -> tuple[NDArray[np.float64], float]:
    """F with F^T F = (matrix + ridge I)^-1, and log det(matrix + ridge I).

    matrix: (d, d) symmetric, positive semi-definite up to rounding; ridge > 0. ||F x|| is the norm of x in the
    inverse metric, and cannot be negative as x^T A^-1 x can be by rounding. Where Cholesky fails (the ridge is
    lost in the matrix's rounding) the eigenvalues are floored at the ridge, which only widens the bonus.
    """
    shifted, lower, failed = _cholesky(matrix, ridge)
    if not failed:
        inverse, failed = dtrtri(lower, lower=1)
        if not failed:
            return inverse, 2 * _log_sum(lower.diagonal())
    values, vectors = np.linalg.eigh((shifted + shifted.T) / 2)
    values = np.maximum(values, ridge)
    return vectors.T / np.sqrt(values)[:, None], _log_sum(values)


def log_determinant_of(matrix: NDArray[np.float64], ridge: float) -> float:
    """Logarithm of det(matrix + ridge I), as ``inverse_factor`` gives it."""
    _, lower, failed = _cholesky(matrix, ridge)
    return inverse_factor(matrix, ridge)[1] if failed else 2 * _log_sum(lower.diagonal())


def _cholesky(matrix: NDArray[np.float64], ridge: float) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
    """Return matrix + ridge I, its lower factor with zeros above, and LAPACK's code, 0 for success."""
    shifted = matrix.copy()
    shifted.ravel()[:: len(matrix) + 1] += ridge
    # the transpose of a C-ordered symmetric matrix is the same matrix in the order LAPACK wants
    lower, failed = dpotrf(shifted.T, lower=1, clean=1)
    return shifted, lower, failed


def _log_sum(values: NDArray[np.float64]) -> float:
    return float(np.add.reduce(np.log(values)))
