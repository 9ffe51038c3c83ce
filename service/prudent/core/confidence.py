"""How wide an optimistic index is: the radius, the metric and the bonus.

Symbols as in docs/mathematics.md: ``m`` and ``M`` bound the loss's curvature, ``kappa`` is the conditioning,
``alpha`` the ridge, ``S`` bounds the parameter's norm, ``L`` the features', ``sigma`` is the noise scale.
Source: Saux & Maillard 2023, Theorem 1 and Section 4; the tight bonuses and the per-arm radius are ours.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, pi, sqrt
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm, dnrm2

from prudent.core.estimators import Estimator
from prudent.core.measures import Loss
from prudent.core.numerics.positive_definite import inverse_factor, log_determinant_of, with_row

Bonus = Literal["local", "global", "local-tight", "global-tight", "self-scaled", "self-normalized"]
Conditioning = float | Literal["theory", "self-concordant"] | None
Radius = Literal["per-arm", "joint"]


class Dials(NamedTuple):
    """The dials in use: kappa, sigma, S, and (B,) r of each block; None of a bonus that has none."""

    conditioning: float | None
    noise_scale: float | None
    parameter_bound: float | None
    radii: NDArray[np.float64] | None


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
    """c_ogd, in reward units per feature unit: a bound on how far the estimate is from the exact one."""


def deltas_of(delta: float, blocks: int, blocks_at_creation: int) -> NDArray[np.float64]:
    """(B,) the error probability of each block: a union bound over arms.

    The arms at creation share delta equally. Once arms have come later, the k-th arm has 6 delta/(pi^2 k^2), which sums
    to delta for any number of arms; over the whole life of such a campaign the two unions add up to at most 2 delta. A
    single block has all of delta.
    """
    if blocks == 1:
        return np.full(blocks, delta)
    if blocks == blocks_at_creation:
        return np.full(blocks, delta / max(blocks, 1))
    k = np.arange(1, blocks + 1)
    return np.asarray(6 * delta / (pi * k) ** 2)


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
        # where the curvature is 1 the two sums are one
        is_flat = loss.has_unit_curvature
        self._takes_known = (self._is_local or is_flat) and self._metric_ridge == alpha
        self._is_one = (not self._is_local or is_flat) and self._metric_ridge == self._radius_ridge
        self._base = dimension * log(self._radius_ridge)
        self._is_joint = settings.radius == "joint"
        # each block's inverse factor F, and under it theta: one product gives estimates and bonuses
        self._scoring = np.zeros((0, dimension + 1, dimension))
        self._log_determinants: list[float] = []
        self._slope = self._offset = 0.0
        self._grow(blocks)

    @property
    def radii(self) -> NDArray[np.float64]:
        """(B,) r of each block, in units of the noise scale's (the reward's) unit; equal where joint."""
        return self.noise_scale * self._widths

    @property
    def dials(self) -> Dials:
        """The dials in use."""
        return Dials(self.conditioning, self.noise_scale, self.parameter_bound, self.radii)

    def _deltas(self, blocks: int) -> NDArray[np.float64]:
        """(B,) the error probability of each block; blocks that are joint have all of delta."""
        if self._is_joint:
            return np.full(blocks, self.settings.delta)
        return deltas_of(self.settings.delta, blocks, self._blocks_at_creation)

    def refresh(self, estimator: Estimator, changed: Iterable[int]) -> None:
        """Recompute the changed blocks' metric, then the radii. O(d^3) per changed block."""
        theta = estimator.theta
        blocks = len(theta)
        if blocks > len(self._log_determinants):
            self._grow(blocks)
            changed = range(blocks)
        for block in changed:
            factor, log_determinant = self._metric(estimator, block)
            if blocks == 1:
                self._scoring = factor[None]
            else:
                self._scoring[block] = factor
            self._log_determinants[block] = log_determinant - self._base
            if not self._is_joint:
                self._widths[block] = _root(self._levels[block] + self._log_determinants[block])
        if self._is_joint:
            self._widths[:] = _root(self._levels[0] + sum(self._log_determinants)) if blocks else 0.0
        self._refresh_dials(estimator, theta)
        bound = self.parameter_bound * (sqrt(blocks) if self._is_joint else 1.0)
        self._slope, self._offset = self._radius_weight * self.noise_scale, self._bound_weight * bound

    def _metric(self, estimator: Estimator, block: int) -> tuple[NDArray[np.float64], float]:
        """The inverse factor of a block's metric, theta under it, and the log determinant of its radius."""
        known = estimator.known_factor(block) if self._takes_known else None
        log_determinant: float | None
        if known is None:
            matrices = estimator.weighted_gram if self._is_local else estimator.gram
            inverse, log_determinant = inverse_factor(matrices[block], self._metric_ridge)
            factor = with_row(inverse, estimator.theta[block])
        else:
            factor, log_determinant = known
        if log_determinant is None or not self._is_one:
            log_determinant = log_determinant_of(estimator.gram[block], self._radius_ridge)
        return factor, log_determinant

    def _grow(self, blocks: int) -> None:
        known, rows, dimension = self._scoring.shape
        self._scoring = np.concatenate([self._scoring, np.zeros((blocks - known, rows, dimension))])
        self._log_determinants += [0.0] * (blocks - known)
        self._levels: list[float] = (2 * np.log(1 / self._deltas(blocks))).tolist()
        # roots of the radii's squares, without the noise scale
        self._widths = np.zeros(blocks)

    def _refresh_dials(self, estimator: Estimator, theta: NDArray[np.float64]) -> None:
        if self.settings.noise_scale is None:
            curvature = estimator.d2_total
            self.noise_scale = sqrt(estimator.d1_squares / curvature) if curvature > 0 else 1.0
        if self.settings.parameter_bound is None:
            if len(theta) == 1:
                self.parameter_bound = dnrm2(theta[0])
            else:
                self.parameter_bound = sqrt(max(np.vecdot(theta, theta).tolist(), default=0.0))

    def score(
        self, features: NDArray[np.float64], blocks: NDArray[np.intp] | None = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Estimate and bonus of each candidate, (K,) each, in reward units.

        features: (K, d) with one block (``blocks`` None), or (d,) one context for all of ``blocks``: (K,).
        """
        width: float | NDArray[np.float64]
        if blocks is None:
            # BLAS itself: for matrices of this size numpy's product takes twice as long
            images = dgemm(1.0, self._scoring[0], features.T).T
            width = self._widths.item(0)
        else:
            rows = self._scoring[blocks].reshape(-1, len(features))  # one matrix product, not one per block
            images = rows.dot(features).reshape(len(blocks), -1)
            width = self._widths[blocks]
        scaled = images[:, :-1]
        bonuses: NDArray[np.float64] = np.sqrt(np.vecdot(scaled, scaled))
        bonuses *= self._slope * width + self._offset
        if self.settings.norm_bonus:
            bonuses += self.settings.norm_bonus * np.sqrt(np.vecdot(features, features))
        return images[:, -1], bonuses

    def bonus(self, features: NDArray[np.float64], blocks: NDArray[np.intp] | None = None) -> NDArray[np.float64]:
        """Bonus of each candidate, without its estimate: see ``score``."""
        return self.score(features, blocks)[1]

    @property
    def nbytes(self) -> int:
        """Bytes of the matrices held; one that the estimator holds as well counts here too."""
        return self._scoring.nbytes + self._widths.nbytes


def _root(square: float) -> float:
    return sqrt(square) if square > 0.0 else 0.0


def _conditioning(loss: Loss, settings: ConfidenceSettings) -> float:
    """Kappa as a number. Self-concordant: 1 + 2 c L S, for a loss of self-concordance c and a ball of radius S."""
    choice = settings.conditioning
    if settings.linear:
        return 1.0
    if choice is None:
        choice = 1.0 if settings.noise_scale is None else "theory"
    if choice == "theory":
        return loss.conditioning
    if choice == "self-concordant":
        if loss.self_concordance is None or settings.parameter_bound is None:
            raise ValueError("self-concordant conditioning needs a self-concordant loss and a parameter bound")
        return 1 + 2 * loss.self_concordance * settings.feature_bound * settings.parameter_bound
    return float(choice)
