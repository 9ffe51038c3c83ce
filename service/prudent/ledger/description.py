"""What a campaign's model has learned, and what may be claimed about it."""

import math
from hashlib import blake2b
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from prudent.core.comparison import Comparison, compare
from prudent.core.confidence import Confidence
from prudent.core.scaling import ROWS_MAX
from prudent.core.self_normalized import SelfNormalized
from prudent.core.theory import Constants, regret_bound
from prudent.errors import InvalidCommandError
from prudent.ledger.arms import Candidate
from prudent.ledger.commands import Compare
from prudent.ledger.explanation import feature_names, interval_of
from prudent.ledger.outcomes import ArmChange, ArmModel, Limits, ModelReport
from prudent.ledger.selection import score
from prudent.ledger.state import CampaignState

CONDITIONAL = (
    "The interval estimate +- bonus holds for all rounds with probability 1 - delta (1 - 2 delta where arms were "
    "added to a disjoint campaign), provided that noise_scale and parameter_bound are true bounds for it."
)
CALIBRATED = (
    "The limits of the bonus self-scaled are calibrated by simulation, not proved. An arm's upper limit is "
    "asymptotically a confidence sequence, once it has hundreds of observations; what has never been seen is in none."
)
PROVED = (
    "The upper limits hold for all arms and all rounds together with probability 1 - delta (1 - 2 delta where arms "
    "were added), for any scale and any tails, provided that each arm's scores at its true value cross once. They do "
    "for rewards that are symmetric about any centre, and for those with a long tail of losses whose two tails cross "
    "once; a rare jackpot may break it. Rewards must not be late, or missing, because of their value."
)
LEVEL_SPREADS_MAX, LEVEL_OBSERVATIONS = 3.0, 16
"""How many standard deviations from 0 rewards may lie before it matters that they are not centred; known from when."""
RIDGE_SHARE_MAX, RIDGE_OBSERVATIONS = 0.5, 100
"""Up to which share of a feature's metric may be the ridge's, and from how many observations of a block on."""
SIZE_MAX = 1.5
"""Up to this typical size, in units of feature_bound, a feature is as large as it is meant to be."""
NAMED_MAX = 3


def compare_arms(state: CampaignState, command: Compare) -> Comparison:
    """In which contexts which arm has the best estimate, at the state's sequence."""
    if state.creation.model.type != "disjoint" or any(arm_id not in state.by_id for arm_id in command.arms):
        raise InvalidCommandError("the campaign is another one by now: it has no such arms")
    if command.contexts.shape[1] != state.policy.feature_map.dimension:
        raise InvalidCommandError("the campaign is another one by now: it has other features")
    blocks = np.array([state.by_id[arm_id].position for arm_id in command.arms], dtype=np.intp)
    return compare(state.policy, command.contexts, blocks)


def known_report(state: CampaignState, damage: str | None) -> ModelReport | None:
    """The report, if there is one of this very state."""
    if getattr(state.creation.model, "features", None) is not None:  # a select may add a category to it
        return None
    if state.described is None or state.described[0] != _stamp(state, damage):
        return None
    report = state.described[1]
    assert isinstance(report, ModelReport)  # noqa: S101  # `describe` puts it there
    return report


def _stamp(state: CampaignState, damage: str | None) -> tuple[object, ...]:
    """Changes whenever the report does."""
    return state.policy.version, state.sequence, state.head, state.revision, state.refusals.since(state.head), damage


def describe(state: CampaignState, damage: str | None = None) -> ModelReport:
    """The report at the state's sequence. damage: what is wrong with the campaign's log.

    Takes a second for the largest models: not for the ledger's thread.
    """
    report = _describe(state, damage)
    state.described = _stamp(state, damage), report
    return report


