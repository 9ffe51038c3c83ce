"""The report of a campaign: each arm's rewards, the price of caution, and whether it learns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from prudent.core.measures import INTERVAL_COUNT_MIN
from prudent.reporting.arms import ArmReport, External, describe_arm, describe_external
from prudent.reporting.collection import Collection, Connect, collect
from prudent.reporting.comparison import Learning, PriceOfCaution, describe_learning, price_of_caution


@dataclass(frozen=True, slots=True)
class CampaignReport:
    """The contract's ``GET /campaigns/{campaign_id}/report``. head: the last row of the log that it counts."""

    campaign_id: str
    status: str
    risk: dict[str, Any]
    observations: int
    head: int
    plays: int
    pending: int
    expired: int
    external: External
    arms: list[ArmReport]
    unlisted: dict[str, int]
    price_of_caution: PriceOfCaution
    learning: Learning
    interval_note: str


INTERVAL_NOTE = (
    f"Asymptotic 95% intervals from the rewards alone, for arms with at least {INTERVAL_COUNT_MIN} rewards that are "
    "not all equal. They are no guarantee: rewards of an arm that was chosen because it looked good, or for some "
    "features more than for others, are not a plain sample."
)


def report(connect: Connect, campaign_id: str, clock: Callable[[], int]) -> CampaignReport | None:
    """Read and assemble; None if there is no such campaign."""
    found = collect(connect, campaign_id, clock)
    return None if found is None else assemble(found)


def assemble(found: Collection) -> CampaignReport:
    """The report of what was counted."""
    configuration, tallies = found.configuration, found.tallies
    measure = configuration.measure()
    statuses = {arm.arm_id: arm.status for arm in found.arms}
    everything = [*tallies.by_arm.values(), tallies.others]
    plays = sum(tally.plays for tally in everything)
    arms = [
        describe_arm(arm_id, statuses.get(arm_id), tally, plays, measure) for arm_id, tally in tallies.by_arm.items()
    ]
    in_the_race = [arm for arm in arms if arm.status in (None, "active") and arm.rewards.n]
    return CampaignReport(
        campaign_id=configuration.campaign_id,
        status=found.campaign.status,
        risk=configuration.risk.model_dump(),
        observations=found.campaign.observations,
        head=found.campaign.head,
        plays=plays,
        pending=sum(tally.pending for tally in everything),
        expired=sum(tally.expired for tally in everything),
        external=describe_external(
            sum(tally.external for tally in everything), sum(tally.agreed for tally in everything)
        ),
        arms=arms,
        unlisted={"plays": tallies.others.plays, "rewards": len(tallies.others.rewards)},
        price_of_caution=price_of_caution(in_the_race, measure),
        learning=describe_learning(in_the_race, found.recent, found.campaign),
        interval_note=INTERVAL_NOTE,
    )
