"""How an environment file is played: its campaigns and the requests of a round."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from prudent_simulator.custom_environments.environment import EXPERIMENT, OwnEnvironment, OwnSampler
from prudent_simulator.custom_environments.schema import AlgorithmBlock, Mean
from prudent_simulator.environments import FloatArray, Stream, stream_seed
from prudent_simulator.runner import check_run
from prudent_simulator.settings import AlgorithmName

_WHOLE_NUMBER_MAX = 2**53 - 1


@dataclass(frozen=True)
class OwnPlan:
    """What to run; run_id goes into all ids, as for the paper's experiments.

    Only the settings that the file gives are sent: the rest are the service's defaults. `linucb` learns the mean, and
    an algorithm with a `risk` that one, whatever the file's; their regret is still that of the file's risk.
    """

    environment: OwnEnvironment
    replications: int
    rounds: int
    seed: int
    run_id: str
    coverage: bool = False

    def __post_init__(self) -> None:
        check_run(self.run_id, self.rounds, self.replications)

    @property
    def blocks(self) -> dict[str, AlgorithmBlock]:
        """The algorithms by the label that they are shown as."""
        return {block.shown_as: block for block in self.environment.file.algorithms}

    @property
    def algorithms(self) -> tuple[str, ...]:
        """Labels of the algorithms."""
        return tuple(self.blocks)

    @property
    def arm_names(self) -> list[str]:
        """Ids of the arms, in order."""
        return [arm.arm_id for arm in self.environment.file.arms]

    def campaign_ids(self, algorithm: str) -> list[str]:
        """Name the campaigns of one algorithm, (R,)."""
        place = self.algorithms.index(algorithm)
        return [f"{self.run_id}.{place:02d}.{number:05d}" for number in range(self.replications)]

    def campaign_request(self, algorithm: str, position: int) -> dict[str, Any]:
        """Write the body of `POST /campaigns` for one of the replications, the first being 0."""
        source = stream_seed(self.seed, EXPERIMENT, position, Stream.MAGNITUDE)
        return {
            "campaign_id": self.campaign_ids(algorithm)[position],
            "description": f"Simulation of {self.environment.file.name}",
            "seed": int(source.generate_state(1, np.uint64)[0]) & _WHOLE_NUMBER_MAX,
            **self.configuration(algorithm),
        }

    def configuration(self, algorithm: str) -> dict[str, Any]:
        """Write what all campaigns of an algorithm share."""
        file, block = self.environment.file, self.blocks[algorithm]
        given = block.model_dump(mode="json", exclude_none=True, exclude={"label", "risk"})
        risk = block.risk or (Mean(measure="mean") if block.name is AlgorithmName.LINUCB else file.risk)
        configuration: dict[str, Any] = {
            "risk": risk.model_dump(exclude_none=True, exclude_unset=True),
            "model": self._model(),
            "arms": [{"arm_id": arm} for arm in self.arm_names],
            "algorithm": given,
        }
        if file.reward_bounds is not None:
            configuration["reward"] = file.reward_bounds.model_dump()
        return configuration

    def _model(self) -> dict[str, Any]:
        file = self.environment.file
        if file.model == "disjoint":
            return {"type": "disjoint", "dimension": len(file.context)}  # with an intercept, the service's default
        if file.model == "shared":
            given = {} if file.intercept is None else {"intercept": file.intercept}
            return {"type": "shared", "dimension": len(file.theta or {}), **given}
        return {"type": "multi-armed"}

    def candidates(self, features: FloatArray) -> list[dict[str, Any]]:
        """Write the part of a select request that depends on the round, one for each replication.

        features: (R, K, d), which start with a constant unless the model is shared.
        """
        model = self.environment.file.model
        if model == "multi-armed":
            return [{} for _ in features]
        if model == "disjoint":
            return [{"context": context} for context in features[:, 0, 1:].tolist()]
        names = self.arm_names
        return [
            {"arms": [{"arm_id": arm, "features": own} for arm, own in zip(names, of_round, strict=True)]}
            for of_round in features.tolist()
        ]

    @property
    def warmup_rounds(self) -> int:
        """Rounds before the scores count; the service's default warm-up is 2 plays an arm."""
        plays = [2 if block.warmup is None else block.warmup for block in self.blocks.values()]
        return max(plays) * len(self.arm_names)

    def judges_risk(self, algorithm: str) -> bool:
        """All but LinUCB, and those with a risk of their own, estimate the file's risk."""
        block = self.blocks[algorithm]
        return block.risk is None and block.name is not AlgorithmName.LINUCB

    def sampler(self) -> OwnSampler:
        """Open the random streams."""
        return OwnSampler(self.environment, self.seed, range(self.replications))
