"""Runs against the real service: the curves must be those of the decisions it made."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from prudent_client import RejectedError, UnreachableError
from prudent_simulator.client import Client
from prudent_simulator.environments import Sampler, Theta, environment_of
from prudent_simulator.runner import RunError, RunPlan, RunResult, run
from prudent_simulator.settings import AlgorithmName, Layout, algorithm_request, paper_settings

ALGORITHMS = (AlgorithmName.LINUCB, AlgorithmName.LINUCB_CR, AlgorithmName.LINUCB_OGD_CR)


def plan_of(run_id: str, experiment: int = 1, layout: Layout = Layout.SHARED, **changes: Any) -> RunPlan:
    environment = environment_of(experiment, Theta.NORMALISED)
    plan = RunPlan(
        environment=environment,
        layout=layout,
        algorithms=ALGORITHMS,
        settings=paper_settings(environment, layout),
        replications=2,
        rounds=14,
        seed=11,
        run_id=f"test-runner.{run_id}",
    )
    return replace(plan, **changes)


@pytest.fixture
def prudent(server_url: str) -> Iterator[Client]:
    with Client(server_url) as opened:
        yield opened


def play(client: Client, plan: RunPlan, **options: Any) -> RunResult:
    return run(client, plan, clock=time.perf_counter, **options)


@pytest.mark.parametrize(
    ("experiment", "layout"),
    [(1, Layout.SHARED), (2, Layout.SHARED), (2, Layout.DISJOINT), (2, Layout.COMMON_CONTEXT), (3, Layout.SHARED)],
)
def test_every_experiment_runs_and_is_scored_right(prudent: Client, experiment: int, layout: Layout) -> None:
    """All experiments and models are accepted; every reward is learned; regret is that of the chosen arms."""
    plan = plan_of(f"e{experiment}-{layout}", experiment, layout)
    result = play(prudent, plan)
    drawn = Sampler(plan.environment, plan.seed, range(2)).draw(plan.rounds)
    assert tuple(result.outcomes) == ALGORITHMS
    for outcome in result.outcomes.values():
        np.testing.assert_array_equal(outcome.regret, drawn.regret(outcome.arms).cumsum(axis=1))
        assert outcome.model["observations"] == plan.rounds
    assert result.timings.pairs == 3 * 2 * plan.rounds


def test_warm_up_plays_every_arm_five_times(prudent: Client) -> None:
    """The paper's warm-up, which the streaming estimators start from."""
    for outcome in play(prudent, plan_of("warmup")).outcomes.values():
        assert (outcome.arms[:, :10].sum(axis=1) == 5).all()


