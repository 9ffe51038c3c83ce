"""How often the intervals of `prudent evaluate` cover the truth: `python -m benchmarks.off_policy`.

Plays campaigns in process, with the service's own select, and judges every arm on each campaign's own log, as the
command does. The truth is each arm's exact mean and risk. With --share 0 nothing is covered: the arms are refused.
Prints a table; about 10 CPU minutes with the defaults.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from typing import Any

import numpy as np
import orjson
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from prudent.campaigns import CampaignConfiguration, resolve
from prudent.core.budget import Spending
from prudent.core.off_policy import Estimate
from prudent.evaluation.evaluation import Evaluation, evaluate
from prudent.evaluation.log import CampaignLog
from prudent.ledger.commands import Select
from prudent.ledger.selection import select
from prudent.ledger.state import CampaignState, Writes
from prudent.store.campaigns import CampaignRow
from prudent.store.tables import OBSERVATION, ArmRow, LogRow
from prudent_simulator.custom_environments.laws import (
    UNIFORM_MIN,
    Discrete,
    Law,
    Mixture,
    Normal,
    Part,
    expectile,
)

BATCH = 10
GAUSSIAN = ((1.0, 0.5), (1.6, 1.0), (2.2, 2.0), (3.2, 3.0), (1.2, 1.0))


@dataclass(frozen=True)
class Problem:
    """Arms with a law each. level: of the campaign's expectile."""

    name: str
    level: float
    laws: tuple[Law, ...]

    def configuration(self, seed: int, share: float, **dials: Any) -> CampaignConfiguration:
        """The campaign, resolved. dials: of its algorithm."""
        body: dict[str, Any] = {
            "campaign_id": f"{self.name}-{seed}",
            "risk": {"measure": "expectile", "level": self.level},
            "model": {"type": "multi-armed"},
            "arms": [{"arm_id": f"arm-{k}"} for k in range(1, len(self.laws) + 1)],
            "algorithm": {"exploration_rule": "randomized", "uniform_share": share} | dials,
            "seed": seed,
        }
        return resolve(CampaignConfiguration.model_validate_json(orjson.dumps(body)))


def _normal(mean: float, deviation: float) -> Normal:
    return Normal(law="normal", mean=mean, deviation=deviation)


def _catastrophe(share: float, mean: float) -> Mixture:
    loss = Discrete(law="discrete", values=[-50.0], probabilities=[1.0])
    parts = [Part(probability=share, of=loss), Part(probability=1.0 - share, of=_normal(mean, 1.0))]
    return Mixture(law="mixture", parts=parts)


def _coin(win: float) -> Discrete:
    return Discrete(law="discrete", values=[1.0, 0.0], probabilities=[win, 1.0 - win])


PROBLEMS = (
    Problem("gaussian", 0.1, tuple(_normal(m, s) for m, s in GAUSSIAN)),
    Problem("offset", 0.1, tuple(_normal(20.0 + m, s) for m, s in GAUSSIAN)),
    Problem("clicks", 0.5, tuple(_coin(p) for p in (0.05, 0.1, 0.15, 0.2, 0.3))),
    Problem("catastrophes", 0.2, (_catastrophe(0.01, 2.0), _normal(1.0, 1.0), _normal(0.6, 0.5))),
)


def played(problem: Problem, seed: int, rounds: int, share: float, **dials: Any) -> CampaignLog:
    """The log of a campaign that was played for so many rounds; rewards come after every BATCH decisions."""
    configuration = problem.configuration(seed, share, **dials)
    text = configuration.model_dump_json()
    arms = [ArmRow(1, place, arm.arm_id, "active", None, 0) for place, arm in enumerate(configuration.arms)]
    state = CampaignState(CampaignRow(1, configuration.campaign_id, text, text, "active", 1, None, 0, None, 0), arms)
    state.spending = Spending([], 0) if state.rule.looks_back else None
    generator = np.random.default_rng((seed, 15))
    uniforms = np.clip(generator.random((len(arms), rounds)), UNIFORM_MIN, 1.0 - UNIFORM_MIN)
    rewards = np.stack([law.quantile(own) for law, own in zip(problem.laws, uniforms, strict=True)])
    made, rows, due = [], [], []
    writes = Writes()
    for number in range(rounds):
        row = select(state, Select(configuration.campaign_id), f"{seed}.{number}", None, number, writes).row
        reward = float(rewards[state.by_id[row.arm_id].position, number])
        learned = LogRow(
            1, 0, OBSERVATION, row.decision_id, None, row.arm_id, row.features, reward, "reward", row.propensity, number
        )
        made.append(row)
        due.append(learned)
        if len(due) == BATCH or number == rounds - 1:
            rows += [writes.append(state, one) for one in due]
            due.clear()
    return CampaignLog(configuration, configuration, arms, rows, made)


def judged(problem: Problem, rounds: int, share: float, seed: int) -> Evaluation:
    """What `prudent evaluate` finds of one campaign."""
    with threadpool_limits(1):
        log = played(problem, seed, rounds, share)
        return evaluate(log, [], [log.creation.measure()])


def covers(estimate: Estimate | None, truth: float) -> bool:
    """Whether there is an interval, and it covers."""
    return estimate is not None and estimate.low is not None and estimate.low <= truth <= (estimate.high or 0.0)


def rows_of(problem: Problem, found: Sequence[Evaluation]) -> Iterator[tuple[str, ...]]:
    """One row of the table for each arm."""
    title = found[0].measures[-1]
    for place, law in enumerate(problem.laws, start=1):
        policies = [one.policies[place] for one in found]
        known = [one for one in policies if one.refusal is None]
        lacking = [one.refusal.share for one in policies if one.refusal is not None]
        mean, risk = law.mean, expectile(law, problem.level)
        numbers = [
            [covers(one.mean, mean) for one in known],
            [covers(one.values["mean"], mean) for one in known],
            [covers(one.values[title], risk) for one in known],
        ]
        shown = [f"{np.mean(covered):.3f}" if known else "-" for covered in numbers]
        effective = f"{np.median([one.effective for one in known]):.0f}" if known else "-"
        refused = f"{len(lacking) / len(policies):.0%}" + (f", lack {np.median(lacking):.0%}" if lacking else "")
        yield problem.name, f"arm-{place}", effective, *shown, refused


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [problem.name for problem in PROBLEMS]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="PROBLEM", help=", ".join(names))
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=2_000)
    parser.add_argument("--share", type=float, default=0.05, help="uniform_share of the campaigns")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    table = Table(title=f"{options.runs} campaigns of {options.rounds} decisions, uniform_share {options.share:g}")
    for column in ("Problem", "Arm", "Effective rows", "IPS, mean", "SNIPS, mean", "SNIPS, risk", "Refused"):
        table.add_column(column, justify="left" if column in {"Problem", "Arm"} else "right")
    errors = Console(stderr=True)
    with ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool:
        for problem in PROBLEMS:
            if problem.name in options.only:
                work = partial(judged, problem, options.rounds, options.share)
                done = pool.map(work, range(options.runs), chunksize=5)
                found = list(track(done, problem.name, total=options.runs, console=errors))
                for row in rows_of(problem, found):
                    table.add_row(*row)
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
