"""How often the limits of the bonus self-scaled hold, and what it costs: the last part of `make coverage`.

The paper's three experiments and five environments of other kinds, each with nothing set but the bonus; the learner
is the policy that the service builds. "Index": the share of runs in which estimate + bonus is at least the risk, for
all arms in all rounds; "lower": the same for the lower limit and at most. Rounds without a finite index count as
covered. Lock-in: the best arm has less than 2% of the last quarter of a run, and one arm more than 90%.

Runs are kept in a file, one line each, so that an interrupted measurement goes on where it stopped.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import orjson
from scipy.special import stdtrit
from threadpoolctl import threadpool_limits

from benchmarks.coverage_tables import table, write_end
from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent_simulator.environments import Sampler, environment_of
from prudent_simulator.risks import gaussian_expectile

Floats = np.ndarray[Any, np.dtype[np.float64]]
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
MARK = "<!-- Written by `python -m benchmarks.coverage_self_scaled` from here on. -->"
RUNS_PER_TASK = 10
INTRODUCTION = """\
Campaigns that set nothing but `"bonus": "self-scaled"`, delta 0.05, played by the service's own policy. *Index* is the
share of runs in which estimate + bonus was at least the risk for all arms in all rounds, *lower* the same for the lower
limit; rounds without a finite index count as covered. *Lock-in*: the best arm had less than 2% of a run's last quarter,
and one arm more than 90%.
"""


class Drawn(NamedTuple):
    """A run. features: (T, K, d), or (T, d) one context per round; risks, rewards: (T, K)."""

    features: Floats
    risks: Floats
    rewards: Floats


@dataclass(frozen=True)
class World:
    """risk, model: of the campaign. draw: from a generator and a run's number to its rounds."""

    name: str
    risk: dict[str, Any]
    model: dict[str, Any]
    arms: int
    rounds: int
    draw: Callable[[np.random.Generator, int, int], Drawn]
    algorithm: str = "linucb-cr"
    delta: float = 0.05


@dataclass(frozen=True)
class Outcome:
    """Of one run, in reward units and truth values."""

    world: str
    run: int
    regret: float
    of_uniform: float
    index: bool
    lower: bool
    locked: bool


def of_paper(experiment: int, *, has_features: bool) -> Callable[[np.random.Generator, int, int], Drawn]:
    """The paper's experiment, with the simulator's own random streams.

    In experiments 1 and 3 each arm has an indicator for its features: without any they are multi-armed.
    """

    def draw(_: np.random.Generator, run: int, rounds: int) -> Drawn:
        drawn = Sampler(environment_of(experiment), 0, [run]).draw(rounds)
        features = drawn.features[0] if has_features else np.zeros((rounds, 0))
        return Drawn(features, drawn.risks[0], drawn.rewards[0])

    return draw


def gaussian_arms(generator: np.random.Generator, _: int, rounds: int) -> Drawn:
    """Five arms; the one with the largest mean is the worst."""
    means, deviations = np.array([1.0, 1.6, 2.2, 3.2, 1.2]), np.array([0.5, 1.0, 2.0, 3.0, 1.0])
    risks = means + deviations * gaussian_expectile(0.1)
    rewards = means + deviations * generator.standard_normal((rounds, 5))
    return Drawn(np.zeros((rounds, 0)), np.tile(risks, (rounds, 1)), rewards)


def clicks(generator: np.random.Generator, _: int, rounds: int) -> Drawn:
    """Five arms that pay 1 with a probability of 10 to 30 per cent."""
    rates = np.tile(np.linspace(0.1, 0.3, 5), (rounds, 1))
    return Drawn(np.zeros((rounds, 0)), rates, (generator.random((rounds, 5)) < rates).astype(np.float64))


def uneven_spread(generator: np.random.Generator, _: int, rounds: int) -> Drawn:
    """Shared model, five features, five arms in each round; the spread grows with the first feature."""
    features = generator.standard_normal((rounds, 5, 5))
    theta = np.array([0.5, -0.4, 0.3, 0.2, 0.0])
    risks = 2.0 + features @ theta
    noise = generator.standard_normal((rounds, 5)) - gaussian_expectile(0.2)
    return Drawn(features, risks, risks + np.exp(features[..., 0] / 2.0) * noise)


