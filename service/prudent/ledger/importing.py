"""The steps of an import, each in a transaction of its own; see docs/decisions/0017.

The campaign is staged under a key without a public id, so nobody sees it before the last step, and a crash leaves
rows that nobody sees and maintenance removes. Ids of decisions are unique over the deployment: who meets a decision of
a campaign without an id may take its place. An import's last step counts, under its lock, whether all rows are there.
"""

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection

from prudent.errors import ConflictError, InvalidCommandError
from prudent.ledger.import_steps import (
    BeginImport,
    FinishImport,
    GiveUpImport,
    Import,
    ImportDecisions,
    ImportObservations,
)
from prudent.store import campaigns, decisions, log
from prudent.store.decisions import DecisionRow
from prudent.store.log import LogRow

TWICE = "is there already: the file has it twice, or a step had to be repeated; import the file again"


def take_step(connection: Connection, step: Import, now: int) -> int | None:
    """Execute one step; the campaign's key, None once it is given up. Raises CommandError."""
    if isinstance(step, BeginImport):
        return _begin(connection, step, now)
    if isinstance(step, GiveUpImport):
        campaigns.abandon_staged(connection, step.key)
        return None
    if not campaigns.keep_staged(connection, step.key, now):
        raise ConflictError("the import was given up, because it made no progress for too long: import the file again")
    if isinstance(step, ImportObservations):
        _append_observations(connection, step)
    elif isinstance(step, ImportDecisions):
        _add_decisions(connection, step)
    else:
        _finish(connection, step)
    return step.key


def _begin(connection: Connection, step: BeginImport, now: int) -> int:
    _refuse_taken(connection, step.campaign_id)
    key = campaigns.stage(
        connection,
        {
            "configuration": step.configuration.model_dump_json(),
            "creation": step.creation.model_dump_json(),
            "status": step.status,
            "revision": step.revision,
            "learn_limit": step.learn_limit,
        },
        now,
    )
    campaigns.insert_arms(connection, (arm._replace(key=key) for arm in step.arms))
    return key


def _refuse_taken(connection: Connection, campaign_id: str) -> None:
    if campaigns.find_campaign(connection, campaign_id) is not None:
        raise ConflictError("there is a campaign of this id already: delete it first, if that is meant")


def _append_observations(connection: Connection, step: ImportObservations) -> None:
    ids = [row.decision_id for row in step.rows]
    _refuse_twice(ids, "decision id", step.first_line)
    _, learned = _clear_way(connection, step.key, ids, step.first_line)
    names = [row.observation_id for row in step.rows]
    _refuse_twice(names, "observation id", step.first_line)
    known = log.find_warm_starts(connection, step.key, [name for name in names if name is not None])
    for line, row in enumerate(step.rows, step.first_line):
        if row.decision_id in learned or row.observation_id in known:
            raise ConflictError(TWICE, field=f"line {line}")
    log.append(connection, step.rows)


def _add_decisions(connection: Connection, step: ImportDecisions) -> None:
    ids = [row.decision_id for row in step.rows]
    _refuse_twice(ids, "decision id", step.first_line)
    made, learned = _clear_way(connection, step.key, ids, step.first_line)
    for line, row in enumerate(step.rows, step.first_line):
        if row.decision_id in made:
            raise ConflictError(TWICE, field=f"line {line}")
        reward = learned.get(row.decision_id)
        if reward is not None and reward.features != row.features:
            raise InvalidCommandError("the decision has other features than its reward", field=f"line {line}")
    decisions.insert_decisions(connection, step.rows)


def _refuse_twice(ids: Iterable[str | None], what: str, first_line: int) -> None:
    """Raise InvalidCommandError where an id stands a second time among these lines."""
    seen: set[str] = set()
    for line, one in enumerate(ids, first_line):
        if one in seen:
            raise InvalidCommandError(f"has a {what} that is in the file twice", field=f"line {line}")
        if one is not None:
            seen.add(one)


def _clear_way(
    connection: Connection, key: int, ids: Sequence[str | None], first_line: int
) -> tuple[dict[str, DecisionRow], dict[str, LogRow]]:
    """Make room for rows of these decision ids; the campaign's own decisions and log rows that have one.

    Raises ConflictError where another campaign has one: among its decisions or, if they were pruned, in its log.
    """
    wanted = [one for one in ids if one is not None]
    made, learned = decisions.find_decisions(connection, wanted), log.find_observations(connection, wanted)
    found = [(one, row.key) for one, row in made.items()] + [(one, row.key) for one, row in learned.items()]
    others = {owner for _, owner in found} - {key}
    campaigns.lock_heads(connection, others)
    named = {one for one, standing in campaigns.read_standings(connection, others).items() if standing.campaign_id}
    taken = {one for one, owner in found if owner in named}
    for line, one in enumerate(ids, first_line):
        if one in taken:
            raise ConflictError("another campaign here has a decision of this id", field=f"line {line}")
    in_the_way = {one for one, owner in found if owner != key}
    log.delete_of_decisions(connection, in_the_way)
    decisions.delete_decisions(connection, in_the_way)
    return (
        {one: row for one, row in made.items() if row.key == key},
        {one: row for one, row in learned.items() if row.key == key},
    )


def _finish(connection: Connection, step: FinishImport) -> None:
    campaigns.lock_heads(connection, [step.key])
    _refuse_taken(connection, step.campaign_id)
    rows, last = log.count_rows(connection, step.key)
    if (rows, last, decisions.count_rows(connection, step.key)) != (step.head, step.head, step.decisions):
        raise ConflictError(
            "others used the file's decision ids meanwhile, in a second import of it or in requests: "
            "stop them, and import the file again"
        )
    campaigns.set_heads(connection, {step.key: step.head})
    for position, plays in step.plays.items():
        campaigns.update_arm(connection, step.key, position, {"plays": plays})
    campaigns.publish_staged(connection, step.key, step.campaign_id, step.created_at)