def _describe(state: CampaignState, damage: str | None) -> ModelReport:
    policy, configuration = state.policy, state.configuration
    policy.refresh()
    conditioning, noise_scale, parameter_bound, radii = policy.confidence.dials
    parameters, limits = policy.parameters(), _limits(state)
    reason = why_not_guaranteed(state)
    inside = _inside_ball(state)
    intervals = [[interval_of(ends) for ends in block] for block in policy.parameter_intervals().tolist()]
    dumped = policy.dump()
    return ModelReport(
        campaign_id=state.campaign_id,
        algorithm=configuration.algorithm.name,
        one_pass=is_one_pass(state),
        observations=state.sequence,
        head=state.head,
        feature_names=feature_names(state),
        features=features_of(state),
        frozen_at=frozen_at(state),
        theta=parameters[0].tolist() if state.shared else None,
        theta_intervals=intervals[0] if state.shared else None,
        arms=[
            ArmModel(
                arm_id=arm.arm_id,
                status=arm.status,
                theta=None if state.shared else parameters[arm.position].tolist(),
                radius=None if state.shared or radii is None else float(radii[arm.position]),
                inside_ball=None if state.shared or inside is None else bool(inside[arm.position]),
                theta_intervals=None if state.shared else intervals[arm.position],
                limits=limits.get(arm.arm_id),
            )
            for arm in state.arms
        ],
        conditioning=conditioning,
        noise_scale=noise_scale,
        parameter_bound=parameter_bound,
        radius=float(radii[0]) if state.shared and radii is not None else None,
        guaranteed=reason is None,
        guarantee_note=reason or (PROVED if isinstance(policy.confidence, SelfNormalized) else CONDITIONAL),
        center=policy.center if policy.is_centred else None,
        inside_ball=None if inside is None else bool(inside.all()),
        regret_bound=_regret_bound(state) if reason is None and not state.rule.is_drawn else None,
        convergence=_convergence(state),
        features_above_bound=policy.features_above_bound,
        changes=[
            ArmChange(
                arm_id=None if place is None else state.arms[place].arm_id,
                since=change.since,
                raised=change.raised,
                size=change.size,
                spread=change.spread,
                stands=change.stands,
            )
            for place, change in policy.change_watch.changes().items()
        ],
        refused_rewards=state.refusals.since(state.head),
        warnings=([] if damage is None else [f"The log is damaged: {damage}."]) + _warnings(state),
        state_digest=None if dumped is None else blake2b(dumped, digest_size=16).hexdigest(),
    )


def _limits(state: CampaignState) -> dict[str, Limits | None]:
    """The limits of the active arms whose features do not depend on a request; nothing with another bonus."""
    model = state.creation.model
    if isinstance(state.policy.confidence, Confidence) or model.type == "disjoint":
        return {}
    context = None if state.shared else np.zeros(0)
    known = [
        Candidate(arm.arm_id, features, arm.position)
        for arm in state.arms
        if arm.status == "active" and (features := arm.features if context is None else context) is not None
    ]
    scores = score(state, known) if known else None
    return {} if scores is None else {one.arm_id: scores.limits_of(place) for place, one in enumerate(known)}


def features_of(state: CampaignState) -> list[dict[str, Any]] | None:
    """What is known of each named feature: centers and scales in use, categories, what the learned rows held."""
    seen, feature_map = state.policy.seen, state.policy.feature_map
    if seen is None:
        return None
    found = []
    for place, column in enumerate(state.reader.columns):
        one: dict[str, Any] = {"name": column.key, "kind": column.feature.kind, "missing": int(seen.missing[place])}
        if column.is_category:
            texts = state.vocabulary.values(column.key)
            one |= {"other": int(seen.others[place]), "categories": [texts[position] for position in sorted(texts)]}
        else:
            one |= {"minimum": _finite(seen.low[place]), "maximum": _finite(seen.high[place])}
        if column.feature.kind == "number":
            scale = _finite(feature_map.scale[place])
            one |= {"center": None if scale is None else float(feature_map.center[place]), "scale": scale}
        found.append(one)
    return found


def _finite(value: float) -> float | None:
    """A number as JSON takes it; None where nothing is known yet."""
    return float(value) if isfinite(value) else None


def frozen_at(state: CampaignState) -> int | None:
    """The number of observations at which centers and scales were learned for the last time; None before that."""
    scaling = state.policy.scaling
    return ROWS_MAX if scaling is not None and scaling.is_frozen else None


def is_one_pass(state: CampaignState) -> bool:
    """Whether each observation is one step now, and looked at once."""
    name = state.configuration.algorithm.name
    return name == "linucb-onepass-cr" or (name == "linucb-cr" and state.policy.estimator.has_snapshots)


