"""Time of the exact expectile's refit after one more observation: `python -m benchmarks.refit`.

Four ways to the same minimiser of sum L(y, <theta, x>) + alpha/2 ||theta||^2, in one run, on the same data:

- ours: `ExactMinimizer.observe` and `refresh`, one observation after the other. Its cost is uneven: every
  2 sqrt(t)-th refit looks at all observations. So the run covers a whole such cycle, and the mean (of all refits
  timed) stands beside the median.
- Newton: the full damped Newton method, from the parameter before the observation.
- L-BFGS: scipy's, from zero, with the exact gradient; with its default tolerances, and with tight ones
  (ftol 1e-14, gtol 1e-10 t), because a default answer is right to a few digits only: `error` is its distance from
  ours, relative; ours is compared with the Newton solution in `agrees`.

A second table has the estimators of constant cost, one pass and gradient descent: time of one observation with the
refresh after it, once t have been learned.

Ratios are of the L-BFGS median to our mean. BLAS on one thread, as in the service. Nothing is asserted.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from scipy.optimize import minimize
from threadpoolctl import threadpool_limits

from prudent.core.estimators import ExactMinimizer, OnePass, OnlineGradient
from prudent.core.measures import Array, ExpectileLoss
from prudent.core.numerics.newton import minimise

ALPHA = 0.1
KINDS = ("gaussian", "heavy", "drift")
REPEATS = 3
STEPS = 2_000
EPISODE, START, BOUND = 8, 20, 10.0


@dataclass(frozen=True)
class Timing:
    """Medians and one mean, in seconds, and relative distances between parameters."""

    ours: float
    mean: float
    newton: float
    default: float
    tight: float
    agrees: float
    error: float


def draw(kind: str, t: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Features of norm about 1 and rewards; the noise is of size 1 (heavy: Student's, 1.5 degrees of freedom)."""
    features = rng.standard_normal((t, d)) / math.sqrt(d)
    truth = rng.standard_normal(d)
    noise = rng.standard_t(1.5, t) if kind == "heavy" else rng.standard_normal(t)
    strength = np.linspace(1.0, 6.0, t) if kind == "drift" else 1.0
    return features, strength * (features @ truth) + noise


def timed(action: Callable[[], Array], repeats: int) -> tuple[float, Array]:
    """Median seconds of so many calls, and the last one's result."""
    seconds = []
    for _ in range(repeats):
        begin = time.perf_counter()
        result = action()
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds), result


def lbfgs(loss: ExpectileLoss, features: Array, rewards: Array, *, tight: bool) -> Array:
    def objective(theta: Array) -> tuple[float, Array]:
        predictions = features @ theta
        gradient = loss.d1(rewards, predictions) @ features + ALPHA * theta
        return float(loss.value(rewards, predictions).sum()) + 0.5 * ALPHA * float(theta @ theta), gradient

    start = np.zeros(features.shape[1])
    if not tight:
        return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B").x)
    gtol = 1e-10 * len(rewards)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": gtol})
    return np.asarray(found.x)


def measure(kind: str, t: int, d: int, level: float, refits_max: int) -> Timing:
    rng = np.random.default_rng([t, d, KINDS.index(kind)])
    refits = min(2 * math.isqrt(t) + 2, refits_max)
    features, rewards = draw(kind, t + refits, d, rng)
    loss = ExpectileLoss(level)
    exact = ExactMinimizer(loss, 1, d, ALPHA, None)
    for x, y in zip(features[:t], rewards[:t].tolist(), strict=True):
        exact.observe(0, x, y)
    exact.refresh()
    seconds = []
    for x, y in zip(features[t:], rewards[t:].tolist(), strict=True):
        before = exact.theta[0].copy()
        begin = time.perf_counter()
        exact.observe(0, x, y)
        exact.refresh()
        seconds.append(time.perf_counter() - begin)
    columns = np.asfortranarray(features)
    newton, found = timed(lambda: minimise(loss, columns, rewards, ALPHA, None, before).theta, REPEATS)
    default, rough = timed(lambda: lbfgs(loss, columns, rewards, tight=False), REPEATS)
    tight, _ = timed(lambda: lbfgs(loss, columns, rewards, tight=True), REPEATS)
    theta = exact.theta[0]
    size = float(np.linalg.norm(theta))
    return Timing(
        statistics.median(seconds),
        statistics.fmean(seconds),
        newton,
        default,
        tight,
        float(np.linalg.norm(found - theta)) / size,
        float(np.linalg.norm(rough - theta)) / size,
    )


