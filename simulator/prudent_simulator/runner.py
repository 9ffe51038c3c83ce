"""Replays an experiment through the HTTP API, all algorithms and replications side by side.

Each algorithm has one campaign for each replication. A round is one select batch over all campaigns, then one reward
batch. Every algorithm meets the same features and the same potential rewards, so curves can be compared in pairs.
"""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from prudent_client import ClientError, UnreachableError
from prudent_simulator.client import Client, JsonObject
from prudent_simulator.environments import Environment, FloatArray, IntArray, Rounds, Sampler
from prudent_simulator.settings import (
    AlgorithmName,
    CampaignPlan,
    Layout,
    Settings,
    arm_ids,
    campaign_seed,
    select_candidates,
)

BoolArray = npt.NDArray[np.bool_]
ROUNDS_MAX = 999_999
CHUNK_ROUNDS = 100
_RUN_ID = re.compile(r"[A-Za-z0-9._~-]{1,64}")


class RunError(Exception):
    """The run cannot start or continue."""


NameT = TypeVar("NameT", bound=str)


def check_run(run_id: str, rounds: int, replications: int) -> None:
    """Refuse ids that cannot be sent, and runs of no or too many rounds. Raises RunError."""
    if not _RUN_ID.fullmatch(run_id):
        raise RunError("the run id must be 1 to 64 characters out of A-Z a-z 0-9 . _ ~ -")
    if not 1 <= rounds <= ROUNDS_MAX or replications < 1:
        raise RunError(f"there must be 1 to {ROUNDS_MAX} rounds and at least 1 replication")


class Draws(Protocol):
    """Draws the rounds of all replications, chunk after chunk."""

    def draw(self, rounds: int) -> Rounds:
        """Draw the next rounds of every replication."""


class Plan(Protocol[NameT]):
    """What can be played: an experiment of the paper, or an environment of one's own."""

    @property
    def algorithms(self) -> tuple[NameT, ...]:
        """Names of the algorithms, each different."""

    @property
    def replications(self) -> int:
        """R."""

    @property
    def rounds(self) -> int:
        """T."""

    @property
    def coverage(self) -> bool:
        """Whether the scores of all arms are asked for and judged."""

    @property
    def warmup_rounds(self) -> int:
        """Rounds before the scores count."""

    @property
    def arm_names(self) -> list[str]:
        """Ids of the arms, in order."""

    def campaign_ids(self, algorithm: NameT) -> list[str]:
        """Name the campaigns of one algorithm, (R,)."""

    def campaign_request(self, algorithm: NameT, position: int) -> dict[str, Any]:
        """Write the body of `POST /campaigns` for one of the replications, the first being 0."""

    def candidates(self, features: FloatArray) -> list[dict[str, Any]]:
        """Write the part of a select request that depends on the round, one for each replication."""

    def judges_risk(self, algorithm: NameT) -> bool:
        """Whether the algorithm estimates the environment's risk, so that its scores can be judged by it."""

    def sampler(self) -> Draws:
        """Open the random streams."""


@dataclass(frozen=True)
class RunPlan:
    """What to run.

    run_id goes into the ids of campaigns and decisions. The service breaks ties by (campaign seed, decision id), so
    the same plan with the same run_id on an empty service repeats every choice; two runs at once on one service need
    different ones. coverage asks for the scores of all arms in every round, which costs time. The replications are
    first_replication, first_replication + 1, ...; what one of them does depends only on its number, so that a large
    run may be cut into pieces.
    """

    environment: Environment
    layout: Layout
    algorithms: tuple[AlgorithmName, ...]
    settings: Settings
    replications: int
    rounds: int
    seed: int
    run_id: str
    coverage: bool = False
    first_replication: int = 0

    @property
    def numbers(self) -> range:
        """Numbers of the replications."""
        return range(self.first_replication, self.first_replication + self.replications)

    def __post_init__(self) -> None:
        check_run(self.run_id, self.rounds, self.replications)
        if self.first_replication < 0:
            raise RunError("replications are numbered from 0")
        if not self.algorithms or len(set(self.algorithms)) != len(self.algorithms):
            raise RunError("name at least one algorithm, and each only once")
        if self.layout is not Layout.SHARED and self.environment.experiment != 2:
            raise RunError(f"the {self.layout} model belongs to experiment 2 only")

    def campaign_ids(self, algorithm: AlgorithmName) -> list[str]:
        """Name the campaigns of one algorithm, (R,)."""
        return [f"{self.run_id}.{algorithm}.{number:05d}" for number in self.numbers]

    @property
    def warmup_rounds(self) -> int:
        """Rounds before the scores count."""
        return self.settings.warmup * self.environment.arm_count

    @property
    def arm_names(self) -> list[str]:
        """Ids of the arms, in order."""
        return arm_ids(self.environment)

    def campaign_request(self, algorithm: AlgorithmName, position: int) -> dict[str, Any]:
        """Write the body of `POST /campaigns` for one of the replications, the first being 0."""
        common = CampaignPlan(self.environment, self.layout, algorithm, self.settings)
        seed = campaign_seed(self.environment, self.seed, self.numbers[position])
        return common.request(self.campaign_ids(algorithm)[position], seed)

    def candidates(self, features: FloatArray) -> list[dict[str, Any]]:
        """Write the part of a select request that depends on the round, one for each replication."""
        return select_candidates(self.layout, self.arm_names, features)

    def judges_risk(self, algorithm: AlgorithmName) -> bool:
        """All but LinUCB: the mean is not the risk, and its scores say nothing about it."""
        return algorithm is not AlgorithmName.LINUCB

    def sampler(self) -> Sampler:
        """Open the random streams."""
        return Sampler(self.environment, self.seed, self.numbers)


