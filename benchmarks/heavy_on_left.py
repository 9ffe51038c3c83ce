"""What the theorem of the bonus self-normalized rests on, by quadrature: numbers that could refute it.

For a law of rewards and a measure let xi be the score d1 at the true risk. For many lambda this takes the expectations
of

- the classical factor exp(lambda xi - lambda^2 xi^2/2),
- the bet 1 + clip(lambda xi, -b, b) that the bonus makes, and
- the truncated score clip(xi, -a, a) over a, which must not be positive.

None of the first two may exceed 1 where the scores cross once. All follow from the two tails of the score, since
E h(xi) = h(0) + int_0^inf h'(s) P(xi > s) - h'(-s) P(xi < -s) ds, and need no density.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf, log
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.optimize import brentq

from prudent.core.self_normalized import STAKE

Floats = np.ndarray[Any, np.dtype[np.float64]]
LEVELS = (0.5, 0.3, 0.1, 0.02)
GAMMAS = (-0.3, -1.0, -3.0)
"""Over the law's scale."""
LAMBDAS = np.geomspace(0.01, 30.0, 36)
"""Over the law's scale."""
SLACK = 1e-10
"""What rounding may add to an expectation of 1."""
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(20)


def integral(function: Callable[[Floats], Floats], end: float, cuts: tuple[float, ...] = ()) -> float:
    """The integral from 0 to `end`, by Gauss's rule on panels that double in width; smooth between the cuts."""
    edges = np.concatenate([[0.0, end], np.geomspace(1e-9, 1e30, 131), np.array(cuts)])
    edges = np.unique(edges[(edges >= 0.0) & (edges <= end)])
    halves, middles = np.diff(edges) / 2.0, (edges[1:] + edges[:-1]) / 2.0
    points = middles[:, None] + halves[:, None] * _NODES
    return float(halves @ (function(points) @ _NODE_WEIGHTS))


class TwoPieceNormal:
    """Half normals of two widths that meet at 0, each with mass in proportion to its width."""

    def __init__(self, left: float, right: float) -> None:
        self.left, self.right = left, right
        self.share = left / (left + right)

    def cdf(self, y: Floats) -> Floats:
        """The distribution function."""
        found: Floats = np.where(
            y < 0.0,
            2.0 * self.share * stats.norm.cdf(np.minimum(y, 0.0) / self.left),
            1.0 - 2.0 * (1.0 - self.share) * stats.norm.sf(np.maximum(y, 0.0) / self.right),
        )
        return found

    def sf(self, y: Floats) -> Floats:
        """What is above."""
        return TwoPieceNormal(self.right, self.left).cdf(-y)

    def rvs(self, size: Any, random_state: np.random.Generator) -> Floats:
        """Draw."""
        widths = np.where(random_state.random(size) < self.share, -self.left, self.right)
        found: Floats = widths * np.abs(random_state.standard_normal(size))
        return found


class Mirrored:
    """The law of -Y."""

    def __init__(self, law: Any) -> None:
        self.law = law

    def cdf(self, y: Floats) -> Floats:
        """The distribution function."""
        return np.asarray(self.law.sf(-y))

    def sf(self, y: Floats) -> Floats:
        """What is above."""
        return np.asarray(self.law.cdf(-y))

    def rvs(self, size: Any, random_state: np.random.Generator) -> Floats:
        """Draw."""
        return -np.asarray(self.law.rvs(size=size, random_state=random_state))


class Discrete:
    """Atoms with masses."""

    def __init__(self, atoms: tuple[float, ...], masses: tuple[float, ...]) -> None:
        self.atoms, self.masses = np.array(atoms), np.array(masses)

    def rvs(self, size: Any, random_state: np.random.Generator) -> Floats:
        """Draw."""
        found: Floats = random_state.choice(self.atoms, size=size, p=self.masses)
        return found


class Law(NamedTuple):
    """A law with a scale; edges: its ends, and where its distribution function has a kink."""

    name: str
    law: Any
    edges: tuple[float, ...]
    scale: float = 1.0

    @property
    def is_bounded(self) -> bool:
        """Whether the entropic measure may be used."""
        return bool(np.isfinite(self.edges).all())


