"""Commands that change campaigns, their arms and their rewards, each in a transaction of its own."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

from sqlalchemy import Connection

from prudent.campaigns import (
    CampaignConfiguration,
    Draft,
    InvalidConfigurationError,
    RowReader,
    repeats_creation,
    resolve,
    resolve_change,
    stored,
)
from prudent.campaigns.resolution import arm_row, check_size
from prudent.campaigns.values import ARMS_MAX, check_value
from prudent.errors import ConflictError, InvalidCommandError, NotFoundError
from prudent.ledger.columns import columns_of
from prudent.ledger.commands import (
    AddArm,
    ChangeArm,
    ChangeCampaign,
    Correct,
    CreateCampaign,
    CreateKey,
    DeleteCampaign,
    EndSession,
    EraseDecisions,
    Floats,
    RestartCampaign,
    RevokeKey,
)
from prudent.ledger.correcting import append_setting, correct
from prudent.ledger.erasing import erase
from prudent.ledger.flags import check_room
from prudent.ledger.importing import Import, take_step
from prudent.ledger.keys import create_key, revoke_key
from prudent.ledger.missing import NO_CAMPAIGN, arm_hint, no_arm, no_campaign
from prudent.ledger.outcomes import CorrectionReceipt, ErasureReceipt
from prudent.store import campaigns, categories, decisions, events, keys, log
from prudent.store.campaigns import CampaignRow
from prudent.store.statements import features_to_bytes
from prudent.store.tables import ArmRow, CategoryRow, value_to_text

Administration = (
    CreateCampaign
    | ChangeCampaign
    | RestartCampaign
    | DeleteCampaign
    | AddArm
    | ChangeArm
    | Correct
    | EraseDecisions
    | Import
    | EndSession
    | CreateKey
    | RevokeKey
)
"""A command that is executed in a transaction of its own."""


@dataclass(frozen=True, slots=True)
class CampaignRecord:
    """A campaign as stored. created: whether this command made it, or the arm that the command names."""

    row: CampaignRow
    arms: list[ArmRow]
    categories: list[CategoryRow]
    created: bool = False

    def show(self, row: Floats) -> list[float] | dict[str, Any]:
        """The features registered with an arm, as a request would send them."""
        reader = RowReader(stored(self.row.creation).model)
        return reader.write(row, reader.vocabulary(self.categories))


def find_record(connection: Connection, campaign_id: str) -> CampaignRecord | None:
    """A campaign by its public id."""
    row = campaigns.find_campaign(connection, campaign_id)
    return None if row is None else _with_arms(connection, row)


def list_records(connection: Connection, *, after: str, limit: int) -> list[CampaignRecord]:
    """At most so many campaigns after an id, in the order of their ids."""
    rows = campaigns.list_campaigns(connection, after=after, limit=limit)
    keys = [row.key for row in rows]
    arms, learned = campaigns.read_arms(connection, keys), categories.read_categories(connection, keys)
    return [CampaignRecord(row, arms[row.key], learned[row.key]) for row in rows]


@singledispatch
def administer(
    command: Administration,
    connection: Connection,  # noqa: ARG001  # what every implementation takes
    now: int,  # noqa: ARG001
) -> CampaignRecord | CorrectionReceipt | ErasureReceipt | None:
    """Execute one command; the campaign afterwards, None once deleted or abandoned. Raises CommandError.

    Of a correction and an erasure: their receipts.
    """
    raise TypeError(f"{type(command).__name__} is not a command of this kind")


@administer.register
def _import(step: Import, connection: Connection, now: int) -> CampaignRecord | None:
    key = take_step(step, connection, now)
    return None if key is None else _record(connection, key, created=True)


administer.register(correct)
administer.register(erase)
administer.register(create_key)
administer.register(revoke_key)


@administer.register
def _end_session(command: EndSession, connection: Connection, now: int) -> None:
    keys.end_session(connection, command.session, command.expires_at, now)


@administer.register
def _create(command: CreateCampaign, connection: Connection, now: int) -> CampaignRecord:
    configuration = resolve(command.requested)
    _check_baseline(configuration, [arm.arm_id for arm in configuration.arms])
    creation = configuration.model_dump_json()
    existing = campaigns.find_campaign(connection, configuration.campaign_id)
    if existing is not None:
        if not repeats_creation(command.requested, existing.creation):
            raise ConflictError(
                "a campaign with this id already exists with a different configuration: take another id, or PATCH what "
                "can be changed",
                field="campaign_id",
            )
        return _record(connection, existing.key)
    if configuration.client_side:
        check_room(connection)
    key = campaigns.insert_campaign(
        connection,
        {
            "campaign_id": configuration.campaign_id,
            **columns_of(configuration),
            "creation": creation,
            "status": "active",
            "revision": 1,
            "learn_limit": None,
            "created_at": now,
        },
    )
    reader = RowReader(configuration.model)
    draft = Draft(reader.vocabulary())
    rows = []
    for position, arm in enumerate(configuration.arms):
        features = arm_row(configuration, arm.features, f"arms.{position}.features", reader, draft)
        stored_features = None if features is None else features_to_bytes(features)
        value = value_to_text(arm.value)
        rows.append(ArmRow(key, position, arm.arm_id, "active", stored_features, 0, value=value))
    campaigns.insert_arms(connection, rows)
    categories.insert_categories(connection, (CategoryRow(key, *one) for one in draft.added))
    events.insert_names(connection, key, configuration.reward.events)
    return _record(connection, key, created=True)


@administer.register
def _change(command: ChangeCampaign, connection: Connection, now: int) -> CampaignRecord:
    row = _locked(connection, command.campaign_id)
    configuration = stored(row.configuration)
    values: dict[str, Any] = {}
    changed = configuration
    try:
        if command.algorithm is not None:
            changed = resolve_change(configuration, command.algorithm)
        kept = {name: getattr(command, name) for name in ("retention_days", "log_retention_days")}
        if any(days is not None for days in kept.values()):
            days = {name: value for name, value in kept.items() if value is not None}
            changed = resolve(changed.model_copy(update=days))
    except InvalidConfigurationError as error:
        raise InvalidCommandError(error.message, field=error.field) from None
    if command.algorithm is not None:
        if changed.algorithm.baseline != configuration.algorithm.baseline:
            _check_baseline(changed, [arm.arm_id for arm in campaigns.read_arms(connection, [row.key])[row.key]])
        if changed.algorithm.forgetting != configuration.algorithm.forgetting:
            half_life = 0 if changed.algorithm.forgetting is None else changed.algorithm.forgetting.half_life
            append_setting(connection, row.key, {"half_life": half_life}, now)
        if changed.algorithm.exact_until != configuration.algorithm.exact_until:
            append_setting(connection, row.key, {"exact_until": changed.algorithm.exact_until or 0}, now)
        if changed.algorithm.warmup > configuration.algorithm.warmup:
            _recount_plays(connection, row.key)
    if command.description is not None:
        changed = changed.model_copy(update={"description": command.description})
    if command.client_side is not None:
        if command.client_side and not configuration.client_side:
            check_room(connection)
        changed = changed.model_copy(update={"client_side": command.client_side})
    if changed != configuration:
        values |= columns_of(changed)
    if command.status is not None and command.status != row.status:
        values |= {"status": command.status, "learn_limit": row.head if command.status == "paused" else None}
    if values:
        campaigns.update_campaign(connection, row.key, values)
    return _record(connection, row.key)


def _check_baseline(configuration: CampaignConfiguration, arm_ids: Sequence[str]) -> None:
    """Refuse a baseline that no decision can get. A shared model's requests may bring arms that are not registered."""
    baseline = configuration.algorithm.baseline
    if baseline is not None and configuration.model.type != "shared" and baseline.arm_id not in arm_ids:
        raise InvalidCommandError(
            f"must be one of the campaign's arms: {arm_hint(baseline.arm_id, arm_ids)}",
            field="algorithm.baseline.arm_id",
        )


