"""From a requested configuration to a resolved one: combinations checked, defaults filled in."""

import json
from math import ceil, inf
from typing import Any

import numpy as np

from prudent.campaigns.bonuses import WITH_LIMITS, check_limits
from prudent.campaigns.configuration import (
    Algorithm,
    AlgorithmChange,
    ArmConfiguration,
    CampaignConfiguration,
    DisjointModel,
    ExplorationRuleName,
    MultiArmedModel,
    RewardRules,
    SharedModel,
)
from prudent.campaigns.features import check_features, check_width, encode, places_of, with_defaults
from prudent.campaigns.rows import Floats, Given, RowReader
from prudent.campaigns.values import DISJOINT_FLOATS_MAX, InvalidConfigurationError, check_value, known, own_value
from prudent.campaigns.vocabulary import Draft
from prudent.core.encoding import Encoder
from prudent.core.measures import Measure
from prudent.core.self_normalized import WARMUP
from prudent.core.self_scaled import OBSERVATIONS_MIN
from prudent.errors import InvalidCommandError
from prudent.spelling import hint

STEP_SIZE_MAX = 1e12
"""What a request may hold, so that a default can be posted again."""
FLOOR_DEFAULT = 2.0
"""From the same simulations as the constants of `prudent.core.exploration`."""
EXACT_UNTIL_DEFAULT = 10_000
"""Going over to one pass then moves estimates by a few hundredths of a standard error: docs/algorithms.md."""
OGD_SETTINGS = ("episode_length", "step_size", "step_schedule", "ogd_bonus")


def resolve(requested: CampaignConfiguration) -> CampaignConfiguration:
    """The same campaign with every default filled in that does not depend on the data.

    Raises InvalidConfigurationError. Resolving a resolved configuration changes nothing.
    """
    rule = requested.algorithm.exploration_rule or _default_rule(requested.algorithm)
    model = requested.model
    if isinstance(model, SharedModel) and model.intercept is None:
        is_centred = rule == "randomized" or requested.algorithm.bonus in WITH_LIMITS
        model = model.model_copy(update={"intercept": is_centred})
    if not isinstance(model, MultiArmedModel):
        model = _resolve_features(model, learned=requested.algorithm.noise_scale is None)
    resolved = requested.model_copy(update={"risk": requested.risk.resolved(), "model": model})
    resolved = resolved.model_copy(update={"arms": _check_arms(resolved)})
    check_size(resolved, len(resolved.arms), "model.dimension")
    _check_reward(requested.reward)
    _check_events(resolved)
    _check_retention(resolved)
    _check_holdout(resolved)
    _check_risk(requested)
    algorithm = _resolve_algorithm(requested, rule, resolved.measure())
    return resolved.model_copy(update={"algorithm": algorithm})


def _default_rule(algorithm: Algorithm) -> ExplorationRuleName:
    """The randomized rule, but with a noise scale, a dial of the paper's bonus, and with limits that are the index."""
    is_optimistic = algorithm.noise_scale is not None or algorithm.bonus in WITH_LIMITS
    return "optimistic" if is_optimistic else "randomized"


def with_rule(configuration: CampaignConfiguration) -> CampaignConfiguration:
    """A configuration that says how it explores, and until when its fits are exact.

    One from before there were exploration rules, or an end of exact fits, keeps what it was created with: the
    optimistic rule, without a floor, and exact fits always.
    """
    algorithm, kept = configuration.algorithm, dict[str, Any]()
    if algorithm.exploration_rule is None:
        kept = {"exploration_rule": "optimistic", "floor": 0.0 if algorithm.floor is None else algorithm.floor}
    if "exact_until" not in algorithm.model_fields_set:
        kept["exact_until"] = None  # so that it is set
    if not kept:
        return configuration
    return configuration.model_copy(update={"algorithm": algorithm.model_copy(update=kept)})


def repeats_creation(requested: CampaignConfiguration, creation: str) -> bool:
    """Whether a request is the one that a campaign was created with, stored as `creation`.

    What a campaign from before there were exploration rules, an end of exact fits, or learned scales, left to the
    defaults is compared with those of then.
    """
    parsed = CampaignConfiguration.model_validate_json(creation)
    if parsed.algorithm.exploration_rule is None:
        requested = with_rule(requested)
    elif "exact_until" not in parsed.algorithm.model_fields_set:
        requested = _as_exact(requested)
    described = json.loads(creation)["model"].get("features") or []
    if any("kind" not in one for one in described):
        requested = _as_sent(requested)
    return resolve(requested) == with_rule(parsed)


def _as_exact(requested: CampaignConfiguration) -> CampaignConfiguration:
    """With exact fits always, as was the default before they could end."""
    if "exact_until" in requested.algorithm.model_fields_set:
        return requested
    algorithm = requested.algorithm.model_copy(update={"exact_until": None})
    return requested.model_copy(update={"algorithm": algorithm})


