"""Settings that are valid, and yet worth a warning in the reply to a creation."""

import numpy as np

from prudent.campaigns.configuration import CampaignConfiguration
from prudent.campaigns.construction import feature_map_of
from prudent.core.numerics.wide import WELL_POSED

OBSERVATIONS = 1_000_000
"""For how many observations theta is to be right to 1e-8."""


def configuration_warnings(configuration: CampaignConfiguration) -> list[str]:
    """Return sentences about a resolved configuration; none for most."""
    caution = _about_ridge(configuration)
    return [] if caution is None else [caution]


def _about_ridge(configuration: CampaignConfiguration) -> str | None:
    """Whether the ridge is too small for the features' scale.

    theta is right to 1e-8 while n L^2 c / alpha <= 1e8, c the curvature to expect of an observation. L is
    feature_bound, or the largest norm of the features registered with the arms where that is larger. Warns where a
    million observations exceed it.
    """
    alpha = configuration.algorithm.regularization or 1.0
    size = max(configuration.algorithm.feature_bound, _largest_registered(configuration))
    curvature = configuration.measure().loss.typical_curvature
    load = size * size * curvature / alpha
    # The advice has three digits: who follows it is not warned again.
    if OBSERVATIONS * load <= 1.01 * WELL_POSED:
        return None
    return (
        f"algorithm.regularization is {alpha:.3g}, small for features of norm up to {size:.3g}: from about "
        f"{WELL_POSED / load:.3g} observations on, estimates need not be right to 1e-8 (the rule: observations x "
        f"norm^2 x curvature / regularization <= 1e8, here of curvature {curvature:.3g}). Scale the features, or set "
        f"regularization to at least {OBSERVATIONS * load * alpha / WELL_POSED:.3g}, which serves a million "
        "observations."
    )


def _largest_registered(configuration: CampaignConfiguration) -> float:
    """The largest norm of the features registered with arms, as the model sees them; 0 without any."""
    rows = [arm.features for arm in configuration.arms if arm.features is not None]
    if not rows:
        return 0.0
    return float(np.linalg.norm(feature_map_of(configuration)(np.array(rows, dtype=np.float64)), axis=1).max())
