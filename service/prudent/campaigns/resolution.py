"""From a requested configuration to a resolved one: combinations checked, defaults filled in."""

from math import inf, isclose

from prudent.campaigns.configuration import (
    GAMMA_MIN,
    LEVEL_MIN,
    TOLERANCE_MIN,
    Algorithm,
    AlgorithmChange,
    CampaignConfiguration,
    EntropicRisk,
    ExpectileRisk,
    MultiArmedModel,
    RewardRules,
    Risk,
    SharedModel,
)
from prudent.campaigns.values import DISJOINT_FLOATS_MAX

EXPONENT_MAX = 30.0
"""|gamma| times the range of y - xi: beyond it the loss's curvatures differ by more than e^60."""
STEP_SIZE_MAX = 1e12
"""What a request may hold, so that a default can be posted again."""
OGD_SETTINGS = ("episode_length", "step_size", "step_schedule", "ogd_bonus")


class InvalidConfigurationError(ValueError):
    """A combination of settings that makes no sense. ``field`` is its dotted name in the request."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def resolve(requested: CampaignConfiguration) -> CampaignConfiguration:
    """The same campaign with every default filled in that does not depend on the data.

    Raises InvalidConfigurationError. Resolving a resolved configuration changes nothing.
    """
    risk = _resolve_risk(requested.risk)
    _check_model_and_arms(requested)
    _check_reward(requested.reward)
    resolved = requested.model_copy(
        update={
            "risk": risk,
            "arms": list(requested.arms),
            "algorithm": _resolve_algorithm(requested, risk),
        }
    )
    _check_entropic(resolved)
    return resolved


def resolve_change(current: CampaignConfiguration, change: AlgorithmChange) -> CampaignConfiguration:
    """The configuration with the algorithm's named dials changed. Raises InvalidConfigurationError."""
    named = {name: getattr(change, name) for name in change.model_fields_set}
    algorithm = current.algorithm.model_copy(update=named)
    return resolve(current.model_copy(update={"algorithm": algorithm}))


def _resolve_risk(risk: Risk) -> Risk:
    """Both forms of a level filled in: level = 1/(1 + downside_weight), gamma = -1/risk_tolerance."""
    if isinstance(risk, ExpectileRisk):
        level = _one_of(
            ("risk.level", risk.level),
            ("risk.downside_weight", risk.downside_weight),
            None if risk.downside_weight is None else 1 / (1 + risk.downside_weight),
        )
        if not LEVEL_MIN <= level <= 1 - LEVEL_MIN:
            raise InvalidConfigurationError(
                "risk.downside_weight", f"must give a level between {LEVEL_MIN:g} and 1 - {LEVEL_MIN:g}"
            )
        weight = risk.downside_weight if risk.downside_weight is not None else (1 - level) / level
        return ExpectileRisk(measure="expectile", level=level, downside_weight=weight)
    if isinstance(risk, EntropicRisk):
        # what is closer to 0 has a second form that no request may hold: replies could not be posted again
        if risk.gamma is not None and abs(risk.gamma) < GAMMA_MIN:
            raise InvalidConfigurationError(
                "risk.gamma", f"must be at least {GAMMA_MIN:g} in magnitude; for no aversion use the measure 'mean'"
            )
        if risk.risk_tolerance is not None and abs(risk.risk_tolerance) < TOLERANCE_MIN:
            raise InvalidConfigurationError("risk.risk_tolerance", f"must be at least {TOLERANCE_MIN:g} in magnitude")
        gamma = _one_of(
            ("risk.gamma", risk.gamma),
            ("risk.risk_tolerance", risk.risk_tolerance),
            None if risk.risk_tolerance is None else -1 / risk.risk_tolerance,
        )
        tolerance = risk.risk_tolerance if risk.risk_tolerance is not None else -1 / gamma
        return EntropicRisk(measure="entropic", gamma=gamma, risk_tolerance=tolerance)
    return risk


def _one_of(first: tuple[str, float | None], second: tuple[str, float | None], converted: float | None) -> float:
    """The first form's value, given in either form or, as replies show it, in both."""
    (name, value), (other, _) = first, second
    if value is None:
        if converted is None:
            raise InvalidConfigurationError(name, f"give {name} or {other}")
        return converted
    if converted is not None and not isclose(value, converted, rel_tol=1e-12):
        raise InvalidConfigurationError(other, f"contradicts {name}: give one of the two")
    return value


def _check_model_and_arms(requested: CampaignConfiguration) -> None:
    model = requested.model
    seen: set[str] = set()
    for position, arm in enumerate(requested.arms):
        if arm.arm_id in seen:
            raise InvalidConfigurationError(f"arms.{position}.arm_id", "is there twice")
        seen.add(arm.arm_id)
        check_arm_features(requested, arm.features, f"arms.{position}.features")
    if isinstance(model, MultiArmedModel):
        return
    if model.features is not None:
        if len(model.features) != model.dimension:
            raise InvalidConfigurationError(
                "model.features",
                f"expected {model.dimension} (the dimension), received {len(model.features)}",
            )
        if len({feature.name for feature in model.features}) != len(model.features):
            raise InvalidConfigurationError("model.features", "names must differ")
    check_size(requested, len(requested.arms), "model.dimension")


