"""Judges a frozen policy on a log whose choices were random with known, unequal probabilities.

The campaign is fitted on the first part of the log and frozen. On the n rows of the rest its greedy choice a(x) is
deterministic, so row i gets the weight w_i = 1{a(x_i) = a_i} / propensity_i. The value of the frozen policy is that
of rewards y_i with masses w_i / n (IPS), or w_i / sum w (SNIPS): see `measures` for the mean and the
risk of such a sample. IPS is unbiased for the mean; SNIPS is slightly biased, moves with the rewards when these are
shifted, and varies less as a rule. Both need the log to give every choice of the policy a chance: the mean weight
is then 1 on average. Intervals are percentiles of a bootstrap over the rows of the rest, with the policy as it is.

Source: Horvitz & Thompson 1952; Swaminathan & Joachims, "The self-normalized estimator for counterfactual learning",
NeurIPS 2015; Kish's effective sample size.
"""

import math
from dataclasses import dataclass

import numpy as np

from prudent_simulator.environments import FloatArray
from prudent_simulator.offline_evaluation.estimates import FEW_ROWS, Resampled, Session, Value, rewards_of, shares
from prudent_simulator.offline_evaluation.frozen import Frozen, freeze
from prudent_simulator.offline_evaluation.measures import effective_sample_size
from prudent_simulator.offline_evaluation.reading import LogError
from prudent_simulator.offline_evaluation.uniform import common_propensity


@dataclass(frozen=True)
class WeightedEvaluation:
    """What the weights say, on the rows held out.

    common_propensity: of all rows, None where they differ; matched: rows of positive weight; mean_weight: 1 but for
    chance where the log explored, with its standard error; log: what the log's own choices gave; gain: the policy's
    SNIPS risk less the log's.
    """

    fitted: int
    held_out: int
    common_propensity: float | None
    matched: int
    effective_sample_size: float
    mean_weight: float
    mean_weight_error: float
    weight_max: float
    ips: Value
    snips: Value
    log: Value
    gain: float
    gain_interval: tuple[float, float] | None

    @property
    def unsupported(self) -> bool:
        """Whether the mean weight contradicts 1: then the log never tried some of what the policy chooses.

        Three standard errors: a false alarm in about 370 sound logs.
        """
        return abs(self.mean_weight - 1.0) > 3.0 * self.mean_weight_error


def weights_of(frozen: Frozen) -> FloatArray:
    """Give w, (n,)."""
    return np.array(
        [
            1.0 / (row.propensity or 1.0) if reply.arm_id == row.arm else 0.0
            for row, reply in zip(frozen.held_out, frozen.replies, strict=True)
        ]
    )


def evaluate_weighted(session: Session, fit_share: float) -> WeightedEvaluation:
    """Fit, freeze and judge. Raises LogError where the policy agrees with no row of the rest."""
    frozen = freeze(session, fit_share)
    rewards, weights = rewards_of(frozen.held_out), weights_of(frozen)
    if not weights.any():
        raise LogError(
            f"{session.log.path}: the frozen policy chooses in none of the last {weights.size} rows what the log "
            "chose, so there is nothing to judge"
        )
    rows = weights.size

    def ips(counts: FloatArray) -> FloatArray:
        return counts * weights / rows

    def snips(counts: FloatArray) -> FloatArray:
        total = float(counts @ weights)
        return counts * weights / total if total > 0.0 else np.zeros(rows)

    values = Resampled(session, rewards, [ips, snips, shares])
    gain, gain_interval = values.risk_difference(1, 2)
    return WeightedEvaluation(
        fitted=len(frozen.fitted),
        held_out=rows,
        common_propensity=common_propensity(session.log.rows),
        matched=int(np.count_nonzero(weights)),
        effective_sample_size=effective_sample_size(weights),
        mean_weight=float(weights.mean()),
        mean_weight_error=float(weights.std()) / math.sqrt(rows),
        weight_max=float(weights.max()),
        ips=values.value(0),
        snips=values.value_of_few(1) if np.count_nonzero(weights) < FEW_ROWS else values.value(1),
        log=values.value(2),
        gain=gain,
        gain_interval=gain_interval,
    )
