"""The constrained empirical risk minimiser, against references, other solvers and hard problems."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize

from prudent.core.measures import EntropicLoss, ExpectileLoss, SquaredLoss
from prudent.core.numerics.newton import minimise
from prudent.core.numerics.positive_definite import Factor

CASES = json.loads((Path(__file__).parents[1] / "reference" / "erm.json").read_text())["cases"]


def loss_of(case):
    if case["risk"] == "mean":
        return SquaredLoss()
    if case["risk"] == "expectile":
        return ExpectileLoss(case["parameter"])
    return EntropicLoss(case["parameter"], *case["reward_bounds"])


def objective(loss, features, rewards, alpha, theta):
    return loss.value(rewards, features @ theta).sum() + alpha / 2 * theta @ theta


def gradient(loss, features, rewards, alpha, theta):
    return features.T @ loss.d1(rewards, features @ theta) + alpha * theta


def random_problem(rng, bounded=False):
    """A problem with some collinear features, some fewer observations than features, and mixed units."""
    dimension, count = int(rng.integers(1, 7)), int(rng.integers(1, 40))
    features = rng.standard_normal((count, dimension))
    if dimension > 1 and rng.random() < 0.3:
        features[:, -1] = features[:, 0]
    rewards = np.clip(features[:, 0] + rng.standard_normal(count), -2.5, 2.5)
    loss = [
        SquaredLoss(),
        ExpectileLoss(float(rng.choice([0.01, 0.1, 0.5, 0.9, 0.99]))),
        EntropicLoss(float(rng.choice([-2.0, -0.5, 0.1, 1.0])), -2.5, 2.5),
    ][rng.integers(3)]
    alpha = float(10 ** rng.uniform(-1, 1))
    bound = float(10 ** rng.uniform(-2, 0.3)) if bounded else None
    return loss, features, rewards, alpha, bound


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case['risk']}" for i, case in enumerate(CASES)])
def test_reference_minimisers(case):
    """Forty-digit minimisers: an error here is an error in every recommendation."""
    features, rewards = np.array(case["X"]), np.array(case["y"])
    loss = loss_of(case)
    solution = minimise(loss, features, rewards, case["alpha"])
    assert solution.certified
    np.testing.assert_allclose(solution.theta, case["theta"], rtol=1e-10, atol=1e-12)
    found = objective(loss, features, rewards, case["alpha"], solution.theta)
    assert found == pytest.approx(case["objective"], rel=1e-12)
    if case["theta_inside_ball"]:
        inside = minimise(loss, features, rewards, case["alpha"], case["parameter_bound"])
        assert inside.multiplier == 0.0
        np.testing.assert_array_equal(inside.theta, solution.theta)


def test_agrees_with_a_general_optimiser_on_200_problems(rng):
    """An independent optimiser must not find anything lower, nor anything elsewhere."""
    for _ in range(200):
        loss, features, rewards, alpha, _ = random_problem(rng)
        solution = minimise(loss, features, rewards, alpha)
        assert solution.certified
        problem = (loss, features, rewards, alpha)
        other = minimize(
            lambda theta, problem=problem: objective(*problem, theta),
            np.zeros(features.shape[1]),
            jac=lambda theta, problem=problem: gradient(*problem, theta),
            method="L-BFGS-B",
            options={"ftol": 1e-11, "gtol": 1e-8, "maxiter": 150},
        )
        assert objective(*problem, solution.theta) <= other.fun + 1e-12 * abs(other.fun)
        np.testing.assert_allclose(solution.theta, other.x, atol=1e-4)


def test_agrees_with_a_general_constrained_optimiser(rng):
    """With the ball, the multiplier and the parameter must be those of the constrained problem."""
    binding = 0
    for _ in range(60):
        loss, features, rewards, alpha, bound = random_problem(rng, bounded=True)
        problem = (loss, features, rewards, alpha)
        solution = minimise(*problem, bound)
        assert solution.certified
        other = minimize(
            lambda theta, problem=problem: objective(*problem, theta),
            np.zeros(features.shape[1]),
            jac=lambda theta, problem=problem: gradient(*problem, theta),
            method="SLSQP",
            constraints={
                "type": "ineq",
                "fun": lambda theta, bound=bound: bound**2 - theta @ theta,
                "jac": lambda theta: -2 * theta,
            },
            options={"ftol": 1e-14, "maxiter": 500},
        )
        binding += solution.multiplier > 0
        # It may leave the ball by a little, which would be an unfair advantage.
        rival = other.x * min(1.0, bound / np.linalg.norm(other.x))
        lowest = objective(*problem, rival)
        assert objective(*problem, solution.theta) <= lowest + 1e-12 * max(1.0, abs(lowest))
        np.testing.assert_allclose(solution.theta, other.x, atol=1e-4 * bound + 1e-6)
    assert binding > 20


def test_optimality_conditions_hold_with_the_ball(rng):
    """The guarantee's inequality needs exactly these conditions, with the multiplier returned."""
    binding = 0
    for _ in range(300):
        loss, features, rewards, alpha, bound = random_problem(rng, bounded=True)
        solution = minimise(loss, features, rewards, alpha, bound)
        force = gradient(loss, features, rewards, alpha, solution.theta)
        scale = np.abs(features).sum() * (1 + np.abs(rewards).max()) * loss.curvature_max
        assert solution.certified
        assert solution.multiplier >= 0
        assert np.abs(force + solution.multiplier * solution.theta).max() <= 1e-11 * scale
        norm = np.linalg.norm(solution.theta)
        assert norm <= bound * (1 + 1e-14)
        if solution.multiplier > 0:
            binding += 1
            assert norm == pytest.approx(bound, rel=1e-12)
            first = gradient(loss, features, rewards, alpha, np.zeros_like(solution.theta))
            assert solution.multiplier <= np.linalg.norm(first) / bound * (1 + 1e-12)
    assert binding > 100


