"""Learning loops, as Personalizer's clients know them: campaigns that rank, fill slots, and learn from rewards.

Whatever can be repeated is tried again inside, since these clients do not, or wait for half a minute.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Connection

from prudent.api.doors.persistence import persistently, settled
from prudent.api.doors.rank_requests import (
    OF_SLOT,
    MultiSlotRankRequest,
    RankRequest,
    ServiceConfiguration,
    SlotReward,
    as_id,
    event_id_of,
    named_values,
    of_slot,
    slot_id_of,
)
from prudent.api.doors.ranking import Loop, Shape, allowed_in, ranking_of, select_of, shape_of
from prudent.campaigns import AlgorithmChange, CampaignConfiguration, RewardRules, stored
from prudent.clock import Clock, DecisionIds
from prudent.errors import ConflictError, InvalidCommandError, LateRewardError, NoArmLeftError, NotFoundError
from prudent.ledger.access import LedgerAccess
from prudent.ledger.commands import Activate, Author, ChangeCampaign, Command, Reward, Select
from prudent.ledger.missing import no_campaign
from prudent.ledger.outcomes import Decision
from prudent.ledger.rewards import check_bounds
from prudent.observability.metrics import Metrics
from prudent.reporting.decision_log import read_decision
from prudent.store import campaigns, decisions
from prudent.store.read_pool import Reader

PATIENCE_SECONDS = 10.0
"""Their default time-outs are far longer, and an answer that is late is better than a 503."""
SHAPES_MAX = 128
NO_EVENT = "there is no such event of this campaign, or no such slot: rank it first"
NO_SLOT = "the event has no such slot"
NO_ACTION = "none is left to choose from: see excludedActions, and which arms of the campaign are paused or retired"
Json = dict[str, Any]
_DURATION = TypeAdapter(timedelta)


class Loops:
    """All loops of a service. Its methods raise CommandError or UnavailableError."""

    def __init__(self, ledger: LedgerAccess, read: Reader, metrics: Metrics, clock: Clock) -> None:
        self._ledger, self._read, self._metrics = ledger, read, metrics
        self._new_id = DecisionIds(clock)
        self._shape_of = lru_cache(SHAPES_MAX)(shape_of)

    async def rank(self, campaign_id: str, asked: RankRequest) -> Json:
        """The ranking of an event. Of requests under one event id the first counts."""
        event_id = asked.event_id or self._new_id()
        return await persistently(lambda: self._rank(campaign_id, asked, event_id), PATIENCE_SECONDS)

    async def fill(self, campaign_id: str, asked: MultiSlotRankRequest) -> Json:
        """An action for each slot of an event. Every slot is a decision, and they are made in their order."""
        event_id = asked.event_id or self._new_id()
        return await persistently(lambda: self._fill(campaign_id, asked, event_id), PATIENCE_SECONDS)

    async def learn(self, rewards: Mapping[str, Reward]) -> None:
        """Learn rewards, by the field of the request that each is in.

        A second, different one and a late one are counted: their senders take no other answer.
        """
        failed: Exception | None = None
        for field, outcome in zip(rewards, await self._submit_all([*rewards.values()]), strict=True):
            if isinstance(outcome, LateRewardError):
                self._count("late")
            elif isinstance(outcome, ConflictError) and outcome.field == "reward":
                self._count("different")
            elif isinstance(outcome, InvalidCommandError):
                failed = failed or InvalidCommandError(outcome.message, field=field)
            elif isinstance(outcome, Exception):
                failed = failed or outcome
            else:
                self._count("repeated" if outcome.duplicate else "learned")
        if failed is not None:
            raise failed

    async def learn_slots(self, campaign_id: str, event_id: str, given: Sequence[SlotReward]) -> None:
        """Learn the rewards of an event's slots. They are checked first, so that none is learned if one is refused."""
        prefix = event_id_of(campaign_id, event_id) + OF_SLOT
        rules, made = await persistently(lambda: self._read(_find_slots, campaign_id, prefix), PATIENCE_SECONDS)
        rewards: dict[str, Reward] = {}
        for place, one in enumerate(given):
            decision_id = slot_id_of(campaign_id, event_id, one.slot_id)
            if decision_id not in made:
                raise NotFoundError(NO_SLOT, field=f"reward.{place}.slotId")
            field = f"reward.{place}.value"
            try:
                check_bounds(rules, one.value)
            except InvalidCommandError as error:
                raise InvalidCommandError(error.message, field=field) from None
            rewards[field] = Reward(decision_id, one.value, campaign_id=campaign_id)
        await self.learn(rewards)

    async def activate(self, campaign_id: str, decision_ids: Sequence[str]) -> None:
        """Say that what was decided has been shown."""
        for outcome in await self._submit_all([Activate(decision_id, campaign_id) for decision_id in decision_ids]):
            if isinstance(outcome, Exception):
                raise outcome

    async def activate_slots(self, campaign_id: str, event_id: str) -> None:
        """Say that the actions of all slots of an event have been shown."""
        prefix = event_id_of(campaign_id, event_id) + OF_SLOT
        _, made = await persistently(lambda: self._read(_find_slots, campaign_id, prefix), PATIENCE_SECONDS)
        await self.activate(campaign_id, made)

    async def configuration(self, campaign_id: str) -> Json:
        """A campaign's settings in their words; null where it can do without one."""
        row = await persistently(lambda: self._read(campaigns.find_campaign, campaign_id), PATIENCE_SECONDS)
        if row is None:
            raise await self._read(no_campaign, campaign_id)
        return _settings_of(stored(row.configuration))

    async def configure(self, campaign_id: str, wanted: ServiceConfiguration, author: Author) -> Json:
        """Change the share of decisions that are drawn uniformly; what cannot be changed must be as it is."""
        current = await self.configuration(campaign_id)
        for name, value in wanted.model_dump(mode="json", by_alias=True, exclude_unset=True).items():
            if name != "explorationPercentage" and value != current[name]:
                raise InvalidCommandError("differs from the campaign's own, which cannot be changed", field=name)
        change = ChangeCampaign(campaign_id, algorithm=AlgorithmChange(uniform_share=wanted.exploration_percentage))
        await persistently(lambda: self._ledger.administer(change, author), PATIENCE_SECONDS)
        return await self.configuration(campaign_id)

    async def _rank(self, campaign_id: str, asked: RankRequest, event_id: str) -> Json:
        loop = await self._read(_find_loop, campaign_id, self._shape_of)
        command, ignored = select_of(
            loop,
            asked,
            named_values(asked.context_features or (), "contextFeatures"),
            decision_id=event_id_of(campaign_id, event_id),
            exclude=asked.excluded_ids(),
            explain=True,
        )
        decision = await self._decide(command, ignored)
        chosen = asked.name_of(decision.row.arm_id)
        return {"ranking": ranking_of(asked, decision), "eventId": event_id, "rewardActionId": chosen}

    async def _fill(self, campaign_id: str, asked: MultiSlotRankRequest, event_id: str) -> Json:
        loop = await self._read(_find_loop, campaign_id, self._shape_of)
        allowed, offered = allowed_in(asked), frozenset(asked.names)
        # a slot with fewer actions than there are slots could be left without one: its baseline is kept for it
        kept = {as_id(slot.baseline_action) for slot in asked.slots if len(allowed[slot.id]) < len(asked.slots)}
        context = named_values(asked.context_features or (), "contextFeatures")
        taken: set[str] = set()
        slots = []
        for place, slot in enumerate(asked.slots):
            kept.discard(as_id(slot.baseline_action))
            command, ignored = select_of(
                loop,
                asked,
                context | of_slot(named_values(slot.features or (), f"slots.{place}.features")),
                decision_id=slot_id_of(campaign_id, event_id, slot.id),
                exclude=offered - (allowed[slot.id] - taken - kept),
            )
            decision = await self._decide(command, ignored)
            taken.add(decision.row.arm_id)
            slots.append({"id": slot.id, "rewardActionId": asked.name_of(decision.row.arm_id)})
        return {"slots": slots, "eventId": event_id}

    async def _decide(self, command: Select, ignored: int) -> Decision:
        """The decision under a command's id, which is the first one. ignored: values of the request."""
        try:
            decision: Decision = await self._ledger.submit(command)
        except ConflictError as conflict:
            try:
                found = await self._read(read_decision, command.decision_id or "", command.campaign_id)
            except NotFoundError:
                raise conflict from None
            decision = found.decision
        except NoArmLeftError as error:
            raise InvalidCommandError(NO_ACTION, field=error.field) from None
        self._metrics.ignored_attributes.inc(ignored)
        return decision

    async def _submit_all(self, commands: Sequence[Command]) -> list[Any]:
        """Results, and errors in the place of those that failed."""

        async def attempt() -> list[Any]:
            return settled(await self._ledger.submit_all(commands))

        outcomes = await persistently(attempt, PATIENCE_SECONDS)
        return [NotFoundError(NO_EVENT) if isinstance(one, NotFoundError) else one for one in outcomes]

    def _count(self, outcome: str) -> None:
        self._metrics.personalizer_rewards.labels(outcome).inc()


