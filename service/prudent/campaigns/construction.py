"""From a resolved configuration to the policy that it describes."""

import numpy as np

from prudent.campaigns.bonuses import WITH_LIMITS
from prudent.campaigns.configuration import CampaignConfiguration, MultiArmedModel
from prudent.campaigns.resolution import encoder_of
from prudent.campaigns.values import known
from prudent.core.budget import limit_of
from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import Encoder, FeatureMap
from prudent.core.estimators import (
    Estimator,
    ExactMinimizer,
    OnePass,
    OnlineGradient,
    Ridge,
    StagedMinimizer,
    StagedOnePass,
)
from prudent.core.exploration import ExplorationRule
from prudent.core.measures import Measure
from prudent.core.policy import Policy
from prudent.core.self_scaled import ESTIMATION_RIDGE


def build_policy(creation: CampaignConfiguration, current: CampaignConfiguration, *, arms: int) -> Policy:
    """A policy that has observed nothing.

    creation, current: the resolved configuration as created and as it is now. What is learned depends only on
    the first, so that a replay of the log gives the same state regardless of later changes; the index depends on
    the second. arms: how many are registered now.
    """
    feature_map = feature_map_of(creation)
    measure = creation.measure()
    shared = creation.model.type == "shared"
    has_limits = creation.algorithm.bonus in WITH_LIMITS  # for which rewards far from 0 do no harm
    is_centred = creation.algorithm.exploration_rule == "randomized" or (has_limits and feature_map.intercept)
    return Policy(
        measure=measure,
        estimator=_estimator(creation, measure, 1 if shared else arms, feature_map.model_dimension),
        feature_map=feature_map,
        confidence=index_settings(current),
        exploration=current.algorithm.exploration,
        blocks_at_creation=1 if shared else len(creation.arms),
        arms=arms,
        centred=is_centred,
        fresh_estimator=lambda blocks: _estimator(creation, measure, blocks, feature_map.model_dimension),
        keeps_seen=not isinstance(creation.model, MultiArmedModel) and creation.model.features is not None,
        half_life=0 if creation.algorithm.forgetting is None else creation.algorithm.forgetting.half_life,
        exact_until=creation.algorithm.exact_until,
    )


def exploration_rule(configuration: CampaignConfiguration) -> ExplorationRule:
    """How the campaign's decisions explore."""
    algorithm = configuration.algorithm
    return ExplorationRule(
        randomized=algorithm.exploration_rule == "randomized",
        warmup=algorithm.warmup,
        floor=algorithm.floor or 0.0,
        uniform_share=algorithm.uniform_share,
        limit=limit_of(algorithm.budget),
        tolerance=0.0 if algorithm.baseline is None else algorithm.baseline.tolerance,
    )


def index_settings(configuration: CampaignConfiguration) -> ConfidenceSettings:
    """The dials of the bonus."""
    algorithm = configuration.algorithm
    return ConfidenceSettings(
        regularization=_regularization(configuration, configuration.measure()),
        delta=algorithm.delta,
        noise_scale=algorithm.noise_scale,
        parameter_bound=algorithm.parameter_bound,
        feature_bound=algorithm.feature_bound,
        bonus=algorithm.bonus,
        conditioning=algorithm.conditioning,
        radius=algorithm.radius or "per-arm",
        linear=algorithm.name == "linucb",
        norm_bonus=algorithm.ogd_bonus or 0.0,
    )


def feature_map_of(configuration: CampaignConfiguration) -> FeatureMap | Encoder:
    """How features become columns of the model. configuration: resolved."""
    model = configuration.model
    if isinstance(model, MultiArmedModel):
        return FeatureMap(np.zeros(0), np.ones(0), intercept=True)
    if model.features is None:
        dimension = known(model.dimension)
        return FeatureMap(np.zeros(dimension), np.ones(dimension), known(model.intercept))
    encoded = encoder_of(model, intercept=known(model.intercept))
    if encoded.is_affine:
        return FeatureMap(encoded.center, encoded.scale, known(model.intercept))
    return encoded


def _regularization(configuration: CampaignConfiguration, measure: Measure) -> float:
    """The ridge of the estimate."""
    algorithm = configuration.algorithm
    if algorithm.bonus in WITH_LIMITS:
        return ESTIMATION_RIDGE * measure.loss.typical_curvature * algorithm.feature_bound**2
    return known(algorithm.regularization)


def _estimator(configuration: CampaignConfiguration, measure: Measure, blocks: int, dimension: int) -> Estimator:
    algorithm = configuration.algorithm
    regularization = _regularization(configuration, measure)
    bound = algorithm.parameter_bound if algorithm.projection else None
    loss, stages = measure.loss, measure.stages
    if stages is not None:
        staged = StagedMinimizer if algorithm.name == "linucb-cr" else StagedOnePass
        return staged(stages, blocks, dimension, regularization)
    if algorithm.name == "linucb":
        return Ridge(blocks, dimension, regularization)
    if algorithm.name == "linucb-cr":
        return ExactMinimizer(loss, blocks, dimension, regularization, bound)
    start_observations = algorithm.warmup * len(configuration.arms)
    if algorithm.name == "linucb-onepass-cr":
        return OnePass(loss, blocks, dimension, regularization, bound, start_observations)
    return OnlineGradient(
        loss,
        blocks,
        dimension,
        regularization,
        bound,
        feature_bound=algorithm.feature_bound,
        episode_length=known(algorithm.episode_length),
        schedule=known(algorithm.step_schedule),
        step_size=known(algorithm.step_size),
        start_observations=start_observations,
    )