def _as_sent(requested: CampaignConfiguration) -> CampaignConfiguration:
    """With the centers and scales that were the defaults before they could be learned."""
    model = requested.model
    if isinstance(model, MultiArmedModel) or model.features is None:
        return requested
    features = with_defaults(model.features, learned=False)
    return requested.model_copy(update={"model": model.model_copy(update={"features": features})})


def resolve_change(current: CampaignConfiguration, change: AlgorithmChange) -> CampaignConfiguration:
    """The configuration with the algorithm's named dials changed. Raises InvalidConfigurationError."""
    named = {name: getattr(change, name) for name in change.model_fields_set}
    before, after = current.algorithm.bonus, named.get("bonus", current.algorithm.bonus)
    if before != after and (before in WITH_LIMITS or after in WITH_LIMITS):
        raise InvalidConfigurationError(
            "algorithm.bonus",
            f"cannot change from {before} to {after}: what a campaign with {' or '.join(WITH_LIMITS)} learns differs "
            "from the first reward on. Create another campaign, and give it this one's observations",
        )
    algorithm = current.algorithm.model_copy(update=named)
    return resolve(current.model_copy(update={"algorithm": algorithm}))


def _resolve_features(model: SharedModel | DisjointModel, *, learned: bool) -> SharedModel | DisjointModel:
    """The model with its features' defaults and its dimension filled in."""
    field = "model.features"
    if model.features is None:
        if isinstance(model, SharedModel) and model.context_features is not None:
            raise InvalidConfigurationError(field, "required with context_features: the features of an arm")
        if model.interactions:
            raise InvalidConfigurationError("model.interactions", "need model.features, whose names they list")
        if model.dimension is None:
            raise InvalidConfigurationError(
                "model", "needs features, each with a name, or dimension, the number of features sent as an array"
            )
        return model
    check_features(model.features, field)
    updates: dict[str, Any] = {"features": with_defaults(model.features, learned=learned)}
    if isinstance(model, SharedModel) and model.context_features is not None:
        check_features(model.context_features, "model.context_features")
        updates["context_features"] = with_defaults(model.context_features, learned=learned)
    resolved = model.model_copy(update=updates)
    encoded = encoder_of(resolved, intercept=False)
    check_width(encoded, model.dimension, field)
    return resolved.model_copy(update={"dimension": encoded.width})


def encoder_of(model: SharedModel | DisjointModel, *, intercept: bool) -> Encoder:
    """How the core sees the named features of a model. Raises InvalidConfigurationError."""
    arm = model.features or []
    context = (model.context_features or []) if isinstance(model, SharedModel) else []
    pairs = places_of(model.interactions, arm, context, "model.interactions")
    return encode(arm, context, pairs, intercept=intercept)


def _check_arms(resolved: CampaignConfiguration) -> list[ArmConfiguration]:
    """The arms, with their features as they are stored. Raises InvalidConfigurationError."""
    seen: set[str] = set()
    arms = []
    reader = RowReader(resolved.model)
    draft = Draft(reader.vocabulary())
    for position, arm in enumerate(resolved.arms):
        if arm.arm_id in seen:
            raise InvalidConfigurationError(f"arms.{position}.arm_id", "is listed twice")
        seen.add(arm.arm_id)
        check_value(arm.value, (one.value for one in resolved.arms[:1]), f"arms.{position}.value")
        arm = arm.model_copy(update={"value": own_value(arm.arm_id, arm.value)})  # as it is stored
        row = arm_row(resolved, arm.features, f"arms.{position}.features", reader, draft)
        if row is not None and isinstance(arm.features, dict):
            values = reader.canonical(row, arm.features)
            arm = arm.model_copy(update={"features": values})
        arms.append(arm)
    return arms


def check_size(configuration: CampaignConfiguration, arms: int, field: str) -> None:
    """Refuse a disjoint model whose matrices would be too large. configuration: resolved."""
    model = configuration.model
    if isinstance(model, MultiArmedModel | SharedModel):
        return
    floats = arms * (known(model.dimension) + model.intercept) ** 2
    if floats > DISJOINT_FLOATS_MAX:
        raise InvalidConfigurationError(field, f"arms x dimension^2 is {floats}; at most {DISJOINT_FLOATS_MAX} allowed")


def arm_row(
    configuration: CampaignConfiguration, given: Given | list[float] | None, field: str, reader: RowReader, draft: Draft
) -> Floats | None:
    """The row of features registered with an arm. They belong to the shared model: raises InvalidConfigurationError."""
    if given is None:
        return None
    if not isinstance(configuration.model, SharedModel):
        raise InvalidConfigurationError(field, "only the arms of a shared model can have features")
    try:
        return reader.read(np.array(given, dtype=np.float64) if isinstance(given, list) else given, field, draft)
    except InvalidCommandError as error:
        raise InvalidConfigurationError(error.field or field, error.message) from None