@dataclass
class Timings:
    """Seconds spent waiting for the service, and how many decisions and rewards it took."""

    select_seconds: float = 0.0
    reward_seconds: float = 0.0
    total_seconds: float = 0.0
    pairs: int = 0


@dataclass(frozen=True)
class Outcome:
    """What an algorithm did.

    regret: (R, T) running total of the regret, reward units; arms: (R, T) index of the chosen arm; covered: (R,)
    whether |estimate - risk| <= bonus held for every arm in every round after warm-up, or None when not asked for;
    model: the service's account of the first replication's campaign at the end.
    """

    regret: FloatArray
    arms: IntArray
    covered: BoolArray | None
    model: dict[str, Any]


@dataclass(frozen=True)
class Played(Generic[NameT]):
    """Outcomes by algorithm, in the order of the plan."""

    outcomes: dict[NameT, Outcome]
    timings: Timings


@dataclass(frozen=True)
class RunResult:
    """Outcomes by algorithm, in the order of the plan."""

    plan: RunPlan
    outcomes: dict[AlgorithmName, Outcome]
    timings: Timings


@dataclass
class _Tracks:
    """Growing records, one row per campaign: algorithms one after the other, R rows each."""

    regret: FloatArray
    arms: IntArray
    covered: BoolArray

    @classmethod
    def empty(cls, campaigns: int, rounds: int) -> "_Tracks":
        shape = (campaigns, rounds)
        return cls(np.zeros(shape), np.zeros(shape, dtype=np.int64), np.ones(campaigns, dtype=np.bool_))


@dataclass
class _Run(Generic[NameT]):
    client: Client
    plan: Plan[NameT]
    clock: Callable[[], float]
    campaigns: Sequence[str]
    timings: Timings = field(default_factory=Timings)
    features: FloatArray | None = None
    candidates: list[JsonObject] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.arm_index = {name: index for index, name in enumerate(self.plan.arm_names)}
        self.tracks = _Tracks.empty(len(self.campaigns), self.plan.rounds)
        self.rows = np.arange(len(self.campaigns))

    def play(self, chunk: Rounds, offset: int, on_round: Callable[[int], None]) -> None:
        """Play the rounds of one chunk, the first of which is round `offset` of the run."""
        for step in range(chunk.rewards.shape[1]):
            self._play_round(chunk, step, offset + step)
            on_round(offset + step + 1)
        last = offset + chunk.rewards.shape[1]
        algorithms = len(self.plan.algorithms)
        chosen = self.tracks.arms[:, offset:last].reshape(algorithms, self.plan.replications, -1)
        scored = np.concatenate([chunk.regret(of_algorithm) for of_algorithm in chosen])
        self.tracks.regret[:, offset:last] = scored

    def _play_round(self, chunk: Rounds, step: int, number: int) -> None:
        prefix = f"{number:06d}."
        decisions = [prefix + campaign for campaign in self.campaigns]
        selects = self._selects(chunk.features[:, step], decisions)
        started = self.clock()
        replies = self.client.select_batch(selects)
        selected = self.clock()
        arms = self._arms_of(replies, decisions)
        potential = np.tile(chunk.rewards[:, step], (len(self.plan.algorithms), 1))
        rewards = potential[self.rows, arms].tolist()
        sent = [
            {"decision_id": decision, "reward": reward} for decision, reward in zip(decisions, rewards, strict=True)
        ]
        answered = self.clock()
        self.client.reward_batch(sent)
        self.timings.select_seconds += selected - started
        self.timings.reward_seconds += self.clock() - answered
        self.timings.pairs += len(decisions)
        self.tracks.arms[:, number] = arms
        if self.plan.coverage and number >= self.plan.warmup_rounds:
            self._check_coverage(replies, chunk.risks[:, step])

    def _selects(self, features: FloatArray, decisions: Sequence[str]) -> list[JsonObject]:
        if self.features is None or not np.array_equal(features, self.features):  # two experiments never change them
            of_algorithm = self.plan.candidates(features)
            self.features, self.candidates = features, of_algorithm * len(self.plan.algorithms)
        shared = {"explain": True} if self.plan.coverage else {}
        return [
            {"campaign_id": campaign, "decision_id": decision, **candidates, **shared}
            for campaign, decision, candidates in zip(self.campaigns, decisions, self.candidates, strict=True)
        ]

    def _arms_of(self, replies: Sequence[JsonObject], decisions: Sequence[str]) -> IntArray:
        """Give the index of each chosen arm, (campaigns,)."""
        arms = np.array([self.arm_index.get(reply["arm_id"], -1) for reply in replies], dtype=np.int64)
        wrong = [reply["decision_id"] != decision for reply, decision in zip(replies, decisions, strict=True)]
        if any(wrong) or arms.min() < 0:
            row = wrong.index(True) if any(wrong) else int(arms.argmin())
            raise RunError(
                f"decision {decisions[row]} came back as {replies[row]['decision_id']} for arm "
                f"{replies[row]['arm_id']}, which is not one of {', '.join(self.arm_index)}"
            )
        return arms

    def _check_coverage(self, replies: Sequence[JsonObject], risks: FloatArray) -> None:
        for row, reply in enumerate(replies):
            scores = reply.get("arms")
            if scores is None:
                raise RunError("the service sent no scores, though explain was set")
            truth = risks[row % len(risks)]
            for score in scores:
                bonus = math.inf if score["bonus"] is None else score["bonus"]
                if abs(score["estimate"] - truth[self.arm_index[score["arm_id"]]]) > bonus:
                    self.tracks.covered[row] = False