@pytest.mark.parametrize("level", [0.001, 0.999])
def test_heavy_tails_at_extreme_levels_always_certify(level, rng):
    """Undamped Newton cycles on half a per cent of these, with errors up to 40."""
    for k in range(1000):
        count, dimension = int(rng.integers(1, 30)), int(rng.integers(1, 6))
        features = rng.standard_t(1.5, (count, dimension))
        rewards = rng.standard_t(1.2, count) * 10 ** rng.uniform(-3, 3)
        bound = None if k % 2 else float(10 ** rng.uniform(-2, 1))
        solution = minimise(ExpectileLoss(level), features, rewards, float(10 ** rng.uniform(-6, 1)), bound)
        assert solution.certified, k
        assert solution.iterations <= 30


CYCLING = [139, 481, 557, 905, 926, 1176, 1186, 1204, 1387, 1504, 1690, 1846, 2167, 2256, 2428, 2577, 3009, 3448]


@pytest.mark.parametrize("seed", CYCLING)
def test_damping_is_needed_where_the_full_step_cycles(seed):
    """For these few observations full Newton steps alternate for ever between active sets."""
    rng = np.random.default_rng(seed)
    count, dimension = int(rng.integers(4, 12)), int(rng.integers(2, 4))
    features, rewards = rng.standard_t(1.0, (count, dimension)), rng.standard_t(1.0, count)
    loss, alpha = ExpectileLoss(0.001), 1e-6
    theta, seen = np.zeros(dimension), []
    while True:
        weights = loss.d2(rewards, features @ theta).tolist()
        if weights in seen:
            break
        seen.append(weights)
        matrix = (features.T * weights) @ features + alpha * np.eye(dimension)
        theta = np.linalg.solve(matrix, (features.T * weights) @ rewards)
    assert weights != seen[-1], "full steps settle: this is no example"
    solution = minimise(loss, features, rewards, alpha, start=np.zeros(dimension))
    assert solution.certified


