"""What the bonus self-normalized promises, tried: expectations, coverage at all times, and what it costs.

    python -m benchmarks.self_normalized           # writes the last part of docs/self-normalized.md, about 20 minutes
    python -m benchmarks.self_normalized --quick   # a few runs of each, printed and not written

Four parts. *Expectations* are by quadrature (`benchmarks.heavy_on_left`). *Coverage*: one arm, all of delta, 10,000
runs of 5,000 rewards for each law; a run is covered if the wealth at the true risk never reached 1/delta, which is when
no limit was ever below the risk. The wealth is computed with the bets themselves, which are at least the ones in use.
*Cost*: experiment 1 of the paper as a multi-armed campaign, and with its arms' spreads swapped, over a range of delta:
the learner is the limit that the service computes, and plays as its policy does (a test compares them). *Speed*: of a
policy's scores with ten arms of 10,000 rewards.
"""

import argparse
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaincinv

from benchmarks.coverage_self_scaled import WORLDS, play
from benchmarks.coverage_tables import table, write_end
from benchmarks.heavy_on_left import (
    LEFT,
    RIGHT,
    SYMMETRIC,
    Law,
    Score,
    largest_random,
    score_of,
    summary,
)
from prudent.campaigns import CampaignConfiguration, build_policy, resolve
from prudent.core.measures import Expectile
from prudent.core.self_normalized import FRACTIONS, PILOT, SIGN_SHARE, STAKE, WEIGHTS, ArmLimit
from prudent_simulator.risks import gaussian_expectile

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).parents[1] / "docs" / "self-normalized.md"
MARK = "<!-- Written by `python -m benchmarks.self_normalized` from here on. -->"
DELTA = 0.05
DELTAS = (0.01, 0.05, 0.2, 0.4, 0.6)
LEVEL = 0.1
RISKS, DEVIATIONS = (1.0, 0.0), (0.5, 3.0)


def case(laws: list[Law], name: str, *, level: float | None = None, gamma: float | None = None) -> tuple[Law, Score]:
    """A law of that name, with its score."""
    one = next(law for law in laws if law.name == name)
    return one, score_of(one, level=level, gamma=gamma)


def covered_cases() -> list[tuple[Law, Score]]:
    """Six laws that satisfy the condition."""
    return [
        case(SYMMETRIC, "normal", level=0.1),
        case(SYMMETRIC, "Laplace", level=0.3),
        case(SYMMETRIC, "Student, 3 degrees", level=0.5),
        case(SYMMETRIC, "uniform", gamma=-1.0),
        case(SYMMETRIC, "five points", level=0.5),
        case(LEFT, "two-piece normal, left 2", level=0.5),
    ]


def other_cases() -> list[tuple[Law, Score]]:
    """Two that do not."""
    return [case(RIGHT, "lognormal, right", level=0.5), case(RIGHT, "lognormal, right", level=0.02)]


def uncovered(one: Law, score: Score, runs: int, rounds: int, seed: int) -> int:
    """In how many runs the wealth at the true risk reached 1/delta."""
    generator = np.random.default_rng(seed)
    pilot = np.asarray(one.law.rvs(size=(PILOT, runs), random_state=generator), dtype=np.float64)
    slope = Score(score.level, score.gamma, 0.0)
    away = pilot - pilot.mean(axis=0)
    scales = np.sqrt(np.mean(slope(away) ** 2, axis=0))
    has_scale = np.ptp(pilot, axis=0) > 0.0
    signs = np.prod(1.0 + np.sign(score(pilot)), axis=0)
    wealth = np.repeat(WEIGHTS[:, None], runs, axis=1)
    has_failed = SIGN_SHARE * signs + WEIGHTS.sum() >= 1.0 / DELTA
    first = pilot[0].copy()
    # an arm whose first rewards are all equal keeps waiting for one that differs
    held = [pilot]
    for _ in range(rounds - PILOT):
        rewards = np.asarray(one.law.rvs(size=runs, random_state=generator), dtype=np.float64)
        scores = score(rewards)
        with np.errstate(divide="ignore", invalid="ignore"):
            bets = 1.0 + np.clip(FRACTIONS[:, None] / scales * scores, -STAKE, STAKE)
        wealth *= np.where(has_scale, bets, 1.0)
        signs *= 1.0 + np.sign(scores)
        has_failed |= SIGN_SHARE * signs + wealth.sum(axis=0) >= 1.0 / DELTA
        if not has_scale.all():
            held.append(rewards[None])
            found = np.flatnonzero(~has_scale & (rewards != first))
            if len(found):
                so_far = np.concatenate(held)[:, found]
                scales[found] = np.sqrt(np.mean(slope(so_far - so_far.mean(axis=0)) ** 2, axis=0))
                has_scale[found] = True
    return int(has_failed.sum())


