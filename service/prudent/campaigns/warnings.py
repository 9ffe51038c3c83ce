"""Settings that are valid but deserve a warning in the reply to a creation."""

import numpy as np

from prudent.campaigns.configuration import CampaignConfiguration
from prudent.campaigns.construction import feature_map_of
from prudent.campaigns.resolution import arm_row
from prudent.campaigns.rows import RowReader
from prudent.campaigns.vocabulary import Draft

OBSERVATIONS = 1_000_000
"""The number of observations that a campaign's regularization should serve."""

CONDITION_MAX = 1e8
"""Up to this condition number of a block's matrix, estimates keep eight correct digits unless rewards cancel."""


def configuration_warnings(configuration: CampaignConfiguration) -> list[str]:
    """Return sentences about a resolved configuration; none for most."""
    cautions = _about_ridge(configuration), _about_budget(configuration)
    return [one for one in cautions if one is not None]


def _about_budget(configuration: CampaignConfiguration) -> str | None:
    """Return a warning where a holdout, which counts as exploration, leaves a budget nothing for the policy."""
    budget, holdout = configuration.algorithm.budget, configuration.holdout
    if budget is None or holdout is None or holdout.share < budget:
        return None
    return (
        f"algorithm.budget is {budget:g} and holdout.share {holdout.share:g}: what is held out counts as "
        "exploration, so that the policy itself explores next to nothing. A budget should be larger than the share."
    )


def _about_ridge(configuration: CampaignConfiguration) -> str | None:
    """Return a warning where the regularization is too small for the features' scale.

    The condition number of H + alpha I is at most 1 + n L^2 c / alpha, c the curvature to expect of an
    observation. L is feature_bound, or the largest norm of the features registered with the arms where that is larger.
    A warning is due where a million observations exceed `CONDITION_MAX`.
    """
    alpha = configuration.algorithm.regularization
    if alpha is None:  # with the bonus self-scaled, whose ridge is not meant to hold anything
        return None
    size = max(configuration.algorithm.feature_bound, _largest_registered(configuration))
    curvature = configuration.measure().loss.typical_curvature
    load = size * size * curvature / alpha
    # The advice is rounded to three digits, and following it must end the warning.
    if OBSERVATIONS * load <= 1.01 * CONDITION_MAX:
        return None
    count, wanted = CONDITION_MAX / load, OBSERVATIONS * load * alpha / CONDITION_MAX
    return (
        f"algorithm.regularization is {alpha:.3g}, small for features of norm up to {size:.3g}: from about {count:.3g} "
        "observations on, estimates may have fewer than eight correct digits (the rule: observations x norm^2 x "
        f"curvature / regularization <= 1e8, here with curvature {curvature:.3g}). Scale the features, or set "
        f"regularization to at least {wanted:.3g}, which serves a million observations."
    )


def _largest_registered(configuration: CampaignConfiguration) -> float:
    """The largest norm of the features registered with arms, as the model sees them; 0 without any."""
    reader = RowReader(configuration.model)
    draft = Draft(reader.vocabulary())
    given = [arm_row(configuration, arm.features, "arms", reader, draft) for arm in configuration.arms]
    rows = [row for row in given if row is not None]
    if not rows:
        return 0.0
    encode = feature_map_of(configuration)
    # of a request's own features nothing is known here: they count as missing
    whole = np.full((len(rows), encode.dimension), np.nan)
    whole[:, : len(rows[0])] = rows
    return float(np.linalg.norm(encode(whole), axis=1).max())
