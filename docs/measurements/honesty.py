"""How often the words hold: `python -m docs.measurements.honesty`.

1. Evidence: campaigns without features are played in process with the randomized rule, and looked at every 50 rounds.
   How often does the report call the lead of a wrong arm evidence, and how often that of the right one? Beside it, the
   same with the intervals alone.
2. Intervals of explanations: after 400 rounds of five normal arms, at three offsets, how often does the interval of an
   arm hold its risk, and how often is there one?
"""

import argparse
from array import array
from collections import Counter
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent.core.measures import Expectile
from prudent.core.policy import Policy
from prudent.reporting.collection import ArmTally
from prudent.reporting.report import Progress, describe_arm, describe_learning

Floats = NDArray[np.float64]
LOOK = 50
GAUSSIAN = ((1.0, 0.5), (1.6, 1.0), (2.2, 2.0), (3.2, 3.0), (1.2, 1.0))
PROGRESS = Progress(paused=False, observations=0, recent_decisions=0, exploring_share=None)


def catastrophes(random: np.random.Generator, count: int) -> Floats:
    """Rewards of four arms, (count, 4), of which the two best on average lose 50 now and then."""
    first, third = random.normal(2, 1, count), random.normal(1.5, 1, count)
    first[random.random(count) < 0.01] = -50.0
    third[random.random(count) < 0.003] = -50.0
    return np.stack([first, random.normal(1, 1, count), third, random.normal(0.6, 0.5, count)], axis=1)


def normals(random: np.random.Generator, count: int) -> Floats:
    """Rewards of five normal arms, (count, 5)."""
    return np.stack([random.normal(mean, spread, count) for mean, spread in GAUSSIAN], axis=1)


def play(rewards: Floats, level: float, seed: int) -> tuple[Policy, NDArray[np.int64]]:
    """Play (T, K) rewards; the policy at the end, and the arms chosen, (T,)."""
    rounds, arms = rewards.shape
    body = {
        "campaign_id": "honesty",
        "risk": {"measure": "expectile", "level": level},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": str(arm)} for arm in range(arms)],
        "algorithm": {"exploration_rule": "randomized"},
    }
    configuration = resolve(CampaignConfiguration.model_validate(body))
    policy, rule = build_policy(configuration, configuration, arms=arms), exploration_rule(configuration)
    blocks, nothing, plays, chosen = np.arange(arms), np.zeros(0), [0] * arms, np.zeros(rounds, dtype=np.int64)
    for number in range(rounds):
        standing = Standing(number, plays, policy.floor_counts.weighed)
        scores = policy.score(nothing, blocks)
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(number))).position
        policy.observe(arm, nothing, float(rewards[number, arm]), arm)
        plays[arm] += 1
        chosen[number] = arm
    return policy, chosen


def evidence(
    name: str, draw: Callable[[np.random.Generator, int], Floats], level: float, rounds: int, runs: int
) -> None:
    """Print how often the report speaks of evidence, of a right and of a wrong leader."""
    measure = Expectile(level)
    sample = draw(np.random.default_rng(0), 2_000_000)
    best = str(np.argmax([measure.risk(column) for column in sample.T]))
    counted: Counter[tuple[str, bool]] = Counter()
    for seed in range(runs):
        rewards = draw(np.random.default_rng(seed), rounds)
        _, chosen = play(rewards, level, seed)
        received = rewards[np.arange(rounds), chosen]
        for end in range(LOOK, rounds + 1, LOOK):
            by_arm = {str(arm): received[:end][chosen[:end] == arm] for arm in range(rewards.shape[1])}
            arms = [
                describe_arm(arm, "active", ArmTally(rewards=array("d", values.tolist())), end, measure)
                for arm, values in by_arm.items()
            ]
            found = describe_learning([arm for arm in arms if arm.rewards.n], by_arm, measure, PROGRESS, None)
            is_right = found.leading_arm_id == best
            ends = {arm.arm_id: arm.rewards.interval for arm in arms}
            first, second = (ends.get(arm or "") for arm in (found.leading_arm_id, found.runner_up_arm_id))
            counted["looks", is_right] += 1
            counted["evidence", is_right] += found.separated is True
            counted["intervals alone", is_right] += first is not None and second is not None and first[0] > second[1]
    for is_right, words in ((False, "wrong"), (True, "right")):
        looks = counted["looks", is_right] or 1
        shares = ", ".join(f"{kind} {counted[kind, is_right] / looks:.3f}" for kind in ("evidence", "intervals alone"))
        print(f"{name}: {looks} looks at a {words} leader: {shares}")  # noqa: T201


def intervals(offset: float, runs: int) -> None:
    """Print how often an interval after 400 rounds holds the risk."""
    level, held, shown = 0.1, 0, 0
    unit = Expectile(level).risk(np.random.default_rng(1).standard_normal(4_000_000))
    risks = [offset + mean + spread * unit for mean, spread in GAUSSIAN]
    for seed in range(runs):
        policy, _ = play(offset + normals(np.random.default_rng(seed), 400), level, seed)
        for risk, (low, high) in zip(risks, policy.intervals(np.zeros(0), np.arange(5)).ends.tolist(), strict=True):
            shown += low <= high
            held += low <= risk <= high
    shares = f"{held / shown:.3f} of them hold the risk"
    print(f"offset {offset:g}: {shown / (5 * runs):.2f} of the arms have an interval, {shares}")  # noqa: T201


def main() -> None:
    """Print all of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100)
    runs = parser.parse_args().runs
    evidence("catastrophes, level 0.2, 3,000 rounds", catastrophes, 0.2, 3_000, runs)
    evidence("normal arms, level 0.1, 2,000 rounds", normals, 0.1, 2_000, runs)
    for offset in (0.0, 20.0, 1_000.0):
        intervals(offset, runs)


if __name__ == "__main__":
    main()