@administer.register
def _restart(command: RestartCampaign, connection: Connection, now: int) -> CampaignRecord:
    row = _locked(connection, command.campaign_id)
    if command.first > row.head:
        raise InvalidCommandError(
            f"must be at most {row.head}, the last row of the campaign's log; received {command.first}", field="from"
        )
    beginning = log.find_beginning(connection, row.key)
    if beginning is not None and command.first <= beginning.sequence:
        raise InvalidCommandError(
            f"must be at least {beginning.sequence + 1}: a snapshot has replaced older rows; received {command.first}",
            field="from",
        )
    append_setting(connection, row.key, {"restart": command.first}, now)
    return _record(connection, row.key)


def _recount_plays(connection: Connection, key: int) -> None:
    """Plays are not counted above the warm-up; a longer one needs them exactly."""
    chosen, started = decisions.count_plays(connection, key), log.count_warm_starts(connection, key)
    for arm in campaigns.read_arms(connection, [key])[key]:
        plays = chosen.get(arm.arm_id, 0) + started.get(arm.arm_id, 0)
        campaigns.update_arm(connection, key, arm.position, {"plays": max(plays, arm.plays)})


@administer.register
def _delete(command: DeleteCampaign, connection: Connection, _now: int) -> None:
    row = _locked(connection, command.campaign_id)
    campaigns.update_campaign(connection, row.key, {"campaign_id": None, "status": "deleted"})