def test_chunks_of_rounds_join(prudent: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds are drawn in chunks; the seams must not show."""
    monkeypatch.setattr("prudent_simulator.runner.CHUNK_ROUNDS", 4)
    plan = plan_of("chunks", algorithms=(AlgorithmName.LINUCB,))
    done: list[int] = []
    outcome = play(prudent, plan, on_round=done.append).outcomes[AlgorithmName.LINUCB]
    drawn = Sampler(plan.environment, plan.seed, range(2)).draw(plan.rounds)
    np.testing.assert_array_equal(outcome.regret, drawn.regret(outcome.arms).cumsum(axis=1))
    assert done == list(range(1, plan.rounds + 1))


def test_the_service_takes_every_setting_as_it_was_sent(prudent: Client) -> None:
    """A setting that the service changed or ignored would change the experiment."""
    plan = plan_of("settings", rounds=1, replications=1)
    play(prudent, plan, keep=True)
    for name in ALGORITHMS:
        campaign = prudent.get_campaign(plan.campaign_ids(name)[0])
        sent = algorithm_request(name, plan.settings, plan.layout)
        assert {key: campaign["algorithm"][key] for key in sent} == sent
        prudent.delete_campaign(plan.campaign_ids(name)[0])


def test_campaigns_are_deleted_unless_kept(prudent: Client) -> None:
    """A simulation must not leave hundreds of campaigns on somebody's service."""
    kept, gone = plan_of("kept", rounds=1), plan_of("gone", rounds=1)
    play(prudent, kept, keep=True)
    play(prudent, gone)
    for name in ALGORITHMS:
        for campaign_id in kept.campaign_ids(name):
            assert prudent.get_campaign(campaign_id)["campaign_id"] == campaign_id
            prudent.delete_campaign(campaign_id)
        for campaign_id in gone.campaign_ids(name):
            with pytest.raises(RejectedError, match="404"):
                prudent.get_campaign(campaign_id)


def test_a_kept_run_repeated_gives_the_same_curves(prudent: Client) -> None:
    """Same ids, same requests: stored decisions are answered and no reward is learned twice."""
    plan = plan_of("again", 2, rounds=20)
    first = play(prudent, plan, keep=True)
    second = play(prudent, plan)
    for name in ALGORITHMS:
        np.testing.assert_array_equal(first.outcomes[name].arms, second.outcomes[name].arms)
        assert second.outcomes[name].model["observations"] == plan.rounds


def test_risk_aware_algorithms_find_the_safe_arm(prudent: Client) -> None:
    """The point of it all: LinUCB takes the wide arm, the risk-aware one learns to leave it."""
    algorithms = (AlgorithmName.LINUCB, AlgorithmName.LINUCB_CR)
    result = play(prudent, plan_of("learning", algorithms=algorithms, replications=4, rounds=120))
    final = {name: float(np.median(outcome.regret[:, -1])) for name, outcome in result.outcomes.items()}
    assert final[AlgorithmName.LINUCB] > 90.0
    assert final[AlgorithmName.LINUCB_CR] < 80.0


def test_coverage_judges_the_scores_of_all_arms(prudent: Client) -> None:
    """A wide bonus covers, none does not; the mean's scores are not judged by the risk."""
    wide = play(prudent, plan_of("wide", coverage=True))
    settings = replace(wide.plan.settings, noise_scale=1e-9, parameter_bound=1e-6, projection=False)
    narrow = play(prudent, plan_of("narrow", coverage=True, settings=settings))
    exact = AlgorithmName.LINUCB_CR
    assert wide.outcomes[AlgorithmName.LINUCB].covered is None
    assert wide.outcomes[exact].covered is not None
    assert wide.outcomes[exact].covered.all()
    assert narrow.outcomes[exact].covered is not None
    assert not narrow.outcomes[exact].covered.any()


def test_a_failed_item_stops_the_run(prudent: Client) -> None:
    """Curves with holes are worse than none; the message names the decision."""
    plan = plan_of("vanishing")
    victim = plan.campaign_ids(AlgorithmName.LINUCB_CR)[1]

    def remove(done: int) -> None:
        if done == 3:
            prudent.delete_campaign(victim)

    with pytest.raises(RejectedError, match=rf"404 for decision 000003\.{victim}"):
        play(prudent, plan, on_round=remove)
    with pytest.raises(RejectedError, match="404"):
        prudent.get_campaign(plan.campaign_ids(AlgorithmName.LINUCB)[0])


def test_a_refused_campaign_stops_the_run_before_it_starts(prudent: Client) -> None:
    """The service's reason reaches the user."""
    plan = plan_of("refused")
    plan = replace(plan, settings=replace(plan.settings, delta=2.0))
    with pytest.raises(RejectedError, match=r"422.*delta"):
        play(prudent, plan)


def test_a_server_killed_in_the_middle_ends_the_run(make_server: Callable[..., Any], sqlite_database: str) -> None:
    """No hanging, and no second failure from cleaning up on a service that is gone."""
    server = make_server(sqlite_database)
    with Client(server.url, attempts=2, sleep=lambda _: None) as client, pytest.raises(UnreachableError):
        play(client, plan_of("killed"), on_round=lambda done: server.kill() if done == 2 else None)


def test_time_is_measured_by_the_clock_given(prudent: Client) -> None:
    """Timings come from the caller's clock alone: here every look at it takes a second."""
    ticks = count()
    plan = plan_of("clock", algorithms=(AlgorithmName.LINUCB,), rounds=3)
    timings = run(prudent, plan, clock=lambda: float(next(ticks))).timings
    assert (timings.select_seconds, timings.reward_seconds, timings.pairs) == (3.0, 3.0, 6)


@pytest.mark.parametrize(
    "changes",
    [
        {"rounds": 0},
        {"rounds": 1_000_000},
        {"replications": 0},
        {"algorithms": ()},
        {"algorithms": (AlgorithmName.LINUCB, AlgorithmName.LINUCB)},
        {"layout": Layout.DISJOINT},
    ],
)
def test_plans_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    """The mistake is told before the service is asked."""
    with pytest.raises(RunError):
        plan_of("nonsense", **changes)


@pytest.mark.parametrize("run_id", ["", "not an id", "a/b", "x" * 65])
def test_run_ids_that_cannot_be_part_of_an_id_are_refused(run_id: str) -> None:
    """Run ids go into the ids of campaigns and decisions."""
    with pytest.raises(RunError, match="run id"):
        replace(plan_of("fine"), run_id=run_id)
