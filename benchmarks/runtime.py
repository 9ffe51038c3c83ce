"""Time of the algorithms alone for one run, without HTTP and database: `python -m benchmarks.runtime`.

Every row of the paper's grid (prudent_simulator.paper.rows) plays its rounds in this process, with the very policy that
the service would build from the row's request. Only choosing and learning are timed, not the drawing of features and
rewards. The file that it writes goes into `prudent-simulator report --runtime FILE`. Nothing is asserted.
"""

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent_simulator.environments import FloatArray, Sampler
from prudent_simulator.paper.rows import Group, Row, select_rows
from prudent_simulator.settings import CampaignPlan, campaign_seed, select_candidates


def features_of(row: Row, features: FloatArray) -> FloatArray:
    """Features as they are sent: (T, K, d) becomes (T, K, K d) where each arm has parameters of its own."""
    names = [str(arm) for arm in range(features.shape[1])]
    candidates = select_candidates(row.layout, names, features)
    return np.array([[arm["features"] for arm in of_round["arms"]] for of_round in candidates])


def seconds_of(row: Row, rounds: int, seed: int, replication: int) -> float:
    """Play one replication; return the seconds spent on choosing and learning."""
    environment = row.environment
    plan = CampaignPlan(environment, row.layout, row.algorithm, row.settings)
    request = plan.request("runtime", campaign_seed(environment, seed, replication))
    configuration = resolve(CampaignConfiguration.model_validate_json(orjson.dumps(request)))
    policy = build_policy(configuration, configuration, arms=environment.arm_count)
    drawn = Sampler(environment, seed, [replication]).draw(rounds)
    features, rewards = features_of(row, drawn.features[0]), drawn.rewards[0]
    rule, plays = exploration_rule(configuration), [0] * environment.arm_count
    started = time.perf_counter()
    for number, x in enumerate(features):
        ids, standing = (
            (configuration.seed, str(number)),
            Standing(policy.estimator.observations, plays, policy.floor_counts.weighed),
        )
        arm = choose(policy.score(x), rule, standing, explore=True, seed=ids).position
        policy.observe(0, x[arm], float(rewards[number, arm]), arm)
        plays[arm] += 1
    return time.perf_counter() - started


def parsed_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?", help="the file to write")
    parser.add_argument("--rows", type=Group, choices=list(Group), default=Group.ALL)
    parser.add_argument("--rounds", type=int, default=1_500)
    parser.add_argument("--runs", type=int, default=5, help="of each row; the median is reported")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


def main() -> None:
    """Measure, print, and write the file."""
    options = parsed_options()
    console = Console()
    seconds: dict[str, float] = {}
    with threadpool_limits(1):  # as in the service
        for row in track(select_rows(options.rows), "Rows", console=Console(stderr=True)):
            runs = [seconds_of(row, options.rounds, options.seed, number) for number in range(options.runs)]
            seconds[row.key] = statistics.median(runs)
    table = Table(title=f"Seconds for {options.rounds} rounds, median of {options.runs} runs", box=SIMPLE_HEAD)
    table.add_column("row")
    table.add_column("seconds", justify="right")
    for key, value in seconds.items():
        table.add_row(key, f"{value:.3f}")
    console.print(table)
    if options.output is not None:
        content = {"rounds": options.rounds, "runs": options.runs, "seconds": seconds}
        options.output.write_bytes(orjson.dumps(content, option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
