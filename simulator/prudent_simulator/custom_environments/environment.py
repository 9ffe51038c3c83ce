"""An environment file made ready to draw from: features, exact risks and rewards of every round.

All that is random about a round's features is a list of independent variables, the basis (a constant 1 first).
Every feature is an affine function of the basis, so an arm's <theta, features> is too, and its range can be checked
before anything runs. An arm's reward is <theta, features> + <spread, features> (Z - c), where Z has the arm's law and
c is its mean or its risk, as the file's `theta_is` says (0 for multi-armed). But for moments, which are for the
multi-armed model, the risk measures are translation equivariant, and those that do not scale ask for a fixed spread, so
the risk is <theta, features> + <spread, features> (risk(Z) - c): linear in
the features of a disjoint model, exactly. A shared model needs the same law for all arms, or theta_is: risk.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from prudent_simulator.custom_environments.law_risks import cvar, expectation, probability_below, quantile, variance
from prudent_simulator.custom_environments.laws import UNIFORM_MIN, Law, entropic, expectile
from prudent_simulator.custom_environments.schema import (
    INTERCEPT,
    ArmBlock,
    Coefficients,
    Cvar,
    Entropic,
    EnvironmentFile,
    Expectile,
    FromContext,
    MeanVariance,
    Moment,
    Quantile,
    Risk,
)
from prudent_simulator.environments import FloatArray, Rounds, Stream, stream_seed

EXPERIMENT = 0
"""Key of the random streams, where the paper's experiments have 1, 2 and 3."""
_RANGE_TOLERANCE = 1e-9


class OwnEnvironmentError(ValueError):
    """The file's parts are fine one by one and make no sense together."""


def risk_of(law: Law, risk: Risk, scale: float = 1.0) -> float:
    """Give the exact risk of `scale` times a law, in reward units."""
    if isinstance(risk, Expectile):
        return scale * expectile(law, risk.p)
    if isinstance(risk, Entropic):
        return scale * entropic(law, risk.gamma * scale)
    if isinstance(risk, Cvar):
        return scale * cvar(law, risk.level)
    if isinstance(risk, Quantile):
        return scale * quantile(law, risk.level)
    if isinstance(risk, MeanVariance):
        spread = scale * math.sqrt(variance(law))
        return scale * law.mean - (risk.aversion * spread if risk.of == "deviation" else risk.aversion / 2 * spread**2)
    if isinstance(risk, Moment):
        return _moment(law, risk)
    return scale * law.mean


def _moment(law: Law, risk: Moment) -> float:
    """Give E T(Y); all but powers and logarithms follow from the chance to exceed a value and the expected excess."""
    if risk.of == "above":
        return 1.0 - probability_below(law, math.nextafter(risk.threshold, -math.inf))
    if risk.of == "shortfall":
        return -_shortfall(law, risk.threshold)
    if risk.of == "capped":
        return risk.lower + law.excess(risk.lower) - law.excess(risk.upper)
    if risk.of == "gain-loss":
        return risk.reference + law.excess(risk.reference) - risk.factor * _shortfall(law, risk.reference)
    return expectation(law, np.log if risk.of == "log" else lambda rewards: rewards**risk.exponent)


def _shortfall(law: Law, value: float) -> float:
    return law.excess(value) - law.mean + value


def _depends_on_scale(risk: Risk) -> bool:
    """Whether the risk of a scaled law is another than the scaled risk: then it is linear for a fixed spread only."""
    return isinstance(risk, Entropic) or (isinstance(risk, MeanVariance) and risk.of == "variance")


@dataclass(frozen=True)
class _Arm:
    """features: (d, B) on the basis; location, spread, risk: (B,), reward units; shift: c, on Z's scale."""

    law: Law
    features: FloatArray
    location: FloatArray
    spread: FloatArray
    risk: FloatArray
    mean: FloatArray
    shift: float