def check_size(configuration: CampaignConfiguration, arms: int, field: str) -> None:
    """Refuse a disjoint model whose matrices would be too large."""
    model = configuration.model
    if isinstance(model, MultiArmedModel | SharedModel):
        return
    floats = arms * (model.dimension + model.intercept) ** 2
    if floats > DISJOINT_FLOATS_MAX:
        raise InvalidConfigurationError(field, f"arms x dimension^2 is {floats}; allowed are {DISJOINT_FLOATS_MAX}")


def check_arm_features(configuration: CampaignConfiguration, features: list[float] | None, field: str) -> None:
    """Registered features belong to the shared model, with its dimension."""
    if features is None:
        return
    if not isinstance(configuration.model, SharedModel):
        raise InvalidConfigurationError(field, "only the shared model has features per arm")
    if len(features) != configuration.model.dimension:
        raise InvalidConfigurationError(
            field, f"expected {configuration.model.dimension} features, received {len(features)}"
        )


def _check_reward(reward: RewardRules) -> None:
    low = -inf if reward.minimum is None else reward.minimum
    high = inf if reward.maximum is None else reward.maximum
    if low >= high:
        raise InvalidConfigurationError("reward.maximum", "must be above reward.minimum")
    if reward.default is not None:
        if reward.timeout_seconds is None:
            raise InvalidConfigurationError("reward.timeout_seconds", "a default reward needs a timeout")
        if not low <= reward.default <= high:
            raise InvalidConfigurationError("reward.default", "must lie within reward.minimum and reward.maximum")


def _resolve_algorithm(requested: CampaignConfiguration, risk: Risk) -> Algorithm:
    algorithm = requested.algorithm
    entropic = isinstance(risk, EntropicRisk)
    if algorithm.name == "linucb" and risk.measure != "mean":
        raise InvalidConfigurationError(
            "algorithm.name",
            f"linucb learns the mean only; for {risk.measure} use linucb-cr, linucb-ogd-cr or linucb-onepass-cr",
        )
    _check_conditioning(algorithm, entropic=entropic)
    updates: dict[str, object] = {}
    if algorithm.regularization is None:
        updates["regularization"] = 0.1 * abs(risk.gamma or 0.0) if isinstance(risk, EntropicRisk) else 1.0
    if isinstance(requested.model, SharedModel):
        if algorithm.radius is not None:
            raise InvalidConfigurationError("algorithm.radius", "only disjoint and multi-armed models have it")
    elif algorithm.radius is None:
        updates["radius"] = "per-arm"
    if algorithm.name == "linucb-ogd-cr":
        updates |= _gradient_descent(requested, risk)
    else:
        for name in OGD_SETTINGS:
            if getattr(algorithm, name) is not None:
                raise InvalidConfigurationError(f"algorithm.{name}", "only linucb-ogd-cr has it")
    return algorithm.model_copy(update=updates)


def _gradient_descent(requested: CampaignConfiguration, risk: Risk) -> dict[str, object]:
    """The settings that only linucb-ogd-cr has; see docs/decisions/0014."""
    algorithm = requested.algorithm
    size, schedule = 0.1, "theory"
    if isinstance(risk, EntropicRisk):
        # The paper's 0.1 in the unit of the rewards: its experiment has |gamma| = L = 1.
        scale = algorithm.feature_bound**2 * abs(risk.gamma or 0.0)
        size, schedule = min(0.1 / scale, STEP_SIZE_MAX), "harmonic"
    return {
        "episode_length": algorithm.episode_length or 5,
        "step_size": algorithm.step_size or size,
        "step_schedule": algorithm.step_schedule or schedule,
        "ogd_bonus": algorithm.ogd_bonus or 0.0,
    }


def _check_conditioning(algorithm: Algorithm, *, entropic: bool) -> None:
    field = "algorithm.conditioning"
    if algorithm.name == "linucb" and algorithm.conditioning not in (None, "theory", 1):
        raise InvalidConfigurationError(field, "linucb's is 1: allowed are null, 'theory' and 1")
    if algorithm.conditioning == "self-concordant":
        if not entropic:
            raise InvalidConfigurationError(field, "'self-concordant' is for the entropic measure")
        if algorithm.parameter_bound is None:
            raise InvalidConfigurationError(field, "'self-concordant' needs algorithm.parameter_bound")


def _check_entropic(resolved: CampaignConfiguration) -> None:
    if not isinstance(resolved.risk, EntropicRisk):
        return
    low, high = resolved.reward.minimum, resolved.reward.maximum
    if low is None or high is None:
        missing = "minimum" if low is None else "maximum"
        raise InvalidConfigurationError(f"reward.{missing}", "the entropic measure needs both reward bounds")
    gamma = abs(resolved.risk.gamma or 0.0)
    exponent, what = gamma * (high - low), "the range of rewards"
    bound = resolved.algorithm.parameter_bound
    if bound is not None:
        reach = resolved.algorithm.feature_bound * bound
        over_ball = gamma * max(high + reach, reach - low)
        if over_ball > exponent:
            exponent, what = over_ball, "the largest prediction error in the ball"
    if exponent > EXPONENT_MAX:
        raise InvalidConfigurationError(
            "risk.gamma", f"|gamma| times {what} is {exponent:.6g}; allowed are at most {EXPONENT_MAX:.0f}"
        )
