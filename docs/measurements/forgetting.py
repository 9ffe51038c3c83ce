"""What forgetting costs where nothing changes, and gains where the best and the worst arm change places.

Four arms with Gaussian rewards, means .2, .4, .6 and .8 and spread .5, 6,000 decisions by the default rule with rewards
at once; in the other world the best and the worst arm change places after 3,000. Prints the medians over the seeds of
the regret, as a table.
"""

import argparse
import sys

import numpy as np

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose

MEANS, SPREAD, DECISIONS = (0.2, 0.4, 0.6, 0.8), 0.5, 6_000
HALF_LIVES = (0, 500, 1_000, 2_000, 5_000)
CONTEXT = np.zeros(0)
BLOCKS = np.arange(len(MEANS))


def regret(half_life: int, seed: int, *, swaps: bool) -> float:
    """The regret of one campaign in the reward's unit."""
    forgetting = {"half_life": half_life} if half_life else None
    configuration = resolve(
        CampaignConfiguration.model_validate(
            {
                "campaign_id": "forgetting",
                "risk": {"measure": "mean"},
                "model": {"type": "multi-armed"},
                "arms": [{"arm_id": f"arm-{place}"} for place in range(len(MEANS))],
                "algorithm": {"name": "linucb", "forgetting": forgetting},
                "seed": seed,
            }
        )
    )
    policy, rule = build_policy(configuration, configuration, arms=len(MEANS)), exploration_rule(configuration)
    noise = np.random.default_rng(seed).normal(0.0, SPREAD, DECISIONS)
    plays, lost = [0] * len(MEANS), 0.0
    for decision in range(DECISIONS):
        means = MEANS[::-1] if swaps and decision >= DECISIONS // 2 else MEANS
        standing = Standing(policy.estimator.observations, plays, policy.floor_counts.weighed)
        scores = policy.score(CONTEXT, BLOCKS)
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(decision))).position
        plays[arm] += 1
        lost += max(means) - means[arm]
        policy.observe(arm, CONTEXT, means[arm] + float(noise[decision]), arm)
    return lost


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    seeds = parser.parse_args().seeds
    sys.stdout.write("| half-life | nothing changes | best and worst change places |\n|---|---|---|\n")
    for half_life in HALF_LIVES:
        found = [np.median([regret(half_life, seed, swaps=swaps) for seed in range(seeds)]) for swaps in (False, True)]
        sys.stdout.write(f"| {half_life or 'none'} | {found[0]:.0f} | {found[1]:.0f} |\n")


if __name__ == "__main__":
    main()