SYMMETRIC = [
    Law("normal", stats.norm(), (-inf, inf)),
    Law("Laplace", stats.laplace(), (-inf, 0.0, inf)),
    Law("Student, 3 degrees", stats.t(3), (-inf, inf)),
    Law("Student, 1.5 degrees", stats.t(1.5), (-inf, inf)),
    Law("uniform", stats.uniform(-1.0, 2.0), (-1.0, 1.0), 0.6),
    Law("beta 2, 2", stats.beta(2.0, 2.0), (0.0, 1.0), 0.2),
    Law("two points", Discrete((-1.0, 1.0), (0.5, 0.5)), (-1.0, 1.0)),
    Law("five points", Discrete((-3.0, -1.0, 0.0, 1.0, 3.0), (0.05, 0.25, 0.4, 0.25, 0.05)), (-3.0, 3.0)),
]
LEFT = [
    Law("two-piece normal, left 2", TwoPieceNormal(2.0, 1.0), (-inf, 0.0, inf)),
    Law("Gumbel, left", stats.gumbel_l(), (-inf, inf)),
    Law("lognormal, left", Mirrored(stats.lognorm(1.0)), (-inf, 0.0)),
    Law("rare catastrophe", Discrete((-50.0, 1.0, 2.0, 3.0), (0.01, 0.33, 0.33, 0.33)), (-50.0, 3.0), 5.0),
]
RIGHT = [
    Law("two-piece normal, right 2", TwoPieceNormal(1.0, 2.0), (-inf, 0.0, inf)),
    Law("Gumbel, right", stats.gumbel_r(), (-inf, inf)),
    Law("lognormal, right", stats.lognorm(1.0), (0.0, inf)),
    Law("rare jackpot", Discrete((0.0, 100.0), (0.99, 0.01)), (0.0, 100.0), 10.0),
]


@dataclass(frozen=True)
class Score:
    """d1(y, risk) of an expectile's level, or of the entropic risk's gamma, written down a second time."""

    level: float | None
    gamma: float | None
    risk: float

    def __call__(self, y: Any) -> Floats:
        """The score at rewards."""
        away = self.risk - np.asarray(y)
        if self.level is None:
            return np.asarray(np.expm1(-(self.gamma or 0.0) * away))
        return np.asarray(2.0 * np.where(away > 0.0, 1.0 - self.level, self.level) * away)

    def rewards_at(self, scores: Floats) -> Floats:
        """The rewards with these scores, inf where none has so low a one."""
        if self.level is None:
            with np.errstate(divide="ignore"):
                return np.asarray(self.risk + np.log(np.maximum(1.0 + scores, 0.0)) / (self.gamma or 0.0))
        weights = np.where(scores > 0.0, 1.0 - self.level, self.level)
        return np.asarray(self.risk - scores / (2.0 * weights))


def score_of(one: Law, *, level: float | None = None, gamma: float | None = None) -> Score:
    """The score at the law's true risk."""
    if isinstance(one.law, Discrete):
        atoms, masses = one.law.atoms, one.law.masses
        if gamma is not None:
            return Score(None, gamma, log(float(masses @ np.exp(gamma * atoms))) / gamma)
        return Score(level, None, _root(lambda u: float(masses @ Score(level, None, u)(atoms)), one))
    low, high = one.edges[0], one.edges[-1]
    if gamma is not None:
        tail = integral(lambda s: np.exp(gamma * (low + s)) * one.law.sf(low + s), high - low)
        return Score(None, gamma, log(float(np.exp(gamma * low)) + gamma * tail) / gamma)
    return Score(level, None, _root(lambda u: _truncated(one, Score(level, None, u), 1e30), one))


def _root(function: Callable[[float], float], one: Law) -> float:
    low, high = one.edges[0], one.edges[-1]
    low, high = (
        max(low, -40.0 * one.scale) if low == -inf else low,
        min(high, 40.0 * one.scale) if high == inf else high,
    )
    return float(brentq(function, low, high, xtol=1e-15, rtol=1e-15))


