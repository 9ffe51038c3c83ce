"""What the measures in two stages cost and hold: `python -m docs.measurements.measures regret|coverage`.

regret: campaigns of each measure in the worlds of `worst-tenth` and `couriers`, in this process, beside LinUCB on the
mean; a random seed is a world. coverage: how often the 95% intervals of reports hold the risk of the law that
independent rewards come from.
"""

import sys
import time
from typing import Any

import numpy as np

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent.core.measures import Cvar, MeanVariance, Measure, Quantile
from prudent_simulator.custom_environments.environment import OwnEnvironment
from prudent_simulator.custom_environments.loading import load_environment
from prudent_simulator.custom_environments.schema import EnvironmentFile
from prudent_simulator.risks import TwoPieceNormal

ROUNDS, SEEDS = 1_000, 50
RISKS: dict[str, tuple[str, dict[str, Any]]] = {
    "CVaR at 0.1": ("worst-tenth", {"measure": "cvar", "level": 0.1}),
    "CVaR at 0.25": ("worst-tenth", {"measure": "cvar", "level": 0.25}),
    "mean - 1.5 deviations": ("worst-tenth", {"measure": "mean-variance", "aversion": 1.5}),
    "quantile at 0.1": ("worst-tenth", {"measure": "quantile", "level": 0.1}),
    "couriers, CVaR at 0.1": ("couriers", {"measure": "cvar", "level": 0.1}),
}
RUNS, COUNTS = 1_000, (200, 2_000)


def environment_of(name: str, risk: dict[str, Any]) -> OwnEnvironment:
    """A shipped environment with another risk measure."""
    file = load_environment(name).file
    return OwnEnvironment.of(EnvironmentFile.model_validate(file.model_dump(exclude_unset=True) | {"risk": risk}))


def regret_of(environment: OwnEnvironment, risk: dict[str, Any], algorithm: dict[str, Any], seed: int) -> float:
    """The regret of one campaign after all rounds, in reward units."""
    file = environment.file
    is_shared, count = file.model == "shared", len(file.arms)
    shared = {"type": "shared", "dimension": len(file.theta or {}), "intercept": False}  # as the simulator asks for
    model = shared if is_shared else {"type": "multi-armed"}
    arms = [{"arm_id": arm.arm_id} for arm in file.arms]
    body = {"campaign_id": "c", "risk": risk, "model": model, "arms": arms, "algorithm": algorithm, "seed": seed}
    configuration = resolve(CampaignConfiguration.model_validate(body))
    policy, rule = build_policy(configuration, configuration, arms=count), exploration_rule(configuration)
    features, risks, rewards = environment.draw(np.random.default_rng(seed), ROUNDS)
    plays, places, nothing, total = [0] * count, np.arange(count), np.zeros(0), 0.0
    for number in range(ROUNDS):
        scores = policy.score(features[number]) if is_shared else policy.score(nothing, places)
        standing = Standing(number, plays, policy.floor_counts.weighed)
        arm = choose(scores, rule, standing, explore=True, seed=(seed, str(number))).position
        plays[arm] += 1
        total += float(risks[number].max() - risks[number, arm])
        x = features[number, arm] if is_shared else nothing
        policy.observe(0 if is_shared else arm, x, float(rewards[number, arm]), arm)
    return total


def show_regret(seeds: int) -> None:
    """Print medians and 90% quantiles."""
    expectile = {"measure": "expectile", "level": 0.05}
    for title, (name, risk) in RISKS.items():
        environment = environment_of(name, risk)
        mean = {"measure": "mean"}
        for label, own, algorithm in (
            ("linucb", mean, {"name": "linucb"}),
            ("linucb-cr, 0.05-expectile", expectile, {}),
            ("linucb-cr", risk, {}),
            ("linucb-onepass-cr", risk, {"name": "linucb-onepass-cr"}),
            ("linucb-cr, optimistic", risk, {"exploration_rule": "optimistic"}),
        ):
            start = time.process_time()
            found = [regret_of(environment, own, algorithm, seed) for seed in range(seeds)]
            seconds = (time.process_time() - start) / seeds
            sys.stdout.write(
                f"{title:24s} {label:26s} median {np.median(found):7.1f}  90% {np.quantile(found, 0.9):7.1f}  "
                f"{1e6 * seconds / ROUNDS:5.0f} us a round\n"
            )
            sys.stdout.flush()


def show_coverage(runs: int) -> None:
    """Print the share of runs in which the interval holds the truth."""
    pieces = TwoPieceNormal(0.1, 0.5)
    laws = {
        "normal": lambda random, n: random.normal(size=n),
        "two-piece normal": lambda random, n: pieces.sample(random.normal(size=n), random.random(n)),
        "lognormal": lambda random, n: random.lognormal(0.0, 0.5, n),
    }
    measures: list[Measure] = [
        *(kind(level) for kind in (Cvar, Quantile) for level in (0.25, 0.05)),
        MeanVariance(1.5),
        MeanVariance(0.8, "variance"),
    ]
    for name, law in laws.items():
        large = law(np.random.default_rng(1), 4_000_000)
        for measure in measures:
            truth, random = measure.risk(large), np.random.default_rng(2)
            shares = []
            for count in COUNTS:
                held = 0
                for _ in range(runs):
                    values = law(random, count)
                    ends = measure.interval(values, measure.risk(values))
                    held += ends is not None and ends[0] <= truth <= ends[1]
                shares.append(held / runs)
            shown = "  ".join(f"n = {count}: {share:.3f}" for count, share in zip(COUNTS, shares, strict=True))
            sys.stdout.write(f"{name:17s} {measure.title:60s} {shown}\n")
            sys.stdout.flush()


def main() -> None:
    """Measure and print what is asked for; a number of seeds or runs may follow."""
    what, number = [*sys.argv[1:], "", ""][:2]
    if what == "regret":
        show_regret(int(number or SEEDS))
    elif what == "coverage":
        show_coverage(int(number or RUNS))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
