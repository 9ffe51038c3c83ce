"""What learned centers and scales cost in regret: `python -m docs.measurements.learned_scales`.

A disjoint model of three arms, ages from 18 to 80 and incomes from 20,000 to 100,000, 400 rounds with a reward each,
the default algorithm of a campaign. The reward of an arm is linear in the standardised features, with weights drawn
anew for each of 50 seeds, plus noise. Median regret with nothing scaled, with everything learned, and with the true
centers and scales. See docs/decisions/0030-named-features.md.
"""

import sys
from typing import Any

import numpy as np

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose

SEEDS, ROUNDS, ARMS, NOISE = 50, 400, 3, 0.3
LOW, HIGH = np.array([18.0, 20_000.0]), np.array([80.0, 100_000.0])
CENTER, SCALE = (LOW + HIGH) / 2, (HIGH - LOW) / np.sqrt(12.0)
NAMES = ("age", "income")
SCHEMAS: dict[str, list[dict[str, Any]]] = {
    "as sent": [{"name": name, "center": 0, "scale": 1} for name in NAMES],
    "learned": [{"name": name} for name in NAMES],
    "true": [
        {"name": name, "center": float(center), "scale": float(scale)}
        for name, center, scale in zip(NAMES, CENTER, SCALE, strict=True)
    ],
}


def regret(features: list[dict[str, Any]], seed: int) -> float:
    """The regret of one run."""
    request = {
        "campaign_id": "scales",
        "risk": {"measure": "mean"},
        "model": {"type": "disjoint", "features": features},
        "arms": [{"arm_id": str(arm)} for arm in range(ARMS)],
    }
    configuration = resolve(CampaignConfiguration.model_validate(request))
    policy, rule = build_policy(configuration, configuration, arms=ARMS), exploration_rule(configuration)
    random = np.random.default_rng(seed)
    weights = random.standard_normal((ARMS, len(LOW) + 1))
    contexts = random.uniform(LOW, HIGH, (ROUNDS, len(LOW)))
    noise = NOISE * random.standard_normal(ROUNDS)
    plays, lost = [0] * ARMS, 0.0
    for number, context in enumerate(contexts):
        values = weights @ np.append((context - CENTER) / SCALE, 1.0)
        standing = Standing(number, plays, list(policy.floor_counts.weighed))
        scores = policy.score(context, np.arange(ARMS))
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(number))).position
        policy.observe(arm, context, float(values[arm] + noise[number]), arm)
        plays[arm] += 1
        lost += float(values.max() - values[arm])
    return lost


def main() -> None:
    """Print a table."""
    medians = {}
    for name, features in SCHEMAS.items():
        medians[name] = float(np.median([regret(features, seed) for seed in range(SEEDS)]))
    for name, median in medians.items():
        sys.stdout.write(f"{name:<10}median regret {median:8.2f}   relative to true {median / medians['true']:5.2f}\n")


if __name__ == "__main__":
    main()