def _cuts(one: Law, score: Score) -> tuple[float, ...]:
    """Scores, without their signs, where a tail of the score is not smooth."""
    kinks = np.abs(score(np.array([edge for edge in one.edges if np.isfinite(edge)])))
    return (*kinks.tolist(), 1.0) if score.level is None else tuple(kinks.tolist())


def _tails(one: Law, score: Score, s: Floats) -> tuple[Floats, Floats]:
    """P(xi > s) and P(xi < -s)."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(one.law.cdf(score.rewards_at(s))), np.asarray(one.law.sf(score.rewards_at(-s)))


def _truncated(one: Law, score: Score, end: float) -> float:
    """E clip(xi, -end, end)."""
    if isinstance(one.law, Discrete):
        return float(one.law.masses @ np.clip(score(one.law.atoms), -end, end))

    def difference(s: Floats) -> Floats:
        above, below = _tails(one, score, s)
        return above - below

    return integral(difference, end, _cuts(one, score))


def _factor(one: Law, score: Score, rate: float) -> float:
    """E exp(rate xi - rate^2 xi^2/2)."""
    if isinstance(one.law, Discrete):
        x = rate * score(one.law.atoms)
        return float(one.law.masses @ np.exp(x - 0.5 * x * x))

    def change(x: Floats) -> Floats:
        above, below = _tails(one, score, x / rate)
        bell = np.exp(-0.5 * x * x)
        return np.asarray(bell * ((1.0 - x) * np.exp(x) * above - (1.0 + x) * np.exp(-x) * below))

    return 1.0 + integral(change, 12.0, tuple(rate * cut for cut in _cuts(one, score)))  # beyond 12 it is below 1e-24


class Largest(NamedTuple):
    """Over all lambda: of the classical factor, of the bet; and of the truncated mean over its bound."""

    factor: float
    bet: float
    truncated: float


def largest(one: Law, score: Score, lambdas: Floats = LAMBDAS) -> Largest:
    """The largest expectations of the three."""
    unit = one.scale * (1.0 if score.gamma is None else abs(score.gamma))
    rates = (lambdas / unit).tolist()
    means = [_truncated(one, score, STAKE / rate) * rate for rate in rates]
    return Largest(
        max(_factor(one, score, rate) for rate in rates), 1.0 + max(means), max(mean / STAKE for mean in means)
    )


def cases(laws: list[Law]) -> Iterator[tuple[Law, Score]]:
    """Every law with every measure: gammas for bounded ones, times their scale."""
    for one in laws:
        for level in LEVELS:
            yield one, score_of(one, level=level)
        if one.is_bounded:
            for gamma in GAMMAS:
                yield one, score_of(one, gamma=gamma / one.scale)


def random_symmetric(generator: np.random.Generator) -> Discrete:
    """A symmetric law of up to ten atoms about a centre of its own, scales over six decades."""
    half = int(generator.integers(1, 6))
    atoms = np.sort(np.exp(generator.uniform(-7.0, 7.0, half)))
    masses = generator.dirichlet(np.full(half, 0.5)) / 2.0
    center = generator.normal() * 3.0
    return Discrete(
        (*(center - atoms[::-1]).tolist(), *(center + atoms).tolist()), (*masses[::-1].tolist(), *masses.tolist())
    )


def summary() -> list[tuple[str, list[tuple[Law, Score, Largest]]]]:
    """Every case, by kind of law."""
    kinds = (("symmetric", SYMMETRIC), ("left-skewed", LEFT), ("right-skewed: not covered", RIGHT))
    return [(name, [(one, score, largest(one, score)) for one, score in cases(laws)]) for name, laws in kinds]


def largest_random(count: int, seed: int) -> float:
    """The largest expectation, of factor or bet, over so many random symmetric laws and levels."""
    generator = np.random.default_rng(seed)
    found = 0.0
    for _ in range(count):
        law = random_symmetric(generator)
        one = Law("random", law, (law.atoms[0], law.atoms[-1]), float(np.ptp(law.atoms)))
        score = score_of(one, level=float(generator.uniform(0.001, 0.5)))
        found = max(found, *largest(one, score, np.geomspace(1e-2, 1e8, 40))[:2])
    return found