def heavy_tails(generator: np.random.Generator, _: int, rounds: int) -> Drawn:
    """Disjoint model, two features, four arms, the mean; noise with the tails of Student's t with 4 degrees."""
    contexts = generator.standard_normal((rounds, 2))
    theta = np.array([[1.0, 0.5, 0.0], [1.0, -0.5, 0.3], [1.3, 0.0, 0.0], [0.7, 0.0, -0.5]])
    risks = theta[:, 0] + contexts @ theta[:, 1:].T
    return Drawn(contexts, risks, risks + stdtrit(4.0, generator.random((rounds, 4))))


def bounded(generator: np.random.Generator, _: int, rounds: int) -> Drawn:
    """Three arms for the entropic risk at gamma -1; uniform between bounds that lie apart."""
    low, high = np.array([0.0, 0.5, -1.0]), np.array([2.0, 1.6, 3.0])
    risks = -np.log((np.exp(-low) - np.exp(-high)) / (high - low))
    return Drawn(np.zeros((rounds, 0)), np.tile(risks, (rounds, 1)), low + (high - low) * generator.random((rounds, 3)))


EXPECTILE = {"measure": "expectile", "level": 0.1}
ENTROPIC = {"measure": "entropic", "gamma": 1.0}
ARMED = {"type": "multi-armed"}
PLAIN = {"type": "shared", "intercept": False}
WORLDS = [
    World("experiment 1", EXPECTILE, ARMED, 2, 1500, of_paper(1, has_features=False)),
    World("experiment 2", EXPECTILE, PLAIN | {"dimension": 3}, 2, 1500, of_paper(2, has_features=True)),
    World("experiment 3", ENTROPIC, ARMED, 2, 1500, of_paper(3, has_features=False)),
    World("experiment 1, shared", EXPECTILE, PLAIN | {"dimension": 2}, 2, 1500, of_paper(1, has_features=True)),
    World("experiment 3, shared", ENTROPIC, PLAIN | {"dimension": 2}, 2, 1500, of_paper(3, has_features=True)),
    World("five Gaussian arms", EXPECTILE, ARMED, 5, 2000, gaussian_arms),
    World("clicks", {"measure": "mean"}, ARMED, 5, 3000, clicks, "linucb"),
    World(
        "uneven spread",
        {"measure": "expectile", "level": 0.2},
        {"type": "shared", "dimension": 5},
        5,
        1500,
        uneven_spread,
    ),
    World("heavy tails", {"measure": "mean"}, {"type": "disjoint", "dimension": 2}, 4, 2000, heavy_tails, "linucb"),
    World("bounded", {"measure": "entropic", "gamma": -1.0}, ARMED, 3, 1500, bounded, "linucb-onepass-cr"),
]
BOUNDS = {"experiment 3": (-2.0, 2.0), "experiment 3, shared": (-2.0, 2.0), "bounded": (-1.0, 3.0)}


def configuration_of(world: World) -> CampaignConfiguration:
    """A campaign that sets nothing but the bonus."""
    body: dict[str, Any] = {
        "campaign_id": "coverage",
        "risk": world.risk,
        "model": world.model,
        "arms": [{"arm_id": f"arm-{place}"} for place in range(world.arms)],
        "algorithm": {"name": world.algorithm, "bonus": "self-scaled", "delta": world.delta},
    }
    if world.name in BOUNDS:
        body["reward"] = dict(zip(("minimum", "maximum"), BOUNDS[world.name], strict=True))
    return resolve(CampaignConfiguration.model_validate(body))


