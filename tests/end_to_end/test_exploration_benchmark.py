"""The benchmark of exploration: what it plays is what its page says, and what the service would do."""

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from benchmarks.exploration.__main__ import main, parsed_options
from benchmarks.exploration.learners import ALL as LEARNERS
from benchmarks.exploration.learners import Player, learners_of, request_of
from benchmarks.exploration.page import MARK, main_table, means_table
from benchmarks.exploration.play import Run, judged, play, points
from benchmarks.exploration.problems import ALL, DELAYS, LATE, TAXI
from benchmarks.exploration.results import Results, geometric_means, summarised
from benchmarks.exploration.worlds import World, risk_of
from prudent_simulator.risks import gaussian_expectile
from tests.servers import ROOT

PROBLEMS = {problem.name: problem for problem in ALL}
BY_NAME = {learner.name: learner for learner in LEARNERS}


class Scripted:
    """Plays arms in a given order, and remembers what it was told when."""

    def __init__(self, arms: list[int]) -> None:
        self.arms, self.count, self.joined = arms, 0, []
        self.learned: list[tuple[int, int, float]] = []

    def choose(self, decision_id: str, _features: object) -> int:
        assert decision_id == f"run-{self.count}"
        self.count += 1
        return self.arms[self.count - 1]

    def learn(self, arm: int, _features: object, reward: float) -> None:
        self.learned.append((self.count, arm, reward))

    def add_arm(self) -> None:
        self.joined.append(self.count)


class OverHttp:
    """A learner that is a campaign of a running service."""

    def __init__(self, client: httpx.Client, body: dict[str, Any]) -> None:
        self._client, self._body = client, body
        self._campaign = body["campaign_id"]
        self._arms = [arm["arm_id"] for arm in body["arms"]]
        self._open: list[tuple[str, int]] = []
        self._post("/campaigns", body)

    def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        reply: dict[str, Any] = self._client.post(path, json=body).raise_for_status().json()
        return reply

    def add_arm(self) -> None:
        self._arms.append(f"arm-{len(self._arms) + 1}")
        self._post(f"/campaigns/{self._campaign}/arms", {"arm_id": self._arms[-1]})

    def choose(self, decision_id: str, features: Any) -> int:
        asked: dict[str, Any] = {"campaign_id": self._campaign, "decision_id": decision_id}
        if self._body["model"]["type"] == "shared":
            pairs = zip(self._arms, features.tolist(), strict=True)
            asked["arms"] = [{"arm_id": arm, "features": own} for arm, own in pairs]
        elif features is not None:
            asked["context"] = features.tolist()
        position = self._arms.index(self._post("/select", asked)["arm_id"])
        self._open.append((decision_id, position))
        return position

    def learn(self, arm: int, _features: object, reward: float) -> None:
        """With one round's reward after the other: without delays the newest decision, else the oldest of the arm."""
        number = next(n for n, (_, played) in enumerate(self._open) if played == arm)
        decision_id, _ = self._open.pop(number)
        self._post("/reward", {"decision_id": decision_id, "reward": reward})


@pytest.mark.parametrize("learner", ["default", "optimistic", "optimistic-0.5"])
@pytest.mark.parametrize("name", ["offset", "clicks", "taxi", "shared", "late-arm"])
def test_the_arms_are_those_of_the_service(client: httpx.Client, name: str, learner: str) -> None:
    """The benchmark's figures are about the service only if it is the service that plays."""
    problem, seed = PROBLEMS[name], 7 + len(learner)
    world = problem.world(seed, 60)
    if world.joins is not None:
        world = World(world.risks, world.rewards, joins=np.minimum(world.joins, 30))
    name = f"benchmark-{name}-{learner}"
    served = OverHttp(client, request_of(problem, BY_NAME[learner], seed) | {"campaign_id": name})
    here = play(world, Player(problem, BY_NAME[learner], seed), name)
    assert play(world, served, name).tolist() == here.tolist()
    assert len(set(here.tolist())) > 1


def test_rewards_are_learned_in_time_and_not_before() -> None:
    """A learner that saw a reward early would look better than it can be; delays are what one problem is about."""
    rewards = np.arange(12.0).reshape(6, 2)
    world = World(rewards, rewards, joins=np.array([0, 2]), delays=np.array([0, 3, 1, 0, 0, 0]))
    player = Scripted([0, 0, 1, 0, 1, 1])
    assert play(world, player, "run").tolist() == [0, 0, 1, 0, 1, 1]
    assert player.joined == [2]
    assert player.learned == [(1, 0, 0.0), (4, 1, 5.0), (4, 0, 6.0), (5, 0, 2.0), (5, 1, 9.0)]


