"""The steps of an import, each a short transaction of its own; see docs/decisions/0017.

The campaign is staged under a key without a public id, so nobody sees it before the last step; after a crash,
maintenance removes what was staged. The last step checks, under the campaign's lock, that all rows are still there.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import singledispatch

from sqlalchemy import Connection

from prudent.campaigns import CampaignConfiguration
from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.columns import columns_of
from prudent.ledger.commands import SingleCommand
from prudent.ledger.flags import check_room
from prudent.store import campaigns, categories, decisions, events, log, retention
from prudent.store.tables import OBSERVATION, ArmRow, CategoryRow, DecisionRow, LogRow

DUPLICATE = "was imported before: the file has it twice, or a step was repeated; import the file again"


@dataclass(frozen=True, slots=True)
class BeginImport(SingleCommand):
    """Stage a campaign that nobody sees until its import is complete. The keys of arms and categories are filled in."""

    campaign_id: str
    configuration: CampaignConfiguration
    creation: CampaignConfiguration
    status: str
    revision: int
    learn_limit: int | None
    arms: Sequence[ArmRow]
    categories: Sequence[CategoryRow] = ()
    subject_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class ImportObservations(SingleCommand):
    """Append to a staged campaign's log. first_line: the first row's line in the file; one row per line."""

    key: int
    first_line: int
    rows: Sequence[LogRow]


@dataclass(frozen=True, slots=True)
class ImportDecisions(SingleCommand):
    """Add to a staged campaign's decisions, after all of its log."""

    key: int
    first_line: int
    rows: Sequence[DecisionRow]


@dataclass(frozen=True, slots=True)
class FinishImport(SingleCommand):
    """Publish a staged campaign, if all of it is there. plays: by position, where there are more than were staged."""

    key: int
    campaign_id: str
    created_at: int
    head: int
    decisions: int
    plays: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class AbandonImport(SingleCommand):
    """Remove a staged campaign; nothing happens to one that is complete."""

    key: int


Import = BeginImport | ImportObservations | ImportDecisions | FinishImport | AbandonImport
"""A step of an import."""


@singledispatch
def take_step(
    step: Import,
    connection: Connection,  # noqa: ARG001  # what every implementation takes
    now: int,  # noqa: ARG001
) -> int | None:
    """Execute one step; the campaign's key, None once it is abandoned. Raises CommandError."""
    raise TypeError(f"{type(step).__name__} is not a step of an import")


@take_step.register
def _begin(step: BeginImport, connection: Connection, now: int) -> int:
    _refuse_taken(connection, step.campaign_id)
    if step.configuration.client_side:
        check_room(connection)
    key = campaigns.stage(
        connection,
        {
            **columns_of(step.configuration),
            "creation": step.creation.model_dump_json(),
            "status": step.status,
            "revision": step.revision,
            "learn_limit": step.learn_limit,
            "subject_key": step.subject_key,
        },
        now,
    )
    campaigns.insert_arms(connection, (arm._replace(key=key) for arm in step.arms))
    categories.insert_categories(connection, (one._replace(key=key) for one in step.categories))
    events.insert_names(connection, key, step.creation.reward.events)
    return key


def _refuse_taken(connection: Connection, campaign_id: str) -> None:
    if campaigns.find_campaign(connection, campaign_id) is not None:
        raise ConflictError("a campaign with this id already exists: delete it first, if that is intended")


def _keep(connection: Connection, key: int, now: int) -> None:
    """Note that the import makes progress. Raises ConflictError if maintenance has abandoned it."""
    if not campaigns.keep_staged(connection, key, now):
        raise ConflictError("the import was abandoned, because it made no progress for too long: import the file again")


@take_step.register
def _append_observations(step: ImportObservations, connection: Connection, now: int) -> int:
    _keep(connection, step.key, now)
    ids = [row.decision_id if row.kind == OBSERVATION else None for row in step.rows]
    _refuse_duplicates(ids, "decision id", step.first_line)
    learned = log.find_observations(connection, [(step.key, one) for one in ids if one is not None])
    names = [row.observation_id for row in step.rows]
    _refuse_duplicates(names, "observation id", step.first_line)
    known = log.find_observations_by_id(connection, step.key, [name for name in names if name is not None])
    for line, row in enumerate(step.rows, step.first_line):
        is_learned = row.kind == OBSERVATION and (step.key, row.decision_id) in learned
        if is_learned or row.observation_id in known:
            raise ConflictError(DUPLICATE, field=f"line {line}")
    log.append(connection, step.rows)
    retention.add_pruned(connection, step.key, len(ids) - ids.count(None))  # until their decisions come
    return step.key


@take_step.register
def _add_decisions(step: ImportDecisions, connection: Connection, now: int) -> int:
    _keep(connection, step.key, now)
    ids = [row.decision_id for row in step.rows]
    _refuse_duplicates(ids, "decision id", step.first_line)
    identities = [(step.key, decision_id) for decision_id in ids]
    made, learned = decisions.find_decisions(connection, identities), log.find_observations(connection, identities)
    for line, row in enumerate(step.rows, step.first_line):
        if row.identity in made:
            raise ConflictError(DUPLICATE, field=f"line {line}")
        reward = learned.get(row.identity)
        if reward is not None and reward.features != row.features:
            raise InvalidCommandError("the features of the decision and of its reward differ", field=f"line {line}")
    decisions.insert_decisions(connection, step.rows)
    retention.add_pruned(connection, step.key, -len(learned))
    return step.key


def _refuse_duplicates(ids: Iterable[str | None], what: str, first_line: int) -> None:
    """Raise InvalidCommandError if an id occurs twice among these lines."""
    seen: set[str] = set()
    for line, one in enumerate(ids, first_line):
        if one in seen:
            raise InvalidCommandError(f"repeats the {what} of an earlier line", field=f"line {line}")
        if one is not None:
            seen.add(one)


@take_step.register
def _finish(step: FinishImport, connection: Connection, now: int) -> int:
    _keep(connection, step.key, now)
    campaigns.lock_heads(connection, [step.key])
    _refuse_taken(connection, step.campaign_id)
    is_whole = log.describe_gaps(connection, step.key, step.head) is None
    if not is_whole or decisions.count_rows(connection, step.key) != step.decisions:
        raise ConflictError(
            "rows of the import are not there any more: the database was restored, or has failed over: import the file "
            "again"
        )
    campaigns.set_heads(connection, {step.key: step.head})
    for position, plays in step.plays.items():
        campaigns.update_arm(connection, step.key, position, {"plays": plays})
    campaigns.publish_staged(connection, step.key, step.campaign_id, step.created_at)
    return step.key


@take_step.register
def _abandon(step: AbandonImport, connection: Connection, _now: int) -> None:
    campaigns.abandon_staged(connection, step.key)