def test_argmin_is_the_sample_expectile(rng):
    """With one constant feature and next to no penalty the estimate is the sample's own expectile."""
    sample = rng.gamma(1.0, 2.0, 200)
    for level in (0.01, 0.1, 0.5, 0.9):
        solution = minimise(ExpectileLoss(level), np.ones((200, 1)), sample, 1e-12)
        assert solution.theta[0] == pytest.approx(stats.expectile(sample, level), rel=1e-9)
        mirrored = minimise(ExpectileLoss(1 - level), np.ones((200, 1)), -sample, 1e-12)
        assert mirrored.theta[0] == pytest.approx(-solution.theta[0], rel=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_rewards_in_other_units_give_the_same_model_in_those_units(scale, rng):
    """Cents and dollars must choose the same arms."""
    features, rewards = rng.standard_normal((50, 4)), rng.standard_normal(50)
    for loss in (SquaredLoss(), ExpectileLoss(0.05)):
        for bound in (None, 0.1):
            plain = minimise(loss, features, rewards, 0.1, bound)
            scaled = minimise(loss, features, scale * rewards, 0.1, None if bound is None else scale * bound)
            np.testing.assert_allclose(scaled.theta, scale * plain.theta, rtol=1e-12)
            assert scaled.iterations == plain.iterations
            assert scaled.multiplier == pytest.approx(plain.multiplier, rel=1e-9)


def test_least_squares_accuracy_where_features_differ_in_scale(rng):
    """Features in thousands beside features in thousandths: each parameter keeps its digits."""
    units = np.array([1e4, 1.0, 1e-3])
    features = rng.standard_normal((200, 3)) * units
    rewards = features @ (1 / units) + rng.standard_normal(200)
    loss = ExpectileLoss(0.1)
    solution = minimise(loss, features, rewards, 1e-9)
    weights = loss.d2(rewards, features @ solution.theta)
    stacked = np.vstack([features * np.sqrt(weights)[:, None], np.sqrt(1e-9) * np.eye(3)]) / units
    expected = np.linalg.lstsq(stacked, np.append(rewards * np.sqrt(weights), np.zeros(3)))[0] / units
    assert solution.certified
    np.testing.assert_allclose(solution.theta, expected, rtol=1e-12)
    # Far within the certificate, because of the large unit beside it, and still to be improved on.
    shift = np.linalg.solve(solution.weighted_gram / units / units[:, None], [0.0, 0.0, 1e-4]) / units
    assert abs(shift[2]) > 1e-7 * abs(solution.theta[2])
    near = solution.theta + shift
    polished = minimise(loss, features, rewards, 1e-9, start=near)
    assert polished.iterations == 0
    np.testing.assert_allclose(polished.theta, expected, rtol=1e-12)


def test_a_solve_cut_short_is_not_certified(monkeypatch, rng):
    """A parameter wrong in the eighth digit must not pass for the minimiser."""
    features, rewards = rng.standard_normal((100, 3)), rng.standard_normal(100)
    for loss in (SquaredLoss(), ExpectileLoss(0.1), EntropicLoss(-1.0, -5, 5)):
        best = minimise(loss, features, rewards, 0.1).theta
        with monkeypatch.context() as patch:
            patch.setattr("prudent.core.numerics.newton.ITERATIONS_MAX", 0)
            cut = minimise(loss, features, rewards, 0.1, start=best * (1 + 1e-8))
            assert not cut.certified
            assert cut.iterations == 0
            np.testing.assert_array_equal(cut.theta, best * (1 + 1e-8))
            assert minimise(loss, features, rewards, 0.1, start=best).certified


def test_identical_features_share_their_weight(rng):
    """A duplicated column and next to no penalty make the Hessian singular in float64."""
    column = rng.standard_normal(60)
    rewards = 2 * column + 0.1 * rng.standard_normal(60)
    for loss in (SquaredLoss(), ExpectileLoss(0.1), EntropicLoss(0.5, -10, 10)):
        for bound in (None, 0.5):
            solution = minimise(loss, np.column_stack([column, column]), rewards, 1e-12, bound)
            assert solution.certified
            assert solution.theta[0] == pytest.approx(solution.theta[1], abs=1e-6)
            single = minimise(loss, column[:, None], rewards, 1e-12, None if bound is None else 2**0.5 * bound)
            assert solution.theta.sum() == pytest.approx(single.theta[0], rel=1e-6)


@pytest.mark.parametrize("gamma", [-3.0, 3.0])
def test_entropic_with_huge_features_and_rewards_never_overflows(gamma, rng):
    """The first update of a campaign whose features are in thousands must not produce an infinity."""
    for size in (1.0, 3e3, 1e5):
        for offset in (0.0, 1e3, -1e4):
            loss = EntropicLoss(gamma, offset - 5, offset + 5)
            features = np.column_stack([size * rng.standard_normal((20, 2)), np.ones(20)])
            rewards = offset + np.clip(features[:, 0] / size + rng.standard_normal(20), -5, 5)
            solution = minimise(loss, features, rewards, 1e-3 * abs(gamma))
            assert solution.certified
            predictions = features @ solution.theta
            assert np.isfinite(loss.d2(rewards, predictions)).all()


def test_undetermined_directions_are_tried_before_giving_up():
    """Where most exponentials are flat, the penalty alone determines a direction, 1e-14 of the largest."""
    rng = np.random.default_rng(3283067257)
    for size in (1.0, 1.0, 1.0, 3e3, 3e3, 3e3, 1e5, 1e5, 1e5):
        features = np.column_stack([size * rng.standard_normal((20, 2)), np.ones(20)])
        rewards = -1e4 + np.clip(features[:, 0] / size + rng.standard_normal(20), -5, 5)
    assert minimise(EntropicLoss(3.0, -10005, -9995), features, rewards, 3e-3).certified


def test_a_problem_beyond_float64_is_returned_uncertified():
    """Rewards far outside the ball's predictions overflow everywhere: say so, do not invent a result."""
    loss = EntropicLoss(1.0, 999.0, 1001.0)
    solution = minimise(loss, np.ones((1, 1)), np.array([1000.0]), 0.1, bound=1.0)
    assert not solution.certified
    assert np.isfinite(solution.theta).all()


@pytest.mark.parametrize("loss", [SquaredLoss(), ExpectileLoss(0.1), EntropicLoss(1.0, -4, 4)], ids=repr)
def test_small_and_degenerate_data(loss):
    """No data, one observation, equal rewards, zero rewards, zero features: all ordinary mornings."""
    empty = minimise(loss, np.zeros((0, 3)), np.zeros(0), 0.1, 1.0)
    assert empty.certified
    np.testing.assert_array_equal(empty.theta, np.zeros(3))
    np.testing.assert_array_equal(empty.weighted_gram, np.zeros((3, 3)))
    zero = minimise(loss, np.ones((5, 2)), np.zeros(5), 0.1)
    assert zero.certified
    np.testing.assert_array_equal(zero.theta, np.zeros(2))
    blind = minimise(loss, np.zeros((5, 2)), np.ones(5), 0.1)
    assert blind.certified
    np.testing.assert_array_equal(blind.theta, np.zeros(2))
    tiny = minimise(loss, np.full((2, 2), 5e-324), np.ones(2), 0.1)
    assert tiny.certified
    one = minimise(loss, np.array([[1.0, 2.0, 3.0]]), np.array([2.0]), 0.1)
    assert one.certified
    equal = minimise(loss, np.ones((50, 1)), np.full(50, 3.0), 1e-9)
    assert equal.certified
    assert equal.iterations <= 2 or isinstance(loss, EntropicLoss)
    assert equal.theta[0] == pytest.approx(3.0, rel=1e-8)


def test_start_changes_nothing_but_the_cost(rng):
    """A refit from yesterday's parameter must agree with one from nothing."""
    for _ in range(100):
        loss, features, rewards, alpha, bound = random_problem(rng, bounded=rng.random() < 0.5)
        cold = minimise(loss, features, rewards, alpha, bound)
        for size in (1e-3, 1.0, 100.0):
            start = cold.theta + size * rng.standard_normal(len(cold.theta))
            warm = minimise(loss, features, rewards, alpha, bound, start, float(rng.choice([0.0, 1e3])))
            assert warm.certified
            np.testing.assert_allclose(warm.theta, cold.theta, rtol=1e-9, atol=1e-11)
        again = minimise(loss, features, rewards, alpha, bound, cold.theta, cold.multiplier)
        assert again.iterations == 0


def test_sums_are_those_at_the_solution(rng):
    """The bonus and the data-driven dial are made of these three sums."""
    large = rng.standard_normal((400, 6)), rng.standard_normal(400)
    problems = [random_problem(rng, bounded=True) for _ in range(50)]
    problems += [(ExpectileLoss(0.1), *large, alpha, None) for alpha in (0.1, 0.2, 0.3, 0.4)]
    for loss, features, rewards, alpha, bound in problems:
        start = 0.1 * rng.standard_normal(features.shape[1])
        solution = minimise(loss, features, rewards, alpha, bound, start)
        predictions = features @ solution.theta
        curvatures, slopes = loss.d2(rewards, predictions), loss.d1(rewards, predictions)
        expected = (features.T * curvatures) @ features
        np.testing.assert_allclose(solution.weighted_gram, expected, rtol=1e-9, atol=1e-12 * expected.max())
        np.testing.assert_array_equal(solution.weighted_gram, solution.weighted_gram.T)
        assert solution.d1_squares == pytest.approx((slopes**2).sum(), rel=1e-9)
        assert solution.d2_total == pytest.approx(curvatures.sum(), rel=1e-12)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_penalty_and_bound_must_be_positive(value):
    """Without a penalty the solution need not exist."""
    data = np.ones((1, 1)), np.ones(1)
    with pytest.raises(ValueError, match="regularization"):
        minimise(SquaredLoss(), *data, value)
    with pytest.raises(ValueError, match="bound"):
        minimise(SquaredLoss(), *data, 1.0, value)


def test_factor_solves_singular_and_badly_scaled_systems(rng):
    """Cholesky fails or returns noise on these; the campaign must go on."""
    basis = rng.standard_normal((4, 2))
    singular = basis @ basis.T
    right = singular @ rng.standard_normal(4)
    factor = Factor(singular)
    assert not factor.exact
    np.testing.assert_allclose(singular @ factor.solve(right), right, rtol=1e-9)
    units = np.array([1e-8, 1.0, 1e8])
    square = rng.standard_normal((5, 3))
    scaled = units[:, None] * (square.T @ square) * units
    badly = Factor(scaled)
    assert badly.exact
    np.testing.assert_allclose(units * badly.solve(units), np.linalg.solve(square.T @ square, np.ones(3)), rtol=1e-9)
    thin = rng.standard_normal((3, 2))
    both = units[:, None] * (thin @ thin.T) * units
    right = both @ (rng.standard_normal(3) / units)
    factor = Factor(both)
    assert not factor.exact
    np.testing.assert_allclose(both @ factor.solve(right), right, rtol=1e-6)
    assert np.isnan(Factor(np.full((2, 2), math.nan)).solve(np.ones(2))).all()
    assert np.isnan(Factor(np.full((2, 2), math.inf)).solve(np.ones(2))).all()
    np.testing.assert_array_equal(Factor(np.zeros((2, 2))).solve(np.ones(2)), np.zeros(2))