def play(world: World, run: int, drawn: Drawn | None = None) -> tuple[Outcome, list[int]]:
    """Play a run; also the arms that were chosen. drawn: other rewards than the world's own."""
    configuration = configuration_of(world)
    policy = build_policy(configuration, configuration, arms=world.arms)
    rule = exploration_rule(configuration)
    generator = np.random.default_rng([run, world.rounds, world.arms])
    features, risks, rewards = world.draw(generator, run, world.rounds) if drawn is None else drawn
    shared, places = world.model["type"] == "shared", np.arange(world.arms)
    plays, chosen, index, lower = [0] * world.arms, [], True, True
    for number, (x, risk) in enumerate(zip(features, risks, strict=True)):
        scores = policy.score(x, None if shared else places, places)
        found = scores.estimates + scores.center
        index = index and bool((found + scores.bonuses >= risk).all())
        lower = lower and scores.depths is not None and bool((found - scores.depths <= risk).all())
        standing = Standing(number, plays if min(plays) < rule.warmup else None)
        arm = choose(scores, rule, standing, explore=True, seed=(run, str(number))).position
        chosen.append(arm)
        plays[arm] += 1
        policy.observe(0 if shared else arm, x[arm] if shared else x, float(rewards[number, arm]), arm)
    best = risks.max(axis=1)
    arms = np.array(chosen)
    regret = float((best - risks[np.arange(len(arms)), arms]).sum())
    late = slice(3 * len(arms) // 4, None)
    right = float((risks[late].argmax(axis=1) == arms[late]).mean())
    most = float(np.bincount(arms[late], minlength=world.arms).max()) / len(arms[late])
    outcome = Outcome(
        world.name, run, regret, float((best - risks.mean(axis=1)).sum()), index, lower, right < 0.02 and most > 0.9
    )
    return outcome, chosen


def play_some(names_and_runs: tuple[str, list[int]]) -> list[Outcome]:
    """A task of a process."""
    name, runs = names_and_runs
    world = next(one for one in WORLDS if one.name == name)
    with threadpool_limits(1):
        return [play(world, run)[0] for run in runs]


def measure(runs: int, processes: int, kept: Path, names: list[str]) -> Iterator[Outcome]:
    """All runs, those that the file has from there; the others are added to it."""
    known: dict[tuple[str, int], Outcome] = {}
    if kept.exists():
        for line in kept.read_bytes().splitlines():
            found = Outcome(**orjson.loads(line))
            known[found.world, found.run] = found
    tasks = []
    for name in names:
        wanted = [run for run in range(runs) if (name, run) not in known]
        tasks += [(name, wanted[start : start + RUNS_PER_TASK]) for start in range(0, len(wanted), RUNS_PER_TASK)]
    yield from (one for (name, run), one in known.items() if name in names and run < runs)
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool, kept.open("ab") as file:
        for outcomes in pool.map(play_some, tasks):
            file.writelines(orjson.dumps(one) + b"\n" for one in outcomes)
            file.flush()
            yield from outcomes


def summary(outcomes: list[Outcome]) -> str:
    """A table, a row for each world."""
    rows: list[list[object]] = []
    for world in WORLDS:
        of_world = [one for one in outcomes if one.world == world.name]
        if not of_world:
            continue
        low, median, high = np.percentile([one.regret for one in of_world], (5, 50, 95))
        index, lower, locked = (
            float(np.mean([getattr(one, name) for one in of_world])) for name in ("index", "lower", "locked")
        )
        model = world.model["type"]
        uniform = np.median([one.of_uniform for one in of_world])
        rows.append(
            [
                world.name,
                f"{world.risk['measure']}, {model}",
                world.algorithm,
                f"{world.rounds:,}",
                len(of_world),
                f"{median:.0f} [{low:.0f}, {high:.0f}]",
                f"{uniform:.0f}",
                f"{index:.3f}",
                f"{lower:.3f}",
                f"{locked:.3f}",
            ]
        )
    head = ["environment", "risk, model", "algorithm", "rounds", "runs", "regret, median [5%, 95%]", "uniform's"]
    return table([*head, "index", "lower", "lock-in"], rows)


def main() -> None:
    """Measure, print, and write the page's last part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--kept", type=Path, default=Path("coverage-self-scaled.jsonl"), help="where runs are kept")
    parser.add_argument("--worlds", nargs="*", default=[world.name for world in WORLDS])
    parser.add_argument("--quick", action="store_true", help="6 runs of each, printed and not written")
    options = parser.parse_args()
    runs = min(6, options.runs) if options.quick else options.runs
    outcomes = list(measure(runs, options.processes, options.kept, options.worlds))
    text = f"## The bonus self-scaled\n\n{INTRODUCTION}\n{summary(outcomes)}"
    sys.stdout.write(text)
    if not options.quick:
        write_end(PAGE, MARK, text)


if __name__ == "__main__":
    main()