@contextmanager
def _created(client: Client, plan: Plan[NameT], *, keep: bool) -> Iterator[list[str]]:
    """Create the campaigns, and delete them afterwards unless they are to be kept or the service is gone."""
    created: list[str] = []
    try:
        for algorithm in plan.algorithms:
            for position, campaign_id in enumerate(plan.campaign_ids(algorithm)):
                created.append(campaign_id)
                client.create_campaign(plan.campaign_request(algorithm, position))
        yield created
    except UnreachableError:
        raise  # there is nobody to ask for a deletion
    except BaseException:
        with suppress(RunError):  # the first failure is the one to tell
            _delete(client, [] if keep else created)
        raise
    _delete(client, [] if keep else created)


def _delete(client: Client, campaigns: Sequence[str]) -> None:
    for position, campaign in enumerate(campaigns):
        try:
            client.delete_campaign(campaign)
        except ClientError as error:
            left = len(campaigns) - position
            raise RunError(f"{left} campaigns of this run could not be deleted: {error}") from error


def run(
    client: Client,
    plan: RunPlan,
    *,
    clock: Callable[[], float],
    on_round: Callable[[int], None] = lambda _: None,
    keep: bool = False,
) -> RunResult:
    """Play an experiment of the paper; see `play`."""
    played = play(client, plan, clock=clock, on_round=on_round, keep=keep)
    return RunResult(plan, played.outcomes, played.timings)


def play(
    client: Client,
    plan: Plan[NameT],
    *,
    clock: Callable[[], float],
    on_round: Callable[[int], None] = lambda _: None,
    keep: bool = False,
) -> Played[NameT]:
    """Play the plan and give what every algorithm did.

    clock: seconds, only ever going up; on_round: told how many rounds are done; keep: leave the campaigns on the
    service. Raises ClientError when the service is gone or refuses, RunError when it answers nonsense.
    """
    sampler = plan.sampler()
    started = clock()
    with _created(client, plan, keep=keep) as campaigns:
        state = _Run(client, plan, clock, campaigns)
        for offset in range(0, plan.rounds, CHUNK_ROUNDS):
            chunk = sampler.draw(min(CHUNK_ROUNDS, plan.rounds - offset))
            state.play(chunk, offset, on_round)
        models = {name: client.model(plan.campaign_ids(name)[0]) for name in plan.algorithms}
    state.timings.total_seconds = clock() - started
    return Played(_outcomes(plan, state.tracks, models), state.timings)


def _outcomes(plan: Plan[NameT], tracks: _Tracks, models: dict[NameT, dict[str, Any]]) -> dict[NameT, Outcome]:
    outcomes = {}
    for position, name in enumerate(plan.algorithms):
        rows = slice(position * plan.replications, (position + 1) * plan.replications)
        covered = tracks.covered[rows] if plan.coverage and plan.judges_risk(name) else None
        outcomes[name] = Outcome(tracks.regret[rows].cumsum(axis=1), tracks.arms[rows], covered, models[name])
    return outcomes