@administer.register
def _add_arm(command: AddArm, connection: Connection, _now: int) -> CampaignRecord:
    row = _locked(connection, command.campaign_id)
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    configuration = stored(row.configuration)
    draft, features = _row_of(connection, row.key, configuration, command)
    for arm in arms:
        if arm.arm_id == command.arm_id:
            if arm.features != features:
                raise ConflictError("an arm with this id already exists with different features", field="arm_id")
            if arm.value != value_to_text(command.value):
                raise ConflictError("an arm with this id already exists with a different value", field="arm_id")
            return _with_arms(connection, row)
    if len(arms) >= ARMS_MAX:
        raise InvalidCommandError(f"a campaign has at most {ARMS_MAX} arms", field="arm_id")
    try:
        check_size(configuration, len(arms) + 1, "arm_id")
        check_value(command.value, (arm.parsed_value for arm in arms[:1]), "value")
    except InvalidConfigurationError as error:
        raise InvalidCommandError(error.message, field=error.field) from None
    categories.insert_categories(connection, (CategoryRow(row.key, *one) for one in draft.added))
    value = value_to_text(command.value)
    added = ArmRow(row.key, len(arms), command.arm_id, "active", features, 0, row.head, value)
    campaigns.insert_arms(connection, [added])
    campaigns.update_campaign(connection, row.key, {})
    return _record(connection, row.key, created=True)


def _row_of(
    connection: Connection, key: int, configuration: CampaignConfiguration, command: AddArm
) -> tuple[Draft, bytes | None]:
    """The arm's features as they are stored, and the categories that they bring. Raises InvalidCommandError."""
    reader = RowReader(configuration.model)
    draft = Draft(reader.vocabulary(categories.read_categories(connection, [key])[key]))
    try:
        features = arm_row(configuration, command.features, "features", reader, draft)
    except InvalidConfigurationError as error:
        raise InvalidCommandError(error.message, field=error.field) from None
    return draft, None if features is None else features_to_bytes(features)


@administer.register
def _change_arm(command: ChangeArm, connection: Connection, _now: int) -> CampaignRecord:
    row = _locked(connection, command.campaign_id)
    arms = campaigns.read_arms(connection, [row.key])[row.key]
    for arm in arms:
        if arm.arm_id == command.arm_id:
            values: dict[str, str | None] = {} if command.status is None else {"status": command.status}
            if command.changes_value:
                try:
                    check_value(command.value, (one.parsed_value for one in arms if one is not arm), "value")
                except InvalidConfigurationError as error:
                    raise InvalidCommandError(error.message, field=error.field) from None
                values["value"] = value_to_text(command.value)
            if any(getattr(arm, name) != value for name, value in values.items()):
                campaigns.update_arm(connection, row.key, arm.position, values)
                campaigns.update_campaign(connection, row.key, {})
            return _record(connection, row.key)
    raise no_arm(command.arm_id, (arm.arm_id for arm in arms))


def _locked(connection: Connection, campaign_id: str) -> CampaignRow:
    """The campaign, its head locked. Raises NotFoundError."""
    found = campaigns.find_campaign(connection, campaign_id)
    if found is not None:
        campaigns.lock_heads(connection, [found.key])
        found = campaigns.read_campaign(connection, found.key)
    if found is None or found.campaign_id != campaign_id:
        raise no_campaign(connection, campaign_id)
    return found


def _record(connection: Connection, key: int, *, created: bool = False) -> CampaignRecord:
    row = campaigns.read_campaign(connection, key)
    if row is None:
        raise NotFoundError(NO_CAMPAIGN)
    return _with_arms(connection, row, created=created)


def _with_arms(connection: Connection, row: CampaignRow, *, created: bool = False) -> CampaignRecord:
    arms, learned = campaigns.read_arms(connection, [row.key]), categories.read_categories(connection, [row.key])
    return CampaignRecord(row, arms[row.key], learned[row.key], created)