class Run(NamedTuple):
    """regret in reward units; whether no limit was ever below its arm's risk; whether the best arm was given up."""

    regret: float
    is_covered: bool
    is_locked: bool


def rewards_of(run: int, rounds: int, *, swapped: bool) -> Floats:
    """(T, 2) rewards of experiment 1, a stream of its own for each run."""
    deviations = np.array(DEVIATIONS[::-1] if swapped else DEVIATIONS)
    noise = np.random.default_rng([run, rounds]).standard_normal((rounds, 2)) - gaussian_expectile(LEVEL)
    found: Floats = np.array(RISKS) + deviations * noise
    return found


def play_limits(rewards: Floats, delta: float) -> tuple[list[int], bool]:
    """The arms that are chosen by the limits alone, and whether these were never below the risks."""
    loss, arms = Expectile(LEVEL).loss, rewards.shape[1]
    lines = loss.score_lines
    assert lines is not None
    states = [ArmLimit(loss, lines) for _ in range(arms)]
    learned: list[list[float]] = [[] for _ in range(arms)]
    limits = [np.inf] * arms
    chosen, is_covered = [], True
    for row in rewards.tolist():
        unknown = [arm for arm in range(arms) if limits[arm] == np.inf]
        arm = min(unknown, key=lambda one: len(learned[one])) if unknown else limits.index(max(limits))
        chosen.append(arm)
        learned[arm].append(row[arm])
        states[arm].learn(np.array(learned[arm]))
        limits[arm] = states[arm].limit(delta / arms)
        is_covered = is_covered and limits[arm] >= RISKS[arm]
    return chosen, is_covered