def why_not_guaranteed(state: CampaignState) -> str | None:
    """Why the bonus is an exploration rule and no confidence interval; None if it is one, conditionally."""
    algorithm = state.configuration.algorithm
    if state.policy.is_self_scaled:
        return CALIBRATED
    if isinstance(state.policy.confidence, SelfNormalized):
        return _about_scores(state)
    if state.policy.forgetting is not None:
        return "With forgetting nothing is guaranteed: observations have weights that the theory does not know."
    if algorithm.name == "linucb-ogd-cr" or is_one_pass(state):
        return "A streaming estimator has no finite-sample guarantee."
    if state.policy.is_staged:
        return "A measure that is learned in stages has no finite-sample guarantee."
    if algorithm.noise_scale is None:
        return "The data-driven noise scale is an exploration rule, not a bound."
    if algorithm.parameter_bound is None:
        return "Without parameter_bound the bias term rests on the estimate's own norm."
    if state.policy.is_centred:
        return "parameter_bound bounds the weights relative to a centre that is itself learned."
    if algorithm.name != "linucb" and not algorithm.projection:
        return "Without projection the estimate may leave the ball that the guarantee is about."
    if state.policy.scaling is not None:
        return "Centers and scales that are learned from the data are no part of the theory."
    if state.policy.features_above_bound:
        return "Some features were above feature_bound."
    convergence = state.policy.estimator.convergence
    if convergence is not None and not convergence.certified:
        return "The last fit did not meet the certificate of optimality."
    return _why_conditioning_is_not_guaranteed(state)


def _why_conditioning_is_not_guaranteed(state: CampaignState) -> str | None:
    algorithm, loss = state.configuration.algorithm, state.policy.loss
    conditioning = algorithm.conditioning or "theory"
    if algorithm.name == "linucb":
        return None
    if conditioning not in {"theory", "self-concordant"}:
        return "A numeric conditioning is a tuning parameter, not a bound."
    if conditioning == "self-concordant":
        if algorithm.bonus.startswith("global"):
            return "Self-concordant conditioning relates local metrics only."
        return None
    reach = algorithm.feature_bound * (algorithm.parameter_bound or 0.0)
    lowest, highest = loss.prediction_bounds
    if -reach < lowest or reach > highest:
        return "The loss's curvature bounds hold for predictions within the reward bounds only; the ball exceeds them."
    return None


def _inside_ball(state: CampaignState) -> NDArray[np.bool_] | None:
    """(B,) whether each block's theta has a norm below parameter_bound; None without one.

    Where the ball binds, the norm is the bound to 1e-12 (`fitted_multiplier`).
    """
    bound = state.configuration.algorithm.parameter_bound
    if bound is None:
        return None
    norms = np.linalg.norm(state.policy.estimator.theta, axis=1)
    return np.asarray(norms < (1.0 - 1e-12) * bound)


def _regret_bound(state: CampaignState) -> float | None:
    """Theorem 1's bound for the observations so far, of a campaign that is guaranteed; None before the first arm."""
    policy, algorithm = state.policy, state.configuration.algorithm
    confidence, loss = policy.confidence, policy.loss
    settings = confidence.settings
    curvature_min, curvature_max = loss.curvature_min, loss.curvature_max
    blocks, dimension = policy.estimator.theta.shape
    if not blocks or not isinstance(
        confidence, Confidence
    ):  # of the bonuses with limits nothing is proved about regret
        return None
    if settings.conditioning == "self-concordant":
        # This conditioning holds beyond the reward bounds, where the loss's own m does not.
        curvature_min = loss.curvature_within(settings.feature_bound * confidence.parameter_bound)[0]
    constants = Constants(
        dimension=dimension,
        blocks=blocks,
        curvature_min=curvature_min,
        curvature_max=curvature_max,
        conditioning=confidence.conditioning,
        regularization=settings.regularization,
        delta=settings.delta,
        noise_scale=confidence.noise_scale,
        parameter_bound=confidence.parameter_bound,
        feature_bound=settings.feature_bound,
        radius=settings.radius,
        arms_came_later=not state.shared and blocks != len(state.creation.arms),
    )
    observations = policy.estimator.observations
    return regret_bound(
        constants,
        observations,
        "local-tight" if settings.linear else settings.bonus,
        exploration=policy.exploration,
        warmup_rounds=min(algorithm.warmup * len(state.arms), observations),
    )


def _convergence(state: CampaignState) -> dict[str, int | bool | None]:
    convergence = state.policy.estimator.convergence
    names = ("certified", "fits", "uncertified_fits", "bound_active_fits")
    return dict.fromkeys(names) if convergence is None else dict(zip(names, convergence, strict=True))


