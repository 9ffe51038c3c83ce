"""Choosing and learning in process, without HTTP and database, beside the libraries a user would otherwise pick.

d = 20, K = 10, one round after the other: the reward of each round is learned before the next choice. Ours are the
very policies that the service builds from a campaign's configuration. The libraries run in an environment of their
own (`make bench` makes it from benchmarks/rivals.txt); see benchmarks/rivals.py for what each of them does.
Processor time, not time on the clock; all in turn in each round; medians over the rounds.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.box import SIMPLE_HEAD
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.rivals import ARMS, DIMENSION, RIVALS, SKIPPED, draw
from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from tests.servers import ROOT, clean_environment

RIVAL_SECONDS_MAX = 300
EXPECTILE = {"measure": "expectile", "level": 0.1}
SHARED = {"type": "shared", "dimension": DIMENSION}
DISJOINT = {"type": "disjoint", "dimension": DIMENSION, "intercept": False}
OURS: dict[str, dict[str, Any]] = {
    "linucb": {"risk": {"measure": "mean"}, "model": SHARED, "algorithm": {"name": "linucb"}},
    "linucb-onepass-cr": {"risk": EXPECTILE, "model": SHARED, "algorithm": {"name": "linucb-onepass-cr"}},
    "linucb-ogd-cr": {"risk": EXPECTILE, "model": SHARED, "algorithm": {"name": "linucb-ogd-cr"}},
    "linucb-cr": {"risk": EXPECTILE, "model": SHARED, "algorithm": {"name": "linucb-cr"}},
    "linucb, disjoint": {"risk": {"measure": "mean"}, "model": DISJOINT, "algorithm": {"name": "linucb"}},
}
IS_DISJOINT = {"linucb, disjoint", "mabwiser", "river"}
Times = dict[str, list[dict[str, float]]]


def ours(name: str, rounds: int) -> dict[str, float]:
    """Microseconds a round of one of our algorithms."""
    body = {"campaign_id": "inprocess", **OURS[name]}
    if name in IS_DISJOINT:
        body["arms"] = [{"arm_id": f"arm-{k}"} for k in range(ARMS)]
    configuration = resolve(CampaignConfiguration.model_validate(body))
    policy = build_policy(configuration, configuration, arms=ARMS)
    rule = exploration_rule(configuration)
    blocks = np.arange(ARMS) if name in IS_DISJOINT else None
    drawn, rewards = draw(rounds)
    payoffs = rewards.tolist()
    ids = [f"decision-{number}" for number in range(rounds)]
    began = 0.0
    for number, candidates in enumerate(drawn):
        if number == SKIPPED:
            began = time.process_time()
        features = candidates if blocks is None else candidates[0]
        scores = policy.score(features, blocks)
        # without a count of plays, as in the service once the warm-up is over
        standing = Standing(policy.estimator.observations, observations=policy.floor_counts.weighed)
        choice = choose(scores, rule, standing, explore=True, seed=(0, ids[number]))
        arm = choice.position
        if blocks is None:
            policy.observe(0, candidates[arm], payoffs[number][arm], arm)
        else:
            policy.observe(arm, features, payoffs[number][arm], arm)
    return {"microseconds": (time.process_time() - began) / (rounds - SKIPPED) * 1e6}


def rival(name: str, rounds: int, python: Path) -> dict[str, float]:
    """Microseconds a round of a library. Raises CalledProcessError where it does not run."""
    done = subprocess.run(
        [python, ROOT / "benchmarks" / "rivals.py", name, str(rounds)],
        env=clean_environment({"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=RIVAL_SECONDS_MAX,
        check=True,
    )
    result: dict[str, float] = orjson.loads(done.stdout)
    return result


def measure(rounds: int, repeats: int, python: Path | None) -> tuple[Times, list[str]]:
    """All in turn, `repeats` times; and what could not be measured."""
    times: Times = {}
    missing: dict[str, str] = {}
    if python is None:
        missing = dict.fromkeys(RIVALS, "there is no environment for it: `make bench` makes one")
    with threadpool_limits(1):  # as in the service
        for _ in range(repeats):
            for name in OURS:
                times.setdefault(name, []).append(ours(name, rounds))
            for name in RIVALS:
                if name in missing or python is None:
                    continue
                try:
                    times.setdefault(name, []).append(rival(name, rounds, python))
                except subprocess.CalledProcessError as error:
                    lines = error.stderr.decode(errors="replace").strip().splitlines()
                    missing[name] = lines[-1] if lines else str(error)
                except (OSError, subprocess.TimeoutExpired) as error:
                    missing[name] = str(error)
    return times, [f"{name}: {reason}" for name, reason in missing.items()]


def summary(times: Times) -> list[dict[str, Any]]:
    """Medians, and how many times as long as our `linucb` each takes."""
    rows: list[dict[str, Any]] = [
        {"name": name, **{key: statistics.median(one[key] for one in runs) for key in runs[0]}}
        for name, runs in times.items()
    ]
    for row in rows:
        row["ratio"] = row["microseconds"] / rows[0]["microseconds"]
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    """The summary for a person."""
    title = f"(e) Choose and learn in process, K={ARMS}, d={DIMENSION}: microseconds of processor time a round"
    caption = "ratio: to our linucb. vowpalwabbit takes text; making it and parsing it are counted apart."
    shown = Table(title=title, caption=caption, box=SIMPLE_HEAD)
    shown.add_column("")
    for heading in ("model", "us", "ratio", "+ parsing", "+ formatting"):
        shown.add_column(heading, justify="right")
    for row in rows:
        model = "disjoint" if row["name"] in IS_DISJOINT else "shared"
        apart = (f"{row[key]:,.0f}" if key in row else "" for key in ("parsing", "formatting"))
        shown.add_row(row["name"], model, f"{row['microseconds']:,.1f}", f"{row['ratio']:.1f}", *apart)
    return shown


if __name__ == "__main__":  # a quick look at ours alone
    for row in summary(measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000, 3, None)[0]):
        print(f"{row['name']:20} {row['microseconds']:.1f}")