def test_lock_in_and_regret_of_runs_made_by_hand() -> None:
    """The share of locked runs is a promise of the default."""
    gaussian, taxi = PROBLEMS["gaussian"], PROBLEMS["taxi"]
    world = gaussian.world(0, 400)
    gaps = risk_of_gaps(world)
    stuck, curious = np.full(400, 3), np.where(np.arange(400) % 20 == 0, 1, 3)
    assert judged(gaussian, world, stuck).is_locked
    assert not judged(gaussian, world, curious).is_locked
    # late enough: what happened before the last quarter does not count
    assert not judged(gaussian, world, np.where(np.arange(400) < 300, 3, 1)).is_locked
    run = judged(gaussian, world, stuck)
    assert run.regret[-1] == pytest.approx(400 * gaps[3])
    assert run.uniform[-1] == pytest.approx(400 * gaps.mean())
    assert len(run.regret) == len(points(400))
    driven = taxi.world(0, 400)
    assert judged(taxi, driven, np.full(400, 2)).is_locked
    assert not judged(taxi, driven, np.argmax(driven.risks, axis=1)).is_locked
    assert judged(taxi, driven, np.argmax(driven.risks, axis=1)).regret[-1] == 0.0


def risk_of_gaps(world: World) -> Any:
    return world.risks[0].max() - world.risks[0]


def test_the_problems_are_what_they_say() -> None:
    """The page describes them in words."""
    means, deviations = np.array([1.0, 1.6, 2.2, 3.2, 1.2]), np.array([0.5, 1.0, 2.0, 3.0, 1.0])
    gaussian = PROBLEMS["gaussian"].world(1)
    assert gaussian.risks[0] == pytest.approx(means + deviations * gaussian_expectile(0.1))
    assert gaussian.rewards.mean(axis=0) == pytest.approx(means, abs=0.3)
    assert PROBLEMS["offset"].world(1).risks == pytest.approx(PROBLEMS["gaussian"].world(1).risks + 20.0)
    late = PROBLEMS["late-arm"].world(1)
    assert late.joins is not None
    assert late.joins.tolist() == [0, 0, 0, 0, LATE]
    assert int(np.argmax(late.risks[0])) == 4
    assert np.isnan(late.gaps()[LATE - 1, 4])
    assert late.gaps()[LATE, 4] == 0.0
    delays = PROBLEMS["delay"].world(1).delays
    assert delays is not None
    assert (delays.min(), delays.max()) == DELAYS
    drift = PROBLEMS["drift"].world(1)
    assert np.argmax(drift.risks[[0, 999, 1000, 1999]], axis=1).tolist() == [1, 1, 4, 4]
    assert np.argmin(drift.risks[[0, 1000]], axis=1).tolist() == [4, 1]
    taxi = PROBLEMS["taxi"].world(1)
    assert taxi.features is not None
    assert sorted(set(np.argmax(taxi.risks, axis=1)[taxi.features[:, 0] == 1].tolist())) == [1]
    assert sorted(set(np.argmax(taxi.risks, axis=1)[taxi.features[:, 0] == 0].tolist())) == [0]
    # where 0.2 (2/3) (25 - v) = 0.8 (1/3) (v + 35), without the normal's spread
    assert risk_of(TAXI[1][0], 0.2) == pytest.approx(-15.0, abs=0.01)
    jackpot = PROBLEMS["jackpot"].world(1)
    assert jackpot.risks[0].tolist() == pytest.approx([0.5, 1.0])
    assert [problem.rounds for problem in ALL if problem.name.startswith("catastrophes")] == [3_000, 20_000]


@pytest.mark.parametrize("problem", ALL, ids=lambda problem: problem.name)
def test_every_learner_plays_every_problem_and_repeats_itself(problem: Any) -> None:
    """A figure that cannot be reproduced is none; a uniform draw's must be 1."""
    for learner in learners_of(problem):
        world = problem.world(3, 40)
        again = [play(problem.world(3, 40), Player(problem, learner, 3), "run").tolist() for _ in range(2)]
        assert again[0] == again[1]
        assert (problem.world(4, 40).rewards != world.rewards).any()
        counts = np.bincount(again[0], minlength=problem.arms)
        assert (counts[: problem.starters] > 0).all() or problem.arms == 20
    uniform = play(problem.world(5, 800), Player(problem, BY_NAME["uniform"], 5), "run")
    run = judged(problem, problem.world(5, 800), uniform)
    assert run.regret[-1] / run.uniform[-1] == pytest.approx(1.0, abs=0.2)


