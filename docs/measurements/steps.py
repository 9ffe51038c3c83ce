"""How far gradient descent's estimate is from the entropic risk, by step schedule: `python -m docs.measurements.steps`.

Two arms (five in the last case) are played in turn for 1,500 rounds, episodes of 5 and no ball. Printed is |gamma|
times the largest error of an arm's risk, median and 95% of 20 runs: an error of 1 is as large as the risk measure's
own scale. "default": the schedule and step that `resolve` fills in. "one pass" is there to compare.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from prudent.campaigns import CampaignConfiguration, build_policy, resolve

RUNS, ROUNDS = 20, 1_500
Law = Callable[[np.random.Generator], float]


def uniform(low: float, high: float) -> Law:
    """Uniform rewards."""
    return lambda rng: rng.uniform(low, high)


def coin(low: float, high: float, probability: float) -> Law:
    """Two rewards, the high one with this probability."""
    return lambda rng: high if rng.random() < probability else low


def amount(rng: np.random.Generator) -> float:
    """An exponential amount of mean 200, cut at 1000."""
    return min(rng.exponential(200.0), 1000.0)


CASES: dict[str, tuple[float, float, float, list[Law]]] = {
    "experiment 3, gamma 1, rewards of 2": (1.0, -2.0, 2.0, [coin(-1.0, 1.0, 0.5), coin(-2.0, 2.0, 0.25)]),
    "conversions, gamma -1, rewards 0 or 1": (-1.0, 0.0, 1.0, [coin(0.0, 1.0, 0.5), coin(0.0, 1.0, 0.4)]),
    "amounts, gamma -0.01, rewards to 1000": (-0.01, 0.0, 1000.0, [amount, uniform(50.0, 150.0)]),
    "five arms, gamma -1, rewards of 2": (-1.0, -2.0, 2.0, [uniform(-1.0 + 0.2 * k, 1.0) for k in range(5)]),
}
LEARNERS: dict[str, dict[str, object]] = {
    "theory": {"name": "linucb-ogd-cr", "step_schedule": "theory"},
    "default": {"name": "linucb-ogd-cr"},
    "one pass": {"name": "linucb-onepass-cr"},
}


def risk(law: Law, gamma: float) -> float:
    """The entropic risk, from 20,000 draws."""
    rng = np.random.default_rng(1)
    return math.log(float(np.mean([math.exp(gamma * law(rng)) for _ in range(20_000)]))) / gamma


def errors(gamma: float, low: float, high: float, laws: list[Law], algorithm: dict[str, object]) -> list[float]:
    """|gamma| times the largest error after the last round, run by run."""
    configuration = resolve(
        CampaignConfiguration.model_validate(
            {
                "campaign_id": "steps",
                "risk": {"measure": "entropic", "gamma": gamma},
                "model": {"type": "multi-armed"},
                "arms": [{"arm_id": str(k)} for k in range(len(laws))],
                "algorithm": algorithm,
                "reward": {"minimum": low, "maximum": high},
            }
        )
    )
    truth = np.array([risk(law, gamma) for law in laws])
    found = []
    for run in range(RUNS):
        rng = np.random.default_rng(run)
        policy = build_policy(configuration, configuration, arms=len(laws))
        for t in range(ROUNDS):
            arm = t % len(laws)
            policy.observe(arm, np.zeros(0), laws[arm](rng))
        policy.refresh()
        found.append(abs(gamma) * float(np.abs(policy.estimator.theta[:, 0] - truth).max()))
    return found


def main() -> None:
    """Measure and print."""
    with threadpool_limits(1):
        for case, setting in CASES.items():
            for learner, algorithm in LEARNERS.items():
                median, high = np.percentile(errors(*setting, algorithm), (50, 95))
                sys.stdout.write(f"{case:40s} {learner:10s} {median:.3f} [95%: {high:.3f}]\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