@dataclass(frozen=True)
class OwnEnvironment:
    """Draws rounds. basis: the laws after the constant; arms: in the file's order."""

    file: EnvironmentFile
    basis: tuple[Law, ...]
    arms: tuple[_Arm, ...]

    @classmethod
    def of(cls, file: EnvironmentFile) -> "OwnEnvironment":
        """Make a file ready. Raises OwnEnvironmentError for spreads or rewards out of range."""
        basis: list[Law] = [variable.of for variable in file.context.values()]
        drafts = [_features(file, arm, basis) for arm in file.arms]
        size = len(basis) + 1
        matrices = [np.array([[row.get(place, 0.0) for place in range(size)] for row in draft]) for draft in drafts]
        arms = tuple(_compile(file, arm, matrix) for arm, matrix in zip(file.arms, matrices, strict=True))
        environment = cls(file, tuple(basis), arms)
        for number in range(len(arms)):
            environment._check(number)
        return environment

    def _range(self, coefficients: FloatArray) -> tuple[float, float]:
        low = high = float(coefficients[0])
        for coefficient, law in zip(coefficients[1:], self.basis, strict=True):
            if coefficient != 0.0:
                ends = sorted(float(coefficient) * end for end in law.support())
                low, high = low + ends[0], high + ends[1]
        return low, high

    def _check(self, number: int) -> None:
        arm = self.arms[number]
        if _depends_on_scale(self.file.risk) and arm.spread[1:].any():
            what = "the entropic risk" if isinstance(self.file.risk, Entropic) else "a penalty on the variance"
            raise OwnEnvironmentError(
                f"arms.{number}: with {what}, spread must not depend on the features: the risk would not be linear in "
                "them"
            )
        narrowest, widest = self._range(arm.spread)
        if narrowest < 0.0:
            raise OwnEnvironmentError(
                f"arms.{number}: <spread, features> can be as low as {narrowest:g}, and must not be negative; bounded "
                "laws (uniform, beta, discrete) for the features help"
            )
        bounds = self.file.reward_bounds
        if bounds is None:
            return
        low, high = self._range(arm.location)
        bottom, top = (end - arm.shift for end in arm.law.support())
        low += min(narrowest * bottom, widest * bottom)
        high += max(narrowest * top, widest * top)
        slack = _RANGE_TOLERANCE * max(1.0, abs(bounds.minimum), abs(bounds.maximum))
        if math.isnan(low) or low < bounds.minimum - slack or math.isnan(high) or high > bounds.maximum + slack:
            raise OwnEnvironmentError(
                f"arms.{number}: rewards can lie in [{low:g}, {high:g}], and reward_bounds allow "
                f"[{bounds.minimum:g}, {bounds.maximum:g}]"
            )

    def draw(self, generator: np.random.Generator, rounds: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Draw features (n, K, d), risks (n, K) and rewards (n, K); a round takes the same numbers wherever it is."""
        random = len(self.basis)
        uniforms = np.clip(generator.random((rounds, random + len(self.arms))), UNIFORM_MIN, 1.0 - UNIFORM_MIN)
        basis = self._draw_basis(uniforms[:, :random])
        features = np.stack([_along(basis, arm.features) for arm in self.arms], axis=1)
        noise = [arm.law.quantile(uniforms[:, random + number]) - arm.shift for number, arm in enumerate(self.arms)]
        spread = self._by_arm(basis, [arm.spread for arm in self.arms])
        rewards = self._by_arm(basis, [arm.location for arm in self.arms]) + spread * np.stack(noise, axis=1)
        risks = self._by_arm(basis, [arm.risk for arm in self.arms])
        bounds = self.file.reward_bounds
        if bounds is not None:  # only rounding errors are cut off here: `of` has checked the range
            rewards = np.clip(rewards, bounds.minimum, bounds.maximum)
        return features, risks, rewards

    def standing(self, rounds: int, seed: int) -> tuple[FloatArray, FloatArray]:
        """Draw contexts, and give all arms' exact mean rewards and risks there, (n, K) each."""
        generator = np.random.default_rng(stream_seed(seed, EXPERIMENT, 0, Stream.CAMPAIGN))
        basis = self._draw_basis(np.clip(generator.random((rounds, len(self.basis))), UNIFORM_MIN, 1.0 - UNIFORM_MIN))
        return self._by_arm(basis, [arm.mean for arm in self.arms]), self._by_arm(
            basis, [arm.risk for arm in self.arms]
        )

    def true_parameters(self) -> tuple[FloatArray, float]:
        """Give the parameters whose product with the features comes closest to the risk, and how far off they are.

        returns (d,) for the shared model and (K, d) else; and the largest difference of a coefficient on the basis,
        reward units, 0 but for rounding when the model is well specified.
        """
        if self.file.model == "shared":
            parts = [(np.hstack([arm.features for arm in self.arms]), np.concatenate([arm.risk for arm in self.arms]))]
        else:
            parts = [(arm.features, arm.risk) for arm in self.arms]
        found = [np.linalg.lstsq(features.T, risk, rcond=None)[0] for features, risk in parts]
        errors = [np.abs(theta @ features - risk).max() for theta, (features, risk) in zip(found, parts, strict=True)]
        return found[0] if self.file.model == "shared" else np.stack(found), float(max(errors))

    def _draw_basis(self, uniforms: FloatArray) -> FloatArray:
        columns = [law.quantile(uniforms[:, column]) for column, law in enumerate(self.basis)]
        return np.column_stack([np.ones(len(uniforms)), *columns])

    @staticmethod
    def _by_arm(basis: FloatArray, coefficients: Sequence[FloatArray]) -> FloatArray:
        return _along(basis, np.stack(coefficients))


def _along(basis: FloatArray, rows: FloatArray) -> FloatArray:
    """Combine (n, B) with (d, B) to (n, d). A plain sum: a matrix product may round differently for other n."""
    combined: FloatArray = (basis[:, None, :] * rows).sum(axis=-1)
    return combined


def _features(file: EnvironmentFile, arm: ArmBlock, basis: list[Law]) -> list[dict[int, float]]:
    """Give each feature as coefficients by place on the basis; an arm's own random features are added to it."""
    if file.model == "multi-armed":
        return [{0: 1.0}]
    places = {name: place for place, name in enumerate(file.context, start=1)}
    if file.model == "disjoint":
        rows = [{0: -v.center / v.scale, places[name]: 1.0 / v.scale} for name, v in file.context.items()]
        return [{0: 1.0}, *rows]
    rows = []
    for name in file.theta or {}:
        feature = (arm.features or {})[name]
        if isinstance(feature, FromContext):
            rows.append({0: feature.offset, places[feature.context]: feature.factor})
        elif isinstance(feature, int | float):
            rows.append({0: float(feature)})
        else:
            basis.append(feature)
            rows.append({len(basis): 1.0})
    return rows


def _compile(file: EnvironmentFile, arm: ArmBlock, features: FloatArray) -> _Arm:
    names = list(file.theta) if file.theta else [INTERCEPT, *file.context]
    theta = _vector(file.theta or arm.theta or {}, names)  # zeros for multi-armed: the law says it all
    given_spread = file.spread or arm.spread
    # A shared model need not have a constant feature, so the default spread is the constant of the basis.
    constant = np.eye(features.shape[1])[0]
    spread = constant if given_spread is None else _vector(given_spread, names) @ features
    fixed = float(spread[0]) if _depends_on_scale(file.risk) else 1.0
    risk = risk_of(arm.reward, file.risk, fixed) / fixed if fixed > 0.0 else arm.reward.mean
    of_risk = risk if file.theta_is == "risk" else arm.reward.mean
    shift = 0.0 if file.model == "multi-armed" else of_risk
    location = theta @ features
    return _Arm(
        law=arm.reward,
        features=features,
        location=location,
        spread=spread,
        risk=location + spread * (risk - shift),
        mean=location + spread * (arm.reward.mean - shift),
        shift=shift,
    )


def _vector(given: Coefficients, names: Sequence[str]) -> FloatArray:
    return np.array([given.get(name, 0.0) for name in names])


class OwnSampler:
    """Draws the rounds of R replications, chunk after chunk."""

    def __init__(self, environment: OwnEnvironment, seed: int, replications: Sequence[int]) -> None:
        self._environment = environment
        keys = [stream_seed(seed, EXPERIMENT, number, Stream.FEATURES) for number in replications]
        self._generators = [np.random.Generator(np.random.Philox(key)) for key in keys]

    def draw(self, rounds: int) -> Rounds:
        """Draw the next rounds of every replication."""
        drawn = [self._environment.draw(generator, rounds) for generator in self._generators]
        features, risks, rewards = (np.stack(part) for part in zip(*drawn, strict=True))
        return Rounds(features, risks, rewards)