def play_one(task: tuple[int, float, bool, int]) -> Run:
    """A run of experiment 1."""
    run, delta, swapped, rounds = task
    chosen, is_covered = play_limits(rewards_of(run, rounds, swapped=swapped), delta)
    late = np.array(chosen[3 * rounds // 4 :])
    return Run(float(sum(chosen)), is_covered, bool((late == 0).mean() < 0.02))


def play_scaled(task: tuple[int, float]) -> Run:
    """The same of the bonus self-scaled, by the policy that the service builds."""
    run, delta = task
    world = next(one for one in WORLDS if one.name == "experiment 1")
    outcome = play(replace(world, delta=delta), run)[0]
    return Run(outcome.regret, outcome.index, outcome.locked)


def interval(covered: int, runs: int) -> str:
    """A 95% interval of a share, by Clopper and Pearson."""
    low = 0.0 if covered == 0 else float(betaincinv(covered, runs - covered + 1, 0.025))
    high = 1.0 if covered == runs else float(betaincinv(covered + 1, runs - covered, 0.975))
    return f"{covered / runs:.4f} [{low:.4f}, {high:.4f}]"


INTRODUCTION = """\
## What was measured

The theorem could be refuted by numbers. These did not.
"""


def expectations(count: int) -> str:
    """The largest expectations over all lambda, by kind of law; and those of random laws."""
    rows: list[list[object]] = []
    for kind, found in summary():
        names = list(dict.fromkeys(one.name for one, _, _ in found))
        for name in names:
            own = [(score, best) for one, score, best in found if one.name == name]
            for words, chosen in (
                ("level 0.5", [best for score, best in own if score.level == 0.5]),
                ("levels 0.3, 0.1, 0.02", [best for score, best in own if score.level not in (None, 0.5)]),
                ("entropic", [best for score, best in own if score.level is None]),
            ):
                if chosen:
                    tops = (max(best.factor for best in chosen), max(best.bet for best in chosen))
                    rows.append([kind, name, words, *(f"{top - 1.0:+.1e}" for top in tops)])
    text = table(["law", "", "measure", "classical factor - 1, largest", "bet - 1, largest"], rows)
    worst = largest_random(count, seed=0)
    return (
        f"### Expectations\n\nThe largest over 36 values of lambda, by quadrature.\n\n{text}\n"
        f"Over {count:,} random symmetric laws of two to ten atoms and levels up to a half, scales over six decades: "
        f"{worst - 1.0:+.1e}.\n"
    )


def coverage(runs: int, rounds: int) -> str:
    """Coverage at all times."""
    rows: list[list[object]] = []
    for kind, cases in (("covered", covered_cases()), ("not covered", other_cases())):
        for seed, (one, score) in enumerate(cases):
            failed = uncovered(one, score, runs, rounds, seed)
            measure = f"level {score.level:g}" if score.level is not None else f"gamma {score.gamma:.3g}"
            rows.append([one.name, measure, kind, interval(runs - failed, runs)])
    head = ["law", "measure", "by the theorem", "coverage [95% interval]"]
    return (
        f"### Coverage at all times\n\n{runs:,} runs of {rounds:,} rewards each, delta 0.05, one arm.\n\n"
        f"{table(head, rows)}\n"
    )


def cost(runs: int, rounds: int, processes: int, deltas: Iterable[float]) -> str:
    """Regret and coverage on experiment 1."""
    rows: list[list[object]] = []
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:

        def add(name: str, delta: float, function: Callable[..., Run], tasks: list[Any]) -> None:
            found = list(pool.map(function, tasks, chunksize=5))
            low, median, high = np.percentile([one.regret for one in found], (5, 50, 95))
            covered, locked = sum(one.is_covered for one in found), sum(one.is_locked for one in found)
            rows.append(
                [
                    name,
                    delta,
                    len(found),
                    f"{median:.0f} [{low:.0f}, {high:.0f}]",
                    interval(covered, len(found)),
                    locked,
                ]
            )

        for delta in deltas:
            add("self-normalized", delta, play_one, [(run, delta, False, rounds) for run in range(runs)])
        add("self-normalized, spreads swapped", DELTA, play_one, [(run, DELTA, True, rounds) for run in range(runs)])
        for delta in (0.05, 0.2):
            add("self-scaled", delta, play_scaled, [(run, delta) for run in range(max(runs // 4, 2))])
    head = ["bonus", "delta", "runs", "regret, median [5%, 95%]", "coverage [95% interval]", "locked in"]
    return f"### Cost\n\nExperiment 1, {rounds:,} rounds.\n\n{table(head, rows)}"


def speed(count: int, repeats: int) -> str:
    """What a reward, the scores after it, and scores without a new reward take with ten arms of so many rewards."""
    arms = 10
    body = {
        "campaign_id": "speed",
        "risk": {"measure": "expectile", "level": LEVEL},
        "model": {"type": "multi-armed"},
        "arms": [{"arm_id": f"arm-{place}"} for place in range(arms)],
        "algorithm": {"bonus": "self-normalized"},
    }
    configuration = resolve(CampaignConfiguration.model_validate(body))
    policy, places = build_policy(configuration, configuration, arms=arms), np.arange(arms)
    generator, nothing = np.random.default_rng(0), np.zeros(0)
    for reward in generator.standard_normal(arms * count).tolist():
        policy.observe(int(generator.integers(arms)), nothing, reward)
    policy.score(nothing, places)
    taken: dict[str, list[float]] = {"no reward since": [], "one reward since": [], "a reward of each arm since": []}
    for number in range(repeats):
        for name, rewarded in zip(taken, ([], [number % arms], range(arms)), strict=True):
            for arm in rewarded:
                policy.observe(arm, nothing, float(generator.standard_normal()))
            begun = process_time()
            policy.score(nothing, places)
            taken[name].append(1e3 * (process_time() - begun))
    rows: list[list[object]] = [
        [name, *(f"{part:.3f}" for part in np.percentile(found, (50, 95)))] for name, found in taken.items()
    ]
    text = table(["scores of ten arms", "median, ms", "95%, ms"], rows)
    words = f"Ten arms of about {count:,} rewards each; the fit of the estimate is part of it. Processor time."
    return f"### Speed\n\n{words}\n\n{text}"


def main() -> None:
    """Measure, print, and write the page's last part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        parts = [expectations(20), coverage(200, 200), cost(2, 150, options.processes, (DELTA,)), speed(100, 5)]
    else:
        parts = [
            expectations(2000),
            coverage(10_000, 5_000),
            cost(200, 1500, options.processes, DELTAS),
            speed(10_000, 200),
        ]
    text = "\n".join([INTRODUCTION, *parts])
    sys.stdout.write(text)
    if not options.quick:
        write_end(PAGE, MARK, text)


if __name__ == "__main__":
    main()
