"""Regret in the paper's experiments, in one process, without HTTP: `python -m benchmarks.regret --experiment 1`.

Every estimator, bonus and step schedule meets the same features and the same potential rewards, replication by
replication. The settings are the paper's (prudent_simulator.settings), with the ball; the case "data-driven" is what a
newcomer gets who sets no dial, with the paper's ridge. A campaign is made of the very request that the simulator
would post, so this measures the service's policies.

Regret: the best arm's risk minus the chosen one's, at the round's own features, summed over the rounds. Coverage:
the share of replications in which |estimate - risk| <= bonus for all arms in all rounds after warm-up. Nothing is
asserted; the last table puts the medians beside what is claimed of them.
"""

import argparse
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from threadpoolctl import threadpool_limits

from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Scores, Standing, choose
from prudent.core.policy import Policy
from prudent_simulator.environments import Environment, FloatArray, Rounds, Sampler, environment_of
from prudent_simulator.settings import (
    AlgorithmName,
    Bonus,
    CampaignPlan,
    Layout,
    Settings,
    StepSchedule,
    campaign_seed,
    paper_settings,
)

PERCENTILES = (5, 25, 75, 95)
CHUNK = 10
DIALS = ("noise_scale", "parameter_bound", "conditioning")


@dataclass(frozen=True)
class Case:
    """One learner. newcomer: every dial left to the service."""

    name: str
    algorithm: AlgorithmName
    bonus: Bonus
    schedule: StepSchedule = StepSchedule.THEORY
    step_size: float = 0.1
    newcomer: bool = False

    def settings(self, environment: Environment) -> Settings:
        return replace(
            paper_settings(environment, Layout.SHARED),
            bonus=self.bonus,
            step_schedule=self.schedule,
            step_size=self.step_size,
        )


def cases(bonuses: Sequence[Bonus]) -> tuple[Case, ...]:
    """Each estimator with each bonus, and with the data-driven dial."""
    exact, onepass = AlgorithmName.LINUCB_CR, AlgorithmName.LINUCB_ONEPASS_CR
    descent, harmonic = AlgorithmName.LINUCB_OGD_CR, StepSchedule.HARMONIC
    found = []
    for bonus in bonuses:
        found += [
            Case(f"exact, {bonus}", exact, bonus),
            Case(f"one pass, {bonus}", onepass, bonus),
            Case(f"OGD theory, {bonus}", descent, bonus),
            Case(f"OGD 1/n, {bonus}", descent, bonus, harmonic, 1.0),
            Case(f"OGD 0.4/n, {bonus}", descent, bonus, harmonic, 0.4),
            Case(f"OGD 0.1/n, {bonus}", descent, bonus, harmonic),
        ]
    tight, theory = Bonus.LOCAL_TIGHT, StepSchedule.THEORY
    found += [
        Case("exact, data-driven", exact, tight, newcomer=True),
        Case("one pass, data-driven", onepass, tight, newcomer=True),
        Case("OGD theory, data-driven", descent, tight, theory, newcomer=True),
        Case("OGD 0.4/n, data-driven", descent, tight, harmonic, 0.4, newcomer=True),
        Case("OGD 0.1/n, data-driven", descent, tight, harmonic, newcomer=True),
    ]
    return tuple(found)


@dataclass(frozen=True)
class Job:
    """Consecutive replications of one case."""

    case: Case
    experiment: int
    is_disjoint: bool
    rounds: int
    seed: int
    replications: range


def request_of(job: Job, environment: Environment, replication: int) -> dict[str, Any]:
    """Write the body of `POST /campaigns`. Disjoint: one block of parameters an arm, the ball each block's own."""
    plan = CampaignPlan(environment, Layout.SHARED, job.case.algorithm, job.case.settings(environment))
    body = plan.request(f"r{replication}", campaign_seed(environment, job.seed, replication))
    if job.case.newcomer:
        body["algorithm"] |= dict.fromkeys(DIALS)
    if job.is_disjoint:
        body["model"] |= {"type": "disjoint"}
        body["algorithm"] |= {"radius": "joint"}
    return body


def scores_of(policy: Policy, features: FloatArray, is_disjoint: bool) -> Scores:
    """Score the arms, (K, d). In the disjoint setting each has features and a block of its own."""
    if not is_disjoint:
        return policy.score(features)
    parts = [policy.score(row, np.array([block])) for block, row in enumerate(features)]
    estimates, bonuses, widths = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("estimates", "bonuses", "widths")
    )
    return Scores(estimates, bonuses, widths, policy.center)


