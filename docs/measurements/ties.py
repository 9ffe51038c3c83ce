"""How two rules for ties play when rewards come in a tiny unit: `python -m docs.measurements.ties`.

Three arms with Gaussian rewards (means 0.4, 0.5 and 0.6, standard deviation 0.1), the 0.1-expectile, the
data-driven dial, 1,000 rounds with a fixed seed. The same rewards are given once as they are and once times
1e-10; what changes is a unit, so the arms played should not. See docs/decisions/0006-relative-ties.md.
"""

import sys
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import ExactMinimizer
from prudent.core.exploration import ExplorationRule, Scores, Standing, choose
from prudent.core.measures import Expectile, ExpectileLoss
from prudent.core.policy import Policy

MEANS = np.array([0.4, 0.5, 0.6])
SPREAD = 0.1
ROUNDS = 1_000
WARMUP = 2
Floats = NDArray[np.float64]


def relative(scores: Scores, plays: list[int], name: str) -> tuple[int, float]:
    """The service's rule: within 1e-9 of the largest |estimate| + bonus."""
    rule = ExplorationRule(warmup=WARMUP)
    choice = choose(scores, rule, Standing(plays=plays), explore=True, seed=(0, name))
    return choice.position, choice.propensity


def absolute(scores: Scores, plays: list[int], name: str) -> tuple[int, float]:
    """The other rule: within 1e-9 max(1, |best|) of the best index."""
    indexes = scores.estimates + scores.widths
    best = float(indexes.max())
    # Indexes of 1 and 0 are tied for nobody: only the draw among the tied, and the warm-up, are the service's.
    marked = (indexes >= best - 1e-9 * max(1.0, abs(best))).astype(np.float64)
    return relative(Scores(marked, np.zeros_like(marked), np.zeros_like(marked)), plays, name)


def play(rule: Callable[[Scores, list[int], str], tuple[int, float]], unit: float) -> tuple[Floats, float]:
    """Share of each arm, and the share of rounds after the warm-up that ended in a tie."""
    rewards = (MEANS + SPREAD * np.random.default_rng(1).standard_normal((ROUNDS, len(MEANS)))) * unit
    arms = len(MEANS)
    policy = Policy(
        measure=Expectile(0.1),
        estimator=ExactMinimizer(ExpectileLoss(0.1), arms, 1, 1.0, None),
        feature_map=FeatureMap(np.zeros(0), np.ones(0), intercept=True),
        confidence=ConfidenceSettings(regularization=1.0),
        exploration=1.0,
        blocks_at_creation=arms,
        arms=arms,
        centred=False,
    )
    plays, ties = [0] * arms, 0
    for number in range(ROUNDS):
        scores = policy.score(np.zeros(0), np.arange(arms))
        position, propensity = rule(scores, plays, f"round-{number}")
        ties += min(plays) >= WARMUP and propensity < 1
        policy.observe(position, np.zeros(0), float(rewards[number, position]))
        plays[position] += 1
    return np.array(plays) / ROUNDS, ties / (ROUNDS - WARMUP * arms)


def main() -> None:
    """Print a table."""
    sys.stdout.write(f"{'rule':<10}{'unit':>8}{'ties':>8}   share of each arm, best last\n")
    for rule in (relative, absolute):
        for unit in (1.0, 1e-10):
            shares, ties = play(rule, unit)
            shown = "  ".join(f"{100 * share:5.1f}%" for share in shares)
            sys.stdout.write(f"{rule.__name__:<10}{unit:>8.0e}{100 * ties:>7.1f}%   {shown}\n")


if __name__ == "__main__":
    main()