def test_the_learners_are_what_they_say() -> None:
    """A row would be attributed to another learner."""
    gaussian, experiment = PROBLEMS["gaussian"], PROBLEMS["experiment-2"]
    assert "paper" not in [learner.name for learner in learners_of(gaussian)]
    assert [learner.name for learner in learners_of(experiment)] == [learner.name for learner in LEARNERS]
    assert request_of(gaussian, BY_NAME["default"], 1)["algorithm"] == {}
    assert request_of(gaussian, BY_NAME["optimistic-2"], 1)["algorithm"]["exploration"] == 2.0
    dials = request_of(experiment, BY_NAME["paper"], 1)["algorithm"]
    assert (dials["noise_scale"], dials["bonus"], dials["conditioning"]) == (0.1, "local", "theory")
    greedy = play(gaussian.world(0, 400), Player(gaussian, BY_NAME["epsilon-greedy"], 0), "run")
    assert np.bincount(greedy[100:]).max() > 200


def run_of(regret: float, *, is_locked: bool = False) -> Run:
    return Run([0.0, regret], [1.0, 2.0], is_locked)


def test_the_summaries_are_those_of_the_runs() -> None:
    """The tables and the promises are read off these."""
    one = summarised([run_of(1.0), run_of(2.0), run_of(6.0, is_locked=True)])
    assert (one.runs, one.median, one.mean, one.regret) == (3, 1.0, 1.5, 3.0)
    assert one.locked == pytest.approx(1 / 3)
    assert one.high == pytest.approx(np.percentile([0.5, 1.0, 3.0], 95))
    half = summarised([run_of(0.5), run_of(1.0), run_of(3.0)])
    assert geometric_means({"a": half, "b": one}, {"a": one, "b": one}) == pytest.approx([0.5**0.5] * 3)
    summaries = {"gaussian": {"default": half, "optimistic": one}, "jackpot": {"default": one, "optimistic": one}}
    assert "| gaussian | 0.500 [1.40] | 1.000 [2.80], 0.333 |" in main_table(summaries)
    assert "| `default` | 0.71 | 0.71 | 0.71 | 0.50 | 0.50 | 0.50 | 0.333 (jackpot) |" in means_table(summaries)


def test_a_run_that_was_cut_off_is_played_again(tmp_path: Path) -> None:
    """Ctrl-C in the second hour must not cost the first, nor leave a file that cannot be read."""
    results = Results(tmp_path)
    results.add("taxi", 40, "default", 0, run_of(1.0))
    results.add("taxi", 40, "default", 1, run_of(2.0))
    file = tmp_path / "taxi.jsonl"
    file.write_bytes(file.read_bytes()[:-7])
    assert results.load("taxi", 40) == {"default": {0: run_of(1.0)}}
    results.add("taxi", 40, "default", 1, run_of(3.0, is_locked=True))
    assert results.load("taxi", 40) == {"default": {0: run_of(1.0), 1: run_of(3.0, is_locked=True)}}
    assert results.load("taxi", 2_000) == {}


def test_it_goes_on_where_it_stopped_and_prints_the_same_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole program, small: two problems, then one more seed, then the page alone."""
    common = ["--only", "taxi", "jackpot", "--learners", "optimistic", "uniform", "--rounds", "30", "--print"]
    common += ["--directory", str(tmp_path), "--processes", "1"]
    main([*common, "--seeds", "1"])
    assert "1 seeds." in capsys.readouterr().out
    before = (tmp_path / "taxi.jsonl").read_text()
    main([*common, "--seeds", "2"])
    printed = capsys.readouterr().out
    assert (tmp_path / "taxi.jsonl").read_text().startswith(before)
    assert len((tmp_path / "taxi.jsonl").read_text().splitlines()) == 4
    main([*common, "--seeds", "2", "--render"])
    assert capsys.readouterr().out == printed
    assert "| taxi |" in printed
    assert "### jackpot" in printed
    for name in ("taxi", "jackpot"):
        picture = (tmp_path / f"{name}.svg").read_text()
        assert "optimistic" in picture
        assert len(picture) < 60_000  # the site carries one per problem


def test_options() -> None:
    """A name misspelt would run everything for hours."""
    assert parsed_options([]).seeds == 200
    for wrong in (["--only", "taxis"], ["--learners", "best"], ["--seeds", "0"], ["--rounds", "1"]):
        with pytest.raises(SystemExit):
            parsed_options(wrong)


def test_the_page_has_its_mark_and_all_pictures() -> None:
    """`make exploration` writes below the mark and keeps what is above it."""
    text = (ROOT / "docs" / "exploration-benchmark.md").read_text(encoding="utf-8")
    assert text.count(MARK) == 1
    for learner in LEARNERS:
        assert f"`{learner.name}`" in text.split(MARK)[0]
