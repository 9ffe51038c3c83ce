"""Every number that docs/mathematics.md quotes: `python -m docs.measurements.mathematics`.

A few seconds. The coverage and regret figures come from `make coverage` instead.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import ndtr, roots_hermitenorm

from prudent.core.measures import Entropic, Expectile, ExpectileLoss, Loss
from prudent.core.theory import (
    Constants,
    bonus_multiplier,
    confidence_radius,
    regret_bound,
)
from tests.core.distributions import TwoPieceNormal, gaussian_expectile, risk_of_density
from tests.core.theorems import episode_lengths, streaming_regret_bound

Floats = np.ndarray[Any, np.dtype[np.float64]]
LEVEL = 0.1
SEEKING = Entropic(1.0, -2.0, 2.0)
"""Experiment 3's."""


def say(name: str, *values: object) -> None:
    """One line."""
    shown = "  ".join(f"{value:.5g}" if isinstance(value, float) else str(value) for value in values)
    sys.stdout.write(f"{name:<68} {shown}\n")


def few_nodes(nodes: int) -> float:
    """The standard normal's expectile, from a quadrature that does not know of the kink."""
    points, weights = roots_hermitenorm(nodes)

    def risk(xi: float) -> float:
        losses = np.where(points >= xi, LEVEL, 1.0 - LEVEL) * (points - xi) ** 2
        return float(losses @ weights)

    return float(minimize_scalar(risk).x)


def printed_fixed_point() -> float:
    """The root that the paper's numerator, 2 p phi(e) - 1, would give, by bisection on [-20, 0]."""
    low, high = -20.0, 0.0
    for _ in range(200):
        e = (low + high) / 2
        phi, above = math.exp(-e * e / 2) / math.sqrt(2 * math.pi), math.erf(e / math.sqrt(2)) / 2 + 0.5
        excess = e * (LEVEL + (1 - 2 * LEVEL) * above) - (2 * LEVEL * phi - 1)
        low, high = (e, high) if excess < 0 else (low, e)
    return low


def least_noise_scales(loss: Loss, outcomes: np.ndarray, weights: np.ndarray, risk: float) -> tuple[float, float]:
    """Sd(d1)/sqrt(m), and the least that the paper's own condition allows, sqrt(Var d1 / E d2)."""
    predictions = np.full_like(outcomes, risk)
    variance = float(weights @ loss.d1(outcomes, predictions) ** 2)
    return math.sqrt(variance / loss.curvature_min), math.sqrt(
        variance / float(weights @ loss.d2(outcomes, predictions))
    )


