"""What the ledger is asked to do for an import, step by step; see docs/decisions/0017."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from prudent.campaigns import CampaignConfiguration
from prudent.store.campaigns import ArmRow
from prudent.store.decisions import DecisionRow
from prudent.store.log import LogRow


@dataclass(frozen=True, slots=True)
class BeginImport:
    """Stage a campaign that nobody sees until its import is complete. The arms' keys are filled in."""

    campaign_id: str
    configuration: CampaignConfiguration
    creation: CampaignConfiguration
    status: str
    revision: int
    learn_limit: int | None
    arms: Sequence[ArmRow]


@dataclass(frozen=True, slots=True)
class ImportObservations:
    """Append to a staged campaign's log. first_line: where the first row stands in the file; one line each."""

    key: int
    first_line: int
    rows: Sequence[LogRow]


@dataclass(frozen=True, slots=True)
class ImportDecisions:
    """Add to a staged campaign's decisions, after all of its log."""

    key: int
    first_line: int
    rows: Sequence[DecisionRow]


@dataclass(frozen=True, slots=True)
class FinishImport:
    """Let everybody see a staged campaign, if all of it is there. plays: by position, if more than staged."""

    key: int
    campaign_id: str
    created_at: int
    head: int
    decisions: int
    plays: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class GiveUpImport:
    """Forget a staged campaign; nothing happens to one that is complete."""

    key: int


Import = BeginImport | ImportObservations | ImportDecisions | FinishImport | GiveUpImport
"""The steps of an import, each a short transaction of its own."""