def _find_loop(connection: Connection, campaign_id: str, shape_of: Callable[[str], Shape]) -> Loop:
    """The campaign as rank requests meet it. Raises NotFoundError."""
    row = campaigns.find_campaign(connection, campaign_id)
    if row is None:
        raise no_campaign(connection, campaign_id)
    shape = shape_of(row.creation)
    arms = [] if shape.model == "shared" else campaigns.read_arms(connection, [row.key])[row.key]
    return Loop(campaign_id, shape, {arm.arm_id: arm.status for arm in arms})


def _find_slots(connection: Connection, campaign_id: str, prefix: str) -> tuple[RewardRules, list[str]]:
    """A campaign's rules, and the ids of its decisions that begin so. Raises NotFoundError if there is none."""
    row = campaigns.find_campaign(connection, campaign_id)
    made = [] if row is None else decisions.find_ids(connection, row.key, prefix)
    if row is None or not made:
        raise NotFoundError(NO_EVENT)
    return stored(row.configuration).reward, made


def _settings_of(configuration: CampaignConfiguration) -> Json:
    seconds = configuration.reward.timeout_seconds
    return {
        "rewardWaitTime": None if seconds is None else _DURATION.dump_python(timedelta(seconds=seconds), mode="json"),
        "defaultReward": configuration.reward.default,
        "rewardAggregation": "earliest",
        "explorationPercentage": configuration.algorithm.uniform_share,
        "modelExportFrequency": "PT0S",
        "logRetentionDays": -1,
        "learningMode": "Online",
    }
