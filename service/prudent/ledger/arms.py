"""Arms as a campaign has them, and as a request may be answered with them."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """A registered arm. position: order of registration, the block of a disjoint model."""

    arm_id: str
    position: int
    status: str
    features: NDArray[np.float64] | None
    since: int


class Candidate(NamedTuple):
    """An arm that may be recommended. features: of the arm, or the request's context. position: if registered."""

    arm_id: str
    features: NDArray[np.float64]
    position: int | None
