"""The bonuses that publish limits and have no dial: what else a campaign with one of them may be asked for."""

from prudent.campaigns.configuration import Algorithm, Model, MultiArmedModel
from prudent.campaigns.values import InvalidConfigurationError
from prudent.core.measures import Measure
from prudent.core.self_scaled import DELTA_MAX

WITH_LIMITS = ("self-scaled", "self-normalized")
"""The bonuses without a dial, which publish limits."""
SELF_SCALED_ESTIMATORS = ("linucb", "linucb-cr", "linucb-onepass-cr")
NOT_WITH_LIMITS = {
    "noise_scale": "the noise is measured, arm by arm",
    "parameter_bound": "no bound on the parameter is assumed",
    "regularization": "its ridge is for rounding only",
    "conditioning": "the curvature is the one observed",
    "radius": "each arm has limits of its own",
}
"""Dials that these bonuses replace, and by what."""


def check_limits(algorithm: Algorithm, model: Model, measure: Measure) -> None:
    """Refuse what a bonus with limits has no use for: silently ignored, it would look as if it did something."""
    bonus = algorithm.bonus
    if bonus == "self-scaled":
        _check_self_scaled(algorithm, measure)
    else:
        _check_self_normalized(algorithm, model, measure)
    if algorithm.exploration_rule == "randomized":
        raise InvalidConfigurationError(
            "algorithm.exploration_rule", f"the bonus {bonus} is optimistic: leave this null, or 'optimistic'"
        )
    for name, instead in NOT_WITH_LIMITS.items():
        if getattr(algorithm, name) is not None:
            raise InvalidConfigurationError(
                f"algorithm.{name}", f"has no meaning with the bonus {bonus} ({instead}): leave it null"
            )
    if algorithm.floor:
        raise InvalidConfigurationError("algorithm.floor", f"the bonus {bonus} has a floor of its own: leave it 0")


def _check_self_scaled(algorithm: Algorithm, measure: Measure) -> None:
    if measure.stages is not None:
        raise InvalidConfigurationError(
            "algorithm.bonus", f"self-scaled is not calibrated for the {measure.noun}: choose another bonus"
        )
    if algorithm.name not in SELF_SCALED_ESTIMATORS:
        raise InvalidConfigurationError(
            "algorithm.bonus", f"self-scaled needs {', '.join(SELF_SCALED_ESTIMATORS[:-1])} or linucb-onepass-cr"
        )
    if algorithm.delta > DELTA_MAX:
        raise InvalidConfigurationError("algorithm.delta", f"must be at most {DELTA_MAX} with the bonus self-scaled")


def _check_self_normalized(algorithm: Algorithm, model: Model, measure: Measure) -> None:
    field = "algorithm.bonus"
    if not isinstance(model, MultiArmedModel):
        raise InvalidConfigurationError(
            field, f"self-normalized is proved for multi-armed models only, not for {model.type}: choose another bonus"
        )
    if measure.stages is not None:
        raise InvalidConfigurationError(
            field, f"self-normalized is not proved for the {measure.noun}: choose another bonus, or another measure"
        )
    if measure.loss.score_lines is None:
        raise InvalidConfigurationError(
            field,
            f"self-normalized is proved for measures that are averse to risk, or neutral, and the {measure.title} "
            "seeks it: choose another bonus",
        )
    if algorithm.name != "linucb-cr":
        raise InvalidConfigurationError(
            field, f"self-normalized needs linucb-cr, which keeps its rewards, not {algorithm.name}"
        )
