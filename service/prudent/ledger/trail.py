"""The trail: what somebody changes is noted in the same transaction, with who it was.

Of rewards it notes which were sent by hand or corrected, but not what they are: that is in the campaign's log, where it
can be erased.
"""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple

import orjson
from sqlalchemy import Connection

from prudent.campaigns import CHANGEABLE
from prudent.ledger.administration import Administration, CampaignRecord, administer, find_record
from prudent.ledger.commands import (
    AddArm,
    Author,
    ChangeArm,
    ChangeCampaign,
    Correct,
    CreateCampaign,
    CreateKey,
    DeleteCampaign,
    EraseDecisions,
    RestartCampaign,
    RevokeKey,
    SingleCommand,
)
from prudent.ledger.importing import FinishImport
from prudent.ledger.outcomes import CorrectionReceipt, ErasureReceipt
from prudent.store import campaigns, trail
from prudent.store.trail import TrailRow


@dataclass(frozen=True, slots=True, eq=False)
class Authored(SingleCommand):
    """A command, and who gives it."""

    command: Administration
    author: Author

    @property
    def nbytes(self) -> int:  # type: ignore[override]  # that of the others is a constant
        """Bytes that the command holds."""
        return self.command.nbytes


class Note(NamedTuple):
    """What was done, and to which arm, decision or key; None for the campaign itself."""

    action: str
    subject: str | None = None
    detail: dict[str, Any] | None = None


REWARDED = "reward sent by hand"


def execute(command: Administration | Authored, connection: Connection, now: int) -> Any:
    """Execute one command as `administer` does; of one that somebody gives, note what it changed."""
    if not isinstance(command, Authored):
        return administer(command, connection, now)
    given = command.command
    before = _locked_record(connection, getattr(given, "campaign_id", None))
    outcome = administer(given, connection, now)
    note = _note(given, before, outcome)
    if note is not None:
        campaign = before or _record_of(connection, outcome)
        key, campaign_id = (None, None) if campaign is None else (campaign.row.key, campaign.row.campaign_id)
        trail.append(connection, [row_of(command.author, now, key, campaign_id, note)])
        if isinstance(outcome, ErasureReceipt) and isinstance(given, EraseDecisions) and key is not None:
            trail.forget_subjects(connection, key, given.decision_ids)
    return outcome


def row_of(author: Author, now: int, key: int | None, campaign_id: str | None, note: Note) -> TrailRow:
    """A note as it is stored. key, campaign_id: of the campaign that it is about, if of one."""
    detail = None if note.detail is None else orjson.dumps(note.detail).decode()
    return TrailRow(now, key, campaign_id, author.name, author.via, note.action, note.subject, detail)


def _locked_record(connection: Connection, campaign_id: str | None) -> CampaignRecord | None:
    """A campaign as it is before a command, locked so that it is what the command changes."""
    if campaign_id is None:
        return None
    campaigns.lock_heads(connection, list(campaigns.find_keys(connection, [campaign_id]).values()))
    return find_record(connection, campaign_id)


def _record_of(connection: Connection, outcome: Any) -> CampaignRecord | None:
    if isinstance(outcome, CorrectionReceipt):
        return find_record(connection, outcome.campaign_id)
    return outcome if isinstance(outcome, CampaignRecord) else None


@singledispatch
def _note(command: Any, before: Any, outcome: Any) -> Note | None:  # noqa: ARG001  # what every implementation takes
    """What a command has changed; None if nothing, or nothing that belongs in the trail."""
    return None


@_note.register
def _(_command: CreateCampaign, _before: Any, outcome: CampaignRecord) -> Note | None:
    return Note("campaign created") if outcome.created else None


@_note.register
def _(_command: FinishImport, _before: Any, _outcome: Any) -> Note:
    return Note("campaign imported")


@_note.register
def _(_command: ChangeCampaign, before: CampaignRecord, outcome: CampaignRecord) -> Note | None:
    old, new = _settings(before), _settings(outcome)
    changed = {name: [old[name], value] for name, value in new.items() if old[name] != value}
    return Note("campaign changed", None, changed) if changed else None


def _settings(record: CampaignRecord) -> dict[str, Any]:
    """What may change of a campaign, by the names that a request has for it."""
    configuration = orjson.loads(record.row.configuration)
    algorithm = {f"algorithm.{name}": value for name, value in configuration["algorithm"].items()}
    named = {name: configuration.get(name) for name in CHANGEABLE}
    return {"status": record.row.status, **named, **algorithm}


@_note.register
def _(command: RestartCampaign, _before: Any, _outcome: Any) -> Note:
    return Note("campaign restarted", None, {"from": command.first})


@_note.register
def _(_command: DeleteCampaign, _before: Any, _outcome: Any) -> Note:
    return Note("campaign deleted")


@_note.register
def _(command: AddArm, _before: Any, outcome: CampaignRecord) -> Note | None:
    return Note("arm added", command.arm_id) if outcome.created else None


@_note.register
def _(command: ChangeArm, before: CampaignRecord, outcome: CampaignRecord) -> Note | None:
    old, new = (next(arm for arm in record.arms if arm.arm_id == command.arm_id) for record in (before, outcome))
    changed = {} if old.status == new.status else {"status": [old.status, new.status]}
    if old.value != new.value:
        changed["value"] = [old.parsed_value, new.parsed_value]
    return Note("arm changed", command.arm_id, changed) if changed else None


@_note.register
def _(command: Correct, _before: Any, outcome: CorrectionReceipt) -> Note | None:
    return None if outcome.duplicate else Note("reward corrected", command.decision_id)


@_note.register
def _(_command: EraseDecisions, _before: Any, outcome: ErasureReceipt) -> Note | None:
    return Note("subject erased", None, {"decisions": outcome.decisions}) if outcome.decisions else None


@_note.register
def _(command: CreateKey, _before: Any, _outcome: Any) -> Note:
    return Note("key created", command.name, {"role": command.role})


@_note.register
def _(command: RevokeKey, _before: Any, _outcome: Any) -> Note:
    return Note("key revoked", command.name)
