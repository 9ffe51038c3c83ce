"""What a baseline costs, and what it saves.

Five arms with Gaussian rewards, 3,000 decisions by the default rule with rewards at once; the baseline arm is the
second best. For each tolerance: the regret; the share of the runs that were ever worth less, by the true values, than
(1 - tolerance) times the baseline alone, from the tenth decision on; and the most that a run was behind the
baseline alone at any time, in decisions of the baseline. Prints the medians over the seeds, as a table.
"""

import argparse
import sys
from typing import NamedTuple

import numpy as np

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.baseline import Baseline, additions
from prudent.core.exploration import Standing, choose, propensities

MEANS, BASELINE, DECISIONS, SETTLED = (0.4, 0.6, 0.8, 1.0, 1.2), 3, 3_000, 10
SPREADS, TOLERANCES = (0.3, 1.0), (None, 0.02, 0.05, 0.1, 0.2)
CONTEXT = np.zeros(0)
BLOCKS = np.arange(len(MEANS))


class Run(NamedTuple):
    """regret, behind: in reward units; is_below: whether it was ever worth less than the tolerance allows."""

    regret: float
    behind: float
    is_below: bool


def play(tolerance: float | None, spread: float, seed: int) -> Run:
    """One campaign."""
    configuration = resolve(
        CampaignConfiguration.model_validate(
            {
                "campaign_id": "baseline",
                "risk": {"measure": "mean"},
                "model": {"type": "multi-armed"},
                "arms": [{"arm_id": f"arm-{place}"} for place in range(len(MEANS))],
                "algorithm": {"name": "linucb"},
                "seed": seed,
            }
        )
    )
    policy, rule = build_policy(configuration, configuration, arms=len(MEANS)), exploration_rule(configuration)
    noise = np.random.default_rng(seed).normal(0.0, spread, DECISIONS)
    plays, allowance = [0] * len(MEANS), 0.0
    values = []
    for decision in range(DECISIONS):
        standing = Standing(policy.estimator.observations, plays, policy.floor_counts.weighed)
        scores = policy.score(CONTEXT, BLOCKS)
        choice = choose(scores, rule, standing, explore=True, seed=(seed, str(decision)))
        if tolerance is not None:
            baseline = Baseline(BASELINE, additions(scores, BASELINE, tolerance, standing.learned), allowance)
            chances = baseline.restrict(propensities(scores, rule, standing, explore=True))
            choice = baseline.settle(choice, chances)
            allowance += baseline.additions[choice.position]
        arm = choice.position
        plays[arm] += 1
        values.append(MEANS[arm])
        policy.observe(arm, CONTEXT, MEANS[arm] + float(noise[decision]), arm)
    alone = MEANS[BASELINE] * np.arange(1, DECISIONS + 1)
    ahead = np.cumsum(values) - alone
    is_below = bool((ahead < -(0.1 if tolerance is None else tolerance) * alone - 1e-9)[SETTLED:].any())
    return Run(max(MEANS) * DECISIONS - sum(values), -float(ahead.min()), is_below)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--spreads", type=float, nargs="+", default=SPREADS, help="of the rewards")
    options = parser.parse_args()
    seeds: int = options.seeds
    sys.stdout.write("| tolerance | spread | regret | behind | ever below |\n|---|---|---|---|---|\n")
    for spread in options.spreads:
        for tolerance in TOLERANCES:
            runs = [play(tolerance, spread, seed) for seed in range(seeds)]
            regret, behind = (np.median([run[place] for run in runs]) for place in (0, 1))
            below = np.mean([run.is_below for run in runs])
            sys.stdout.write(f"| {tolerance or 'none'} | {spread} | {regret:.0f} | {behind:.1f} | {below:.0%} |\n")


if __name__ == "__main__":
    main()