def _warnings(state: CampaignState) -> list[str]:
    found = [_about_feature_bound(state), _about_level(state), _about_small_features(state), _about_scores(state)]
    return [*state.policy.estimator.warnings(), *(warning for warning in found if warning is not None)]


def _about_feature_bound(state: CampaignState) -> str | None:
    """Return a warning where features exceed feature_bound: any, if something rests on it; else most of them, by far.

    The constant that the service appends is in the norm that the theory bounds, and features of unit spread, as the
    documentation recommends them, have a norm of sqrt(d): neither is a reason to warn.
    """
    policy = state.policy
    above, observations = policy.features_above_bound, policy.estimator.observations
    bound = policy.confidence.settings.feature_bound
    if not above:
        return None
    if 2 * above > observations:
        squares = float(np.trace(policy.estimator.gram, axis1=1, axis2=2).sum()) / observations
        size = math.sqrt(max(squares - policy.feature_map.intercept, 0.0))
        if size > SIZE_MAX * math.sqrt(policy.feature_map.dimension) * bound:
            return (
                f"{above} of {observations} observations had features above feature_bound, {bound:.3g}: their norm is "
                f"typically {size:.3g}. Give the features a center and a scale, or set feature_bound to their largest "
                "norm, in a new campaign"
            )
    uses_bound = state.configuration.algorithm.noise_scale is not None or policy.estimator.warns_of_large_features
    return f"{above} observations had features above feature_bound" if uses_bound else None


def _about_scores(state: CampaignState) -> str | None:
    """Return which arms' rewards contradict the condition of the bonus self-normalized; None where none do."""
    confidence = state.policy.confidence
    if not isinstance(confidence, SelfNormalized):
        return None
    places = set(confidence.contradicted(state.policy.estimator))
    arms = [arm.arm_id for arm in state.arms if arm.position in places]
    if not arms:
        return None
    named = ", ".join(arms[:NAMED_MAX])
    more = f" and {len(arms) - NAMED_MAX} more" if len(arms) > NAMED_MAX else ""
    return (
        f"The rewards of {named}{more} contradict the condition of the bonus self-normalized: they have more of large "
        "gains than its proof allows. Their upper limits may be too low"
    )


def _about_level(state: CampaignState) -> str | None:
    """Return a warning where rewards lie far from 0 and cannot be centred, for want of an intercept."""
    centre = state.policy.centre
    if centre is None or state.policy.is_centred or state.policy.estimator.observations < LEVEL_OBSERVATIONS:
        return None
    if abs(centre.value) <= LEVEL_SPREADS_MAX * centre.spread:
        return None
    return (
        f"rewards lie around {centre.value:.3g} with a spread of {centre.spread:.3g}, and without an intercept they "
        "cannot be centred: estimates are pulled towards 0, and exploration grows with the distance from 0. Set "
        "model.intercept to true in a new campaign, or subtract a typical reward before you send them"
    )


def _about_small_features(state: CampaignState) -> str | None:
    """Return a warning where the ridge still outweighs the observations of some features."""
    policy, estimator = state.policy, state.policy.estimator
    if policy.feature_map.intercept:
        counts = estimator.gram[:, -1, -1].tolist()
    else:
        counts = [estimator.observations] if state.shared else policy.floor_counts.counts
    blocks = [block for block, count in enumerate(counts) if count >= RIDGE_OBSERVATIONS]
    if not blocks:
        return None
    curvatures = np.diagonal(estimator.weighted_gram, axis1=1, axis2=2)[blocks].mean(axis=0)
    ridge = estimator.regularization
    shares = ridge / (ridge + curvatures)
    small = np.flatnonzero((shares > RIDGE_SHARE_MAX) & (curvatures > 0.0)).tolist()
    if not small:
        return None
    names = feature_names(state) or ["the arms' values"]
    named = ", ".join(names[place] for place in small[:NAMED_MAX])
    more = f" and {len(small) - NAMED_MAX} more" if len(small) > NAMED_MAX else ""
    return (
        f"the regularization, {ridge:.3g}, outweighs all observations of {named}{more}: values so small, or so seldom "
        "other than 0, are hardly learned. Give the features a scale, or choose a smaller regularization, in a new "
        "campaign"
    )