def mass(density: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Weights of a fine grid that sum to 1."""
    return np.asarray(density / density.sum() + 0.0 * grid)


def laws() -> None:
    """Items 1 to 3, and how small the paper's dials are."""
    say("1  expectile .1 of N(0, 1)", gaussian_expectile(LEVEL))
    say("1  means of experiment 1", -0.5 * gaussian_expectile(LEVEL), -3 * gaussian_expectile(LEVEL))
    say("1  with 25 Gauss-Hermite nodes: expectile, means", *(scale * -few_nodes(25) for scale in (-1.0, 0.5, 3.0)))
    say("1  root of the printed fixed point", printed_fixed_point())
    say("1  their gap in 0.1-expectile, arm 2 if its mean is 2.62", 2.62 + 3 * gaussian_expectile(LEVEL))
    for scale in (0.5, 1.5):
        law = TwoPieceNormal(LEVEL, scale)
        checked = risk_of_density(ExpectileLoss(LEVEL), law.density, -30 * scale, 50 * scale, [0.0])
        say(f"2  noise of scale {scale}: mean, sd, expectile", law.mean, law.std, round(checked, 9))
    say("3  norm of (0.9, 0, 1) and of (0.9, 0, 0.1)", math.hypot(0.9, 1.0), math.hypot(0.9, 0.1))
    grid = np.linspace(-60.0, 60.0, 2_000_001)
    normal = mass(np.exp(-((grid / 3.0) ** 2) / 2), grid)
    law = TwoPieceNormal(LEVEL, 1.5)
    pieces = mass(np.exp(-((grid / np.where(grid < 0, law.spread_below, law.spread_above)) ** 2) / 2), grid)
    loss = ExpectileLoss(LEVEL)
    coin = np.array([2.0, -2.0]), np.array([0.25, 0.75])
    entropic = SEEKING.loss
    say(
        "dials: experiment 1, sd(d1)/sqrt(m) and sqrt(Var d1/E d2)",
        *least_noise_scales(loss, grid, normal, 3 * gaussian_expectile(LEVEL)),
    )
    say("dials: experiment 2", *least_noise_scales(loss, grid, pieces, 0.0))
    wins = [
        least_noise_scales(entropic, values, weights, SEEKING.risk(values, weights))
        for values, weights in (coin, (np.array([1.0, -1.0]), np.array([0.5, 0.5])))
    ]
    say("dials: experiment 3, arms 2 and 1", *wins[0], *wins[1])
    unit = entropic.curvature_min / abs(entropic.gamma) ** 2
    say("dials: experiment 3, m, and sd(d1) of arm 2", entropic.curvature_min, wins[0][0] * math.sqrt(unit))


def conditionings() -> None:
    """Items 6 and 8."""
    say(
        "6  experiment 3: kappa, gap of the risks",
        SEEKING.loss.conditioning,
        SEEKING.risk([2, -2], [0.25, 0.75]) - SEEKING.risk([1, -1]),
    )
    say(
        "6  half of 1500 rounds at that gap",
        750 * (SEEKING.risk([2, -2], [0.25, 0.75]) - SEEKING.risk([1, -1])),
    )
    theory = math.exp(8.0)
    least = 2 * math.sqrt(theory * 0.1) / math.sqrt(0.1 * theory + 750 * math.exp(2.0))
    say("6  the bias term of the bonus alone, after 750 plays with d2 = e^2", least)
    say("8  kappa for rewards in [-1, 1] and exponents D and 2 D", math.exp(4.0), math.exp(8.0))
    z = 2.0
    say("self-concordant, gamma = L = S = 1: 1 + z and z/(1 - exp(-z))", 1 + z, z / (1 - math.exp(-z)))


def episodes() -> None:
    """Item 7."""
    for d in (2, 3, 10):
        found = episode_lengths(1 / d, 1.0, 0.1, 0.05)
        say(
            f"7  d = {d}: theorem, fixed, lemma, public code",
            found.theorem,
            found.fixed_length,
            found.lemma_rederived,
            found.lemma_in_public_code,
        )
    low, high = 1.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        found = episode_lengths(1e-4, 1.0, middle * 1e4, 0.05)
        low, high = (middle, high) if found.lemma_rederived > found.theorem else (low, middle)
    say("7  rho eps_h/L^2 from which the lemma is shorter", low)


EXPERIMENT_2 = Constants(
    dimension=3,
    curvature_min=0.2,
    curvature_max=1.8,
    conditioning=9.0,
    regularization=0.1,
    delta=0.05,
    noise_scale=0.1,
    parameter_bound=1.0,
    feature_bound=1.0,
)
"""At the paper's dials."""


def bounds() -> None:
    """Radii and regret bounds."""
    arms = replace(EXPERIMENT_2, dimension=20, blocks=50, noise_scale=1.0)
    joint = replace(arms, radius="joint")
    say(
        "radius, K = 50, d = 20, 200 plays an arm: per arm, joint, in sigma",
        confidence_radius(arms, 200),
        confidence_radius(joint, 10_000),
    )
    for scale in (0.1, 2.12):
        known = replace(EXPERIMENT_2, noise_scale=scale)
        for rounds in (1_500, 100_000, 10_000_000):
            say(
                f"regret bound, experiment 2, sigma {scale}, T = {rounds}: local, tight, 2LST",
                *(regret_bound(known, rounds, bonus) or math.nan for bonus in ("local", "local-tight")),
                2 * rounds,
            )
    say("theorem 2 as printed: a, with rho = .3", 0.9 - 0.8 / 0.3 * math.log(40))
    say(
        "theorem 2, T = 10^7: as above, and for all rounds at once",
        *(
            streaming_regret_bound(EXPERIMENT_2, 10**7, "local-tight", 0.3, eigenvalue_delta=delta) or math.nan
            for delta in (0.05, 0.05e-7)
        ),
    )
    say(
        "multiplier at T = 1500, paper's and tight",
        bonus_multiplier(EXPERIMENT_2, 1500, "local"),
        bonus_multiplier(EXPERIMENT_2, 1500, "local-tight"),
    )


def limits() -> None:
    """Of the bonus self-normalized: the sketch's mixture, and how many rewards the kinds of bets need."""

    def mixture(u: float) -> float:
        eta, total, squares = 25.0 * (u - 1.0) ** 2, 20.0 * u, 20.0 * u * u
        spread = eta + squares
        return float(
            2.0 * math.sqrt(eta / spread) * math.exp(total**2 / (2.0 * spread)) * ndtr(total / math.sqrt(spread))
        )

    say("the sketch's mixture after eight rewards of 1 and twenty of 0, at .5 and 1", mixture(0.5), mixture(1.0))
    # the wide arm of experiment 1, scores at a candidate 1 above its expectile, on a fine grid
    noise = np.linspace(-9.0, 9.0, 200_001)
    masses = np.exp(-0.5 * noise * noise)
    masses /= masses.sum()
    scores = Expectile(0.1).loss.d1(3.0 * (noise - gaussian_expectile(0.1)), np.full(len(noise), 1.0))
    kinds: list[tuple[str, Callable[[Floats], Floats]]] = [
        ("exp", lambda x: x - 0.5 * x * x),
        ("tanh", lambda x: np.log1p(np.tanh(x))),
        ("clip", lambda x: np.log1p(np.clip(x, -1.0 + 1e-9, 1.0))),
    ]
    for name, log_factor in kinds:
        growth = max(float(masses @ log_factor(rate * scores)) for rate in np.geomspace(0.02, 1.0, 300).tolist())
        say(f"rewards until log 40 at the best lambda, {name}", math.log(40.0) / growth)


def main() -> None:
    """Print all of them."""
    limits()
    laws()
    conditionings()
    episodes()
    bounds()


if __name__ == "__main__":
    main()
