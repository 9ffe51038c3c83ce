"""Who plays: the only module of the benchmark that knows the service's policies.

Every learner is built from the body of a `POST /campaigns`, as the service would build it.
"""

from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson

from benchmarks.exploration.problems import Problem
from prudent.campaigns import CampaignConfiguration, build_policy, exploration_rule, resolve
from prudent.core.exploration import Standing, choose
from prudent_simulator.environments import FloatArray, environment_of
from prudent_simulator.settings import AlgorithmName, CampaignPlan, Layout, paper_settings

EPSILON = 0.1
_TINY_RIDGE = 1e-6


@dataclass(frozen=True)
class Learner:
    """A way to play. algorithm: of the campaign. epsilon: the share of uniform draws that the benchmark makes itself.

    paper_only: it exists in the paper's experiments only.
    """

    name: str
    algorithm: dict[str, Any]
    epsilon: float = 0.0
    paper_only: bool = False


def _optimistic(exploration: float) -> dict[str, Any]:
    return {"exploration_rule": "optimistic", "exploration": exploration}


ALL: tuple[Learner, ...] = (
    Learner("default", {}),
    Learner("optimistic-0.5", _optimistic(0.5)),
    Learner("optimistic", _optimistic(1.0)),
    Learner("optimistic-2", _optimistic(2.0)),
    Learner("epsilon-greedy", _optimistic(0.0) | {"regularization": _TINY_RIDGE}, epsilon=EPSILON),
    Learner("uniform", _optimistic(0.0), epsilon=1.0),
    Learner("paper", {}, paper_only=True),
)


def learners_of(problem: Problem) -> list[Learner]:
    """Those that can play it."""
    return [learner for learner in ALL if problem.experiment is not None or not learner.paper_only]


def request_of(problem: Problem, learner: Learner, seed: int) -> dict[str, Any]:
    """The body of `POST /campaigns`."""
    body = problem.campaign(seed)
    if learner.paper_only and problem.experiment is not None:
        environment = environment_of(problem.experiment)
        settings = paper_settings(environment, Layout.SHARED)
        plan = CampaignPlan(environment, Layout.SHARED, AlgorithmName.LINUCB_CR, settings)
        return plan.request(body["campaign_id"], seed)
    return body | {"algorithm": learner.algorithm}


class Player:
    """A learner in one run. Its candidates are the arms so far, in order; features are as in the world."""

    def __init__(self, problem: Problem, learner: Learner, seed: int) -> None:
        body = request_of(problem, learner, seed)
        configuration = resolve(CampaignConfiguration.model_validate_json(orjson.dumps(body)))
        self._epsilon, self._seed = learner.epsilon, seed
        self._arms = len(configuration.arms)
        self._is_shared = configuration.model.type == "shared"
        self._rule = exploration_rule(configuration)
        self._policy = build_policy(configuration, configuration, arms=self._arms)
        self._plays = [0] * self._arms
        self._set_candidates()

    def _set_candidates(self) -> None:
        self._blocks = None if self._is_shared else np.arange(self._arms)
        # with the paper's dials the arms of experiment 1 have their numbers as features
        self._no_features: FloatArray = np.eye(self._arms) if self._is_shared else np.zeros(0)

    def add_arm(self) -> None:
        """One more candidate."""
        self._arms += 1
        self._policy.add_arm(has_block=not self._is_shared)
        self._plays.append(0)
        self._set_candidates()

    def choose(self, decision_id: str, features: FloatArray | None) -> int:
        """The arm to play."""
        if self._epsilon and _uniform(self._seed, decision_id, "whether") < self._epsilon:
            position = int(_uniform(self._seed, decision_id, "which") * self._arms)
        else:
            scores = self._policy.score(self._no_features if features is None else features, self._blocks)
            standing = Standing(self._policy.estimator.observations, self._plays, self._policy.floor_counts.weighed)
            seed = (self._seed, decision_id)
            position = choose(scores, self._rule, standing, explore=True, seed=seed).position
        self._plays[position] += 1
        return position

    def learn(self, arm: int, features: FloatArray | None, reward: float) -> None:
        """What an earlier decision came to."""
        own = self._no_features if features is None else features
        block, x = (0, own[arm]) if self._is_shared else (arm, own)
        self._policy.observe(block, x, reward, arm)


def _uniform(seed: int, decision_id: str, purpose: str) -> float:
    """A draw from [0, 1), a function of the three."""
    digest = blake2b(f"{seed}:{decision_id}:{purpose}".encode(), digest_size=8).digest()
    return (int.from_bytes(digest) >> 11) * 2.0**-53
