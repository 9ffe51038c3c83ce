"""Experiment 2 with either reading of its features' covariance: `python -m docs.measurements.covariance`.

The paper prints the covariance sigma_x I with sigma_x = 0.1. Read literally, each coordinate has the standard deviation
sqrt(0.1) = 0.316; we read sigma_x as the standard deviation, 0.1. In process, with the paper's dials: expectile, exact
estimator, one parameter for both arms.
"""

import argparse
import math
from dataclasses import replace

import numpy as np
import orjson

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent_simulator.environments import ContextualArms, FloatArray, Sampler
from prudent_simulator.settings import AlgorithmName, CampaignPlan, Layout, paper_settings

ROUNDS = 1_500


def regrets(environment: ContextualArms, runs: int) -> FloatArray:
    """(runs,) the regret of each run, in reward units."""
    plan = CampaignPlan(environment, Layout.SHARED, AlgorithmName.LINUCB_CR, paper_settings(environment, Layout.SHARED))
    found = np.zeros(runs)
    for seed in range(runs):
        body = orjson.dumps(plan.request(f"covariance-{seed}", seed))
        configuration = resolve(CampaignConfiguration.model_validate_json(body))
        policy, rule = build_policy(configuration, configuration, arms=2), exploration_rule(configuration)
        drawn = Sampler(environment, 0, [seed]).draw(ROUNDS)
        plays = [0, 0]
        for number, features in enumerate(drawn.features[0]):
            standing = Standing(number, plays, policy.floor_counts.weighed)
            arm = choose(policy.score(features), rule, standing, explore=True, seed=(seed, str(number))).position
            plays[arm] += 1
            risks = drawn.risks[0, number]
            found[seed] += float(risks.max() - risks[arm])
            policy.observe(0, features[arm], float(drawn.rewards[0, number, arm]), arm)
    return found


def main() -> None:
    """Print the regret of both readings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    runs = parser.parse_args().runs
    for spread in (0.1, math.sqrt(0.1)):
        found = regrets(replace(ContextualArms(), spread=spread), runs)
        low, middle, high = np.quantile(found, [0.05, 0.5, 0.95])
        print(f"standard deviation {spread:.3f}: median regret {middle:.0f}, 5% to 95%: {low:.0f} to {high:.0f}")  # noqa: T201


if __name__ == "__main__":
    main()
