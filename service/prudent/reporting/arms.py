"""What a report says of one arm."""

from dataclasses import dataclass

import numpy as np

from prudent.core.measures import Measure
from prudent.reporting.collection import ArmTally


@dataclass(frozen=True, slots=True)
class Rewards:
    """What an arm's rewards show, whatever the features they came with. interval: of the risk, 95%, asymptotic."""

    n: int
    mean: float | None
    standard_deviation: float | None
    minimum: float | None
    maximum: float | None
    risk: float | None
    interval: tuple[float, float] | None
    sources: dict[str, int]


@dataclass(frozen=True, slots=True)
class External:
    """Choices that the application made itself. agreed: those that were ours, too; agreement: their share."""

    decisions: int
    agreed: int
    agreement: float | None


@dataclass(frozen=True, slots=True)
class ArmReport:
    """One arm. status: None for an arm that is not registered."""

    arm_id: str
    status: str | None
    plays: int
    share: float | None
    pending: int
    expired: int
    external: External
    rewards: Rewards


def describe_arm(arm_id: str, status: str | None, tally: ArmTally, plays: int, measure: Measure) -> ArmReport:
    """The arm's counts, and statistics of its rewards. plays: of all arms together."""
    return ArmReport(
        arm_id=arm_id,
        status=status,
        plays=tally.plays,
        share=tally.plays / plays if plays else None,
        pending=tally.pending,
        expired=tally.expired,
        external=describe_external(tally.external, tally.agreed),
        rewards=_rewards(tally, measure),
    )


def describe_external(decisions: int, agreed: int) -> External:
    """Counts with their share."""
    return External(decisions, agreed, agreed / decisions if decisions else None)


def _rewards(tally: ArmTally, measure: Measure) -> Rewards:
    values = np.frombuffer(tally.rewards) if tally.rewards else np.zeros(0)
    sources = {source.replace("-", "_"): tally.sources[source] for source in ("reward", "default", "warm-start")}
    if not len(values):
        return Rewards(0, None, None, None, None, None, None, sources)
    risk = measure.risk(values)
    return Rewards(
        n=len(values),
        mean=float(values.mean()),
        standard_deviation=float(values.std(ddof=1)) if len(values) > 1 else None,
        minimum=float(values.min()),
        maximum=float(values.max()),
        risk=risk,
        interval=measure.interval(values, risk),
        sources=sources,
    )
