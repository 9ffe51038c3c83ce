"""A campaign's own log as an export has it: the campaign, its arms, what it learned, and what it decided."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from prudent.campaigns import CampaignConfiguration
from prudent.errors import InvalidCommandError
from prudent.ledger.amendments import amendments_of
from prudent.ledger.importing import BeginImport, Import, ImportDecisions, ImportObservations
from prudent.store.log import fold_row, is_beginning
from prudent.store.tables import OBSERVATION, ArmRow, DecisionRow, LogRow
from prudent.transfer.reading import ImportReader


@dataclass(frozen=True)
class CampaignLog:
    """creation, configuration: as created, and with the dials of the export. rows: observations as they count now.

    decisions: in the order in which they were made. history: the whole log as it was appended, where it was amended.
    """

    creation: CampaignConfiguration
    configuration: CampaignConfiguration
    arms: list[ArmRow]
    rows: list[LogRow]
    decisions: list[DecisionRow]
    history: list[LogRow] = field(default_factory=list)

    @property
    def rewards(self) -> dict[str, LogRow]:
        """What came of each decision that has a reward."""
        return {row.decision_id: row for row in self.rows if row.decision_id is not None}


def read_export(
    pieces: Iterable[bytes], body_bytes_max: int, on_piece: Callable[[int], None] = lambda _: None
) -> CampaignLog:
    """Read an export, checked as an import checks it. Raises CommandError for a file that cannot be imported.

    pieces: of the file; body_bytes_max: the limit of a request to create a campaign; on_piece: told their sizes.
    """
    reader = ImportReader(body_bytes_max)
    begun: BeginImport | None = None
    rows: list[LogRow] = []
    decisions: list[DecisionRow] = []
    for step in _steps(reader, pieces, on_piece):
        if isinstance(step, BeginImport):
            begun, reader.key = step, 1
        elif isinstance(step, ImportObservations):
            rows += step.rows
        elif isinstance(step, ImportDecisions):
            decisions += step.rows
    assert begun is not None  # noqa: S101  # the reader raises for a file without a header
    if rows and is_beginning(rows[0]):
        raise InvalidCommandError(
            f"the log begins with a snapshot in place of its first {rows[0].sequence} rows (log_retention_days): what "
            "another policy would have learned of them is not known"
        )
    history = rows if any(row.kind != OBSERVATION for row in rows) else []
    return CampaignLog(begun.creation, begun.configuration, list(begun.arms), _as_corrected(rows), decisions, history)


def _as_corrected(rows: list[LogRow]) -> list[LogRow]:
    """The observations of a log with their last rewards; without those that were taken back."""
    amended = amendments_of((fold_row(row) for row in rows if row.kind != OBSERVATION), len(rows))
    kept = []
    for row in rows:
        value = row.reward if row.decision_id is None else amended.rewards.get(row.decision_id, row.reward)
        if row.kind == OBSERVATION and value is not None:
            kept.append(row._replace(reward=value))
    return kept


def _steps(reader: ImportReader, pieces: Iterable[bytes], on_piece: Callable[[int], None]) -> Iterator[Import]:
    for piece in pieces:
        yield from reader.feed(piece)
        on_piece(len(piece))
    yield from reader.close()