def streaming(t: int, d: int, level: float) -> dict[str, tuple[float, float]]:
    """Median and mean seconds of a step after t observations, by estimator."""
    features, rewards = draw("gaussian", t + STEPS, d, np.random.default_rng([t, d]))
    loss = ExpectileLoss(level)
    estimators: dict[str, OnePass | OnlineGradient] = {
        "one pass": OnePass(loss, 1, d, ALPHA, BOUND, START),
        "gradient descent": OnlineGradient(loss, 1, d, ALPHA, BOUND, 1.0, EPISODE, "theory", 1.0, START),
    }
    found = {}
    for name, estimator in estimators.items():
        seconds = []
        for x, y in zip(features, rewards.tolist(), strict=True):
            begin = time.perf_counter()
            estimator.observe(0, x, y)
            estimator.refresh()
            seconds.append(time.perf_counter() - begin)
        found[name] = statistics.median(seconds[t:]), statistics.fmean(seconds[t:])
    return found


def print_streaming(console: Console, dimensions: list[int], sizes: list[int], level: float) -> None:
    table = Table(box=SIMPLE_HEAD, title="microseconds a step of constant cost: median (mean)")
    for name in ("d", "t", "one pass", "gradient descent"):
        table.add_column(name, justify="right")
    for d in dimensions:
        for t in sizes:
            times = streaming(t, d, level)
            table.add_row(str(d), f"{t:,}", *(f"{one * 1e6:.1f} ({mean * 1e6:.1f})" for one, mean in times.values()))
    console.print(table)


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000], help="observations")
    parser.add_argument("--dimensions", type=int, nargs="+", default=[3, 20, 100])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--level", type=float, default=0.1, help="of the expectile")
    parser.add_argument("--refits", type=int, default=10**6, help="at most so many refits of ours a row")
    arguments = parser.parse_args()
    table = Table(box=SIMPLE_HEAD, title="microseconds a refit after one new observation")
    names = ["data", "d", "t", "ours", "mean", "Newton", "L-BFGS", "tight", "L-BFGS/ours", "tight/ours", "Newton/ours"]
    for name in (*names, "agrees", "error"):
        table.add_column(name, justify="left" if name == "data" else "right")
    growth = []
    with threadpool_limits(1):
        measure("gaussian", 200, 3, arguments.level, 30)  # what is slow the first time only
        for kind in arguments.kinds:
            for d in arguments.dimensions:
                means = []
                for t in arguments.sizes:
                    each = measure(kind, t, d, arguments.level, arguments.refits)
                    means.append(each.mean)
                    times = (each.ours, each.mean, each.newton, each.default, each.tight)
                    ratios = (f"{each_time / each.mean:.1f}" for each_time in (each.default, each.tight, each.newton))
                    distances = f"{each.agrees:.0e}", f"{each.error:.0e}"
                    table.add_row(kind, str(d), f"{t:,}", *map(microseconds, times), *ratios, *distances)
                growth.append(f"{kind} d={d}: {means[-1] / means[0]:.1f}")
        console = Console(width=140)
        print_streaming(console, arguments.dimensions, arguments.sizes, arguments.level)
    console.print(table)
    console.print(f"growth of our mean from the first size to the last: {'; '.join(growth)}")


if __name__ == "__main__":
    main()