def _check_reward(reward: RewardRules) -> None:
    low = -inf if reward.minimum is None else reward.minimum
    high = inf if reward.maximum is None else reward.maximum
    if low >= high:
        raise InvalidConfigurationError("reward.maximum", "must be above reward.minimum")
    if reward.default is not None:
        if reward.timeout_seconds is None:
            raise InvalidConfigurationError("reward.timeout_seconds", "is required with a default reward")
        if not low <= reward.default <= high:
            raise InvalidConfigurationError("reward.default", "must lie within reward.minimum and reward.maximum")
    if not all(low <= rule.constant <= high for rule in reward.events.values() if rule.constant is not None):
        raise InvalidConfigurationError(
            "reward.events", "each constant must lie within reward.minimum and reward.maximum"
        )


def _check_events(resolved: CampaignConfiguration) -> None:
    events = resolved.reward.events
    if events and resolved.assignment.sticky_seconds is None:
        raise InvalidConfigurationError("assignment.sticky_seconds", "is required with reward.events")
    for rule in events.values():
        if (rule.value is None) == (rule.constant is None):
            raise InvalidConfigurationError("reward.events", "each event needs either value or constant")


def _check_retention(resolved: CampaignConfiguration) -> None:
    """Refuse to delete what a deadline or a subject still needs."""
    days = resolved.retention_days
    needed = max(resolved.reward.timeout_seconds or 0, 2 * (resolved.assignment.sticky_seconds or 0))
    if 0 < days * 86_400 < needed:
        raise InvalidConfigurationError(
            "retention_days",
            f"must be 0 or at least {ceil(needed / 86_400)}: for so long reward.timeout_seconds, or two windows of "
            "assignment.sticky_seconds, may ask for a decision",
        )
    if not resolved.log_retention_days:
        return
    if not 0 < days <= resolved.log_retention_days:
        raise InvalidConfigurationError(
            "log_retention_days",
            "must be 0 or at least retention_days, which must not be 0: a decision that is kept needs its reward",
        )
    if resolved.algorithm.name == "linucb-cr" and resolved.algorithm.exact_until is None:
        raise InvalidConfigurationError(
            "log_retention_days",
            "needs algorithm.exact_until or another algorithm: without it linucb-cr is computed from the whole log",
        )


def _check_holdout(resolved: CampaignConfiguration) -> None:
    holdout = resolved.holdout
    if holdout is None:
        return
    if (holdout.arm_id is None) == (holdout.policy is None):
        raise InvalidConfigurationError("holdout.arm_id", "send either arm_id or policy")
    registered = {arm.arm_id for arm in resolved.arms}
    # a shared model's requests may bring arms that are not registered
    if holdout.arm_id is not None and holdout.arm_id not in registered and resolved.model.type != "shared":
        raise InvalidConfigurationError(
            "holdout.arm_id",
            f"must be one of the campaign's arms: {hint(holdout.arm_id, sorted(registered), 'arms')}",
        )


def _check_risk(requested: CampaignConfiguration) -> None:
    reward, algorithm = requested.reward, requested.algorithm
    bound = algorithm.parameter_bound
    reach = None if bound is None else algorithm.feature_bound * bound
    requested.risk.check(reward.minimum, reward.maximum, reach)


def _resolve_algorithm(requested: CampaignConfiguration, rule: ExplorationRuleName, measure: Measure) -> Algorithm:
    algorithm = requested.algorithm
    others = ", linucb-ogd-cr or " if measure.stages is None else " or "
    if algorithm.name == "linucb" and not measure.is_mean:
        raise InvalidConfigurationError(
            "algorithm.name",
            f"linucb learns only the mean; for {measure.name} use linucb-cr{others}linucb-onepass-cr",
        )
    if algorithm.name == "linucb-ogd-cr" and measure.stages is not None:
        raise InvalidConfigurationError(
            "algorithm.name",
            f"linucb-ogd-cr descends along one loss, and the {measure.noun} has none; use linucb-cr or "
            "linucb-onepass-cr",
        )
    _check_conditioning(algorithm, measure)
    _check_forgetting(algorithm, measure)
    _check_baseline(algorithm)
    updates: dict[str, object] = {
        "exploration_rule": rule,
        "exact_until": _exact_until(algorithm, rule, measure),
    }
    if algorithm.floor is None:
        # an exploration of 0 asks for the best estimate, always
        updates["floor"] = FLOOR_DEFAULT if rule == "randomized" and algorithm.exploration > 0.0 else 0.0
    has_limits = algorithm.bonus in WITH_LIMITS
    if has_limits:
        check_limits(algorithm, requested.model, measure)
        if "warmup" not in algorithm.model_fields_set:
            updates["warmup"] = OBSERVATIONS_MIN if algorithm.bonus == "self-scaled" else WARMUP
    elif algorithm.regularization is None:
        updates["regularization"] = measure.loss.default_regularization
    if isinstance(requested.model, SharedModel):
        if algorithm.radius is not None:
            raise InvalidConfigurationError("algorithm.radius", "applies only to disjoint and multi-armed models")
    elif algorithm.radius is None and not has_limits:
        updates["radius"] = "per-arm"
    if algorithm.name == "linucb-ogd-cr":
        updates |= _gradient_descent(algorithm, measure)
    else:
        for name in OGD_SETTINGS:
            if getattr(algorithm, name) is not None:
                raise InvalidConfigurationError(f"algorithm.{name}", "applies only to linucb-ogd-cr")
    return algorithm.model_copy(update=updates)


