"""The learner of the coverage benchmark against the service's, run by run."""

import numpy as np
import pytest

from benchmarks.coverage import learner
from benchmarks.coverage_settings import curvatures
from benchmarks.replications import Dials, ExpectileLearner, play
from benchmarks.small_matrices import ridge_solution
from prudent.core.confidence import ConfidenceSettings
from prudent.core.encoding import FeatureMap
from prudent.core.estimators import ExactMinimizer
from prudent.core.measures import Entropic, Expectile, ExpectileLoss
from prudent.core.policy import Policy
from prudent_simulator.environments import Sampler, environment_of

ROUNDS, RUNS, WARMUP, ALPHA = 250, 3, 5, 0.1


def service_outcome(experiment, rounds, run, bonus, noise_scale, conditioning, ball, bound):
    """Final regret and the largest |estimate - risk| / bonus of one run of the service's policy."""
    measure = Entropic(1.0, -2.0, 2.0) if experiment == 3 else Expectile(0.1)
    arms, dimension = rounds.features.shape[2:]
    policy = Policy(
        measure=measure,
        estimator=ExactMinimizer(measure.loss, 1, dimension, ALPHA, ball),
        feature_map=FeatureMap(np.zeros(dimension), np.ones(dimension), intercept=False),
        confidence=ConfidenceSettings(
            ALPHA, noise_scale=noise_scale, parameter_bound=bound, bonus=bonus, conditioning=conditioning
        ),
        exploration=1.0,
        blocks_at_creation=1,
        arms=arms,
        centred=False,
    )
    regret = worst = 0.0
    for number in range(ROUNDS):
        x, risks = rounds.features[run, number], rounds.risks[run, number]
        arm = number % arms
        if number >= arms * WARMUP:
            scores = policy.score(x)
            worst = max(worst, float((np.abs(scores.estimates - risks) / scores.bonuses).max()))
            arm = int((scores.estimates + scores.widths).argmax())
        regret += float(risks.max() - risks[arm])
        policy.observe(0, x[arm], float(rounds.rewards[run, number, arm]))
    return regret, worst


@pytest.mark.parametrize("experiment", [1, 2, 3])
@pytest.mark.parametrize(
    ("bonus", "noise_scale", "conditioning", "ball", "bound"),
    [
        ("local", 0.1, 9.0, 1.0, 1.0),
        ("local-tight", 0.02, 3.0, 0.5, 0.5),
        ("global", 0.05, 3.0, None, 1.0),
        ("global-tight", None, 1.0, 1.0, 1.0),
        ("local-tight", None, 1.0, None, None),
    ],
)
def test_the_benchmark_plays_as_the_service_does(experiment, bonus, noise_scale, conditioning, ball, bound):
    """A coverage measured with another algorithm would say nothing of the service's intervals."""
    rounds = Sampler(environment_of(experiment), 5, range(RUNS)).draw(ROUNDS)
    features = np.ascontiguousarray(rounds.features.transpose(1, 3, 2, 0))
    played = play(
        learner(experiment, features.shape[1], 2 * RUNS, ROUNDS, ball),
        features,
        rounds.risks.transpose(1, 2, 0),
        rounds.rewards.transpose(1, 2, 0),
        Dials(bonus, noise_scale, conditioning, bound, curvatures(experiment), ALPHA),
        WARMUP,
    )
    expected = [
        service_outcome(experiment, rounds, run, bonus, noise_scale, conditioning, ball, bound)
        for run in [*range(RUNS), *range(RUNS)]
    ]
    assert played.regret == pytest.approx([regret for regret, _ in expected], rel=1e-9)
    assert played.worst == pytest.approx([worst for _, worst in expected], rel=1e-6)


@pytest.mark.parametrize("rounds", [302, 310, 500])
def test_a_fit_looks_at_observations_that_were_far_from_the_kink(rng, rounds):
    """A few large observations move theta far at once: then others change sides than those set apart as near."""
    runs = 4
    batch = ExpectileLearner(0.1, 2, runs, rounds, ALPHA, None)
    x, y = rng.standard_normal((2, rounds, runs)), rng.standard_normal((rounds, runs))
    x[:, 300:] *= 20.0
    y[300:] = 5.0 * x[0, 300:]
    for number in range(rounds):
        batch.observe(x[:, number], y[number])
        if number % 7 == 0:
            batch.fit()
    batch.fit()
    for run in range(runs):
        exact = ExactMinimizer(ExpectileLoss(0.1), 1, 2, ALPHA, None)
        for number in range(rounds):
            exact.observe(0, x[:, number, run].copy(), float(y[number, run]))
        exact.refresh()
        assert batch.theta[:, run] == pytest.approx(exact.theta[0], rel=1e-9)
        assert batch.weighted_gram[..., run] == pytest.approx(exact.weighted_gram[0], rel=1e-9)
        assert batch.d1_squares[run] == pytest.approx(exact.d1_squares, rel=1e-9)
        assert batch.d2_total[run] == pytest.approx(exact.d2_total, rel=1e-9)


def test_the_ball_is_kept_from_any_start_of_the_search(rng):
    """A multiplier of the last round is only a guess for this one."""
    root = rng.standard_normal((3, 5, 40))
    gram, moments = np.einsum("akn,bkn->abn", root, root), 30.0 * rng.standard_normal((3, 40))
    cold = ridge_solution(gram, moments, ALPHA, 0.7, np.zeros(40))
    warm = ridge_solution(gram, moments, ALPHA, 0.7, np.full(40, 1e4))
    assert np.linalg.norm(cold, axis=0) == pytest.approx(0.7, rel=1e-12)
    assert warm == pytest.approx(cold, rel=1e-9)