def play(job: Job, environment: Environment, rounds: Rounds, replication: int) -> tuple[float, bool]:
    """Run one replication, rounds of shape (1, n); return the final regret and whether every interval held."""
    request = CampaignConfiguration.model_validate_json(orjson.dumps(request_of(job, environment, replication)))
    configuration = resolve(request)
    policy = build_policy(configuration, configuration, arms=environment.arm_count)
    rule = exploration_rule(configuration)
    plays = [0] * environment.arm_count
    chosen = np.zeros((1, job.rounds), dtype=np.int64)
    is_covered = True
    for t, (features, risks) in enumerate(zip(rounds.features[0], rounds.risks[0], strict=True)):
        scores = scores_of(policy, features, job.is_disjoint)
        standing = Standing(policy.estimator.observations, plays, policy.floor_counts.weighed)
        choice = choose(scores, rule, standing, explore=True, seed=(configuration.seed, str(t)))
        arm = chosen[0, t] = choice.position
        if choice.reason != "warmup":
            is_covered &= bool((np.abs(scores.estimates + scores.center - risks) <= scores.bonuses).all())
        policy.observe(int(arm) if job.is_disjoint else 0, features[arm], float(rounds.rewards[0, t, arm]), int(arm))
        plays[arm] += 1
    return float(rounds.regret(chosen).sum()), is_covered


def run(job: Job) -> tuple[Case, list[tuple[float, bool]]]:
    """Run a job, on one thread."""
    environment = environment_of(job.experiment)
    results = []
    with threadpool_limits(1):
        for replication in job.replications:
            rounds = Sampler(environment, job.seed, [replication]).draw(job.rounds)
            results.append(play(job, environment, rounds, replication))
    return job.case, results


def jobs(options: argparse.Namespace, chosen: Sequence[Case]) -> Iterator[Job]:
    """Cut the work into pieces, all cases side by side, so that a run that is stopped has some of each."""
    for first in range(0, options.replications, CHUNK):
        replications = range(first, min(first + CHUNK, options.replications))
        for case in chosen:
            yield Job(case, options.experiment, options.disjoint, options.rounds, options.seed, replications)


@dataclass(frozen=True)
class Row:
    """What a case came to; regret in reward units."""

    name: str
    replications: int
    median: float
    percentiles: tuple[float, ...]
    coverage: float


def measure(options: argparse.Namespace, chosen: Sequence[Case], console: Console) -> list[Row]:
    """Run everything and summarise."""
    found: dict[Case, list[tuple[float, bool]]] = defaultdict(list)
    work = list(jobs(options, chosen))
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        ProcessPoolExecutor(options.processes, mp_context=get_context("spawn")) as pool,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task(f"Experiment {options.experiment}", total=len(work))
        for done in as_completed([pool.submit(run, job) for job in work]):
            case, results = done.result()
            found[case] += results
            progress.advance(task)
    return [row(case.name, found[case]) for case in chosen]


def row(name: str, results: Sequence[tuple[float, bool]]) -> Row:
    """Summarise one case."""
    regrets = [regret for regret, _ in results]
    low, quarter, median, three_quarters, high = np.percentile(regrets, (5, 25, 50, 75, 95)).tolist()
    covered = float(np.mean([is_covered for _, is_covered in results]))
    return Row(name, len(results), median, (low, quarter, three_quarters, high), covered)


def results_table(rows: Sequence[Row], title: str) -> Table:
    """Lay the results out."""
    table = Table(title=title, box=SIMPLE_HEAD)
    for heading in ("learner", f"median regret {list(PERCENTILES)} %", "coverage"):
        table.add_column(heading, justify="left" if heading == "learner" else "right", no_wrap=True)
    for one in rows:
        tails = ", ".join(f"{value:.0f}" for value in one.percentiles)
        table.add_row(one.name, f"{one.median:.0f} [{tails}]", f"{one.coverage:.3f}")
    return table


CLAIMS = (
    ("one pass, local", "exact, local", 1.15),
    ("one pass, local-tight", "exact, local-tight", 1.15),
    ("OGD theory, local", "exact, local", 1.15),
    ("exact, local-tight", "exact, local", 0.4),
)


def claims_table(rows: Sequence[Row]) -> Table:
    """Put the ratios of medians beside what is claimed of them."""
    medians = {one.name: one.median for one in rows}
    table = Table(box=SIMPLE_HEAD)
    for heading in ("median of", "over that of", "is", "claimed at most"):
        table.add_column(heading)
    for name, reference, limit in CLAIMS:
        if name in medians and medians.get(reference):
            table.add_row(name, reference, f"{medians[name] / medians[reference]:.3f}", f"{limit:g}")
    return table


def parsed_options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=int, choices=[1, 2, 3], default=1)
    parser.add_argument("--disjoint", action="store_true", help="a parameter an arm (experiment 2 in the paper)")
    parser.add_argument("--replications", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=1_500)
    parser.add_argument(
        "--bonuses", nargs="+", type=Bonus, choices=list(Bonus), default=[Bonus.LOCAL, Bonus.LOCAL_TIGHT]
    )
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    return parser.parse_args(arguments)


def main() -> None:
    """Measure, and report."""
    options = parsed_options()
    console = Console()
    chosen = [case for case in cases(options.bonuses) if options.only in case.name]
    if not chosen:
        sys.exit(f"no case is called {options.only}")
    rows = measure(options, chosen, console)
    model = ", a parameter an arm" if options.disjoint else ""
    title = f"Experiment {options.experiment}{model}: {options.replications} replications of {options.rounds} rounds"
    console.print(results_table(rows, title))
    console.print(claims_table(rows))
    if options.json is not None:
        options.json.write_bytes(orjson.dumps([asdict(one) for one in rows], option=orjson.OPT_INDENT_2))


if __name__ == "__main__":
    main()