def _exact_until(algorithm: Algorithm, rule: ExplorationRuleName, measure: Measure) -> int | None:
    """After how many observations one pass takes over. Raises InvalidConfigurationError where it never can."""
    never = None
    if algorithm.name != "linucb-cr":
        never = "applies only to linucb-cr"
    elif measure.stages is not None:
        never = f"the {measure.noun} is learned in stages, by fits to all observations: leave this null"
    elif algorithm.bonus == "self-normalized":
        never = "the bonus self-normalized needs linucb-cr's rewards, which one pass does not keep: leave this null"
    if "exact_until" not in algorithm.model_fields_set:
        return EXACT_UNTIL_DEFAULT if never is None and rule == "randomized" else None
    if algorithm.exact_until is not None and never is not None:
        raise InvalidConfigurationError("algorithm.exact_until", never)
    return algorithm.exact_until


def _check_forgetting(algorithm: Algorithm, measure: Measure) -> None:
    """Refuse what cannot forget."""
    field = "algorithm.forgetting"
    if algorithm.forgetting is None:
        return
    if algorithm.name == "linucb-ogd-cr":
        raise InvalidConfigurationError(field, "linucb-ogd-cr cannot forget: leave this null, or use linucb-onepass-cr")
    if algorithm.name == "linucb-cr" and measure.stages is not None:
        raise InvalidConfigurationError(field, f"for the {measure.noun} only linucb-onepass-cr can forget")
    if algorithm.bonus in {"self-scaled", "self-normalized"}:
        raise InvalidConfigurationError(field, f"the bonus {algorithm.bonus} cannot forget: leave this null")


def _check_baseline(algorithm: Algorithm) -> None:
    """Refuse one with a bonus that is infinite until an arm has been played: it never would be."""
    if algorithm.baseline is not None and algorithm.bonus in WITH_LIMITS:
        raise InvalidConfigurationError(
            "algorithm.baseline",
            f"with the bonus {algorithm.bonus} an arm has no lower end before it has been played, so none but the "
            "baseline ever would be: leave this null, or use another bonus",
        )


def _gradient_descent(algorithm: Algorithm, measure: Measure) -> dict[str, object]:
    """The settings that only linucb-ogd-cr has; see docs/decisions/0014."""
    size, schedule = 0.1, "theory"
    if measure.loss.is_steep:
        # The paper's 0.1 in the unit of the rewards: its experiment has a curvature of 1, and L = 1.
        scale = algorithm.feature_bound**2 * measure.loss.typical_curvature
        size, schedule = min(0.1 / scale, STEP_SIZE_MAX), "harmonic"
    return {
        "episode_length": algorithm.episode_length or 5,
        "step_size": algorithm.step_size or size,
        "step_schedule": algorithm.step_schedule or schedule,
        "ogd_bonus": algorithm.ogd_bonus or 0.0,
    }


def _check_conditioning(algorithm: Algorithm, measure: Measure) -> None:
    field = "algorithm.conditioning"
    if algorithm.name == "linucb" and algorithm.conditioning not in (None, "theory", 1):
        raise InvalidConfigurationError(field, "linucb's conditioning is always 1: give null, 'theory' or 1")
    if measure.stages is not None and algorithm.conditioning not in (None, 1):
        raise InvalidConfigurationError(
            field, f"the {measure.noun} has no theory of conditioning: give null or 1, and tune `exploration`"
        )
    if algorithm.conditioning == "self-concordant":
        if measure.loss.self_concordance is None:
            raise InvalidConfigurationError(
                field, f"'self-concordant' has no meaning for the {measure.noun}: use null, 'theory' or a number"
            )
        if algorithm.parameter_bound is None:
            raise InvalidConfigurationError(field, "'self-concordant' needs algorithm.parameter_bound")
