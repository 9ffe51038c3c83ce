"""Reading a campaign's export: from pieces of any size to the steps of an import.

It holds a line and a slice of rows, never the whole file. Every line is checked by itself, against the other lines, and
against the campaign that the header describes. An error names the line, and never repeats its content.
"""

from collections.abc import Iterator
from hashlib import blake2b
from math import inf
from typing import Any

from pydantic import ValidationError

from prudent.campaigns import (
    Draft,
    InvalidConfigurationError,
    Learned,
    RowReader,
)
from prudent.campaigns.configuration import SharedModel
from prudent.campaigns.resolution import arm_row, check_size
from prudent.campaigns.values import RepeatedNameError, check_value, refuse_repeated_names
from prudent.errors import InvalidCommandError
from prudent.ledger.amendments import is_setting, is_snapshot
from prudent.ledger.importing import BeginImport, FinishImport, Import, ImportDecisions, ImportObservations
from prudent.store.log import digest_of, erased, fold_row, is_beginning, is_erased
from prudent.store.statements import features_to_bytes
from prudent.store.tables import EVENT_PREFIX, ArmRow, CategoryRow, DecisionRow, LogRow
from prudent.transfer import lines
from prudent.transfer.candidates import stored_candidates
from prudent.transfer.header import DamagedFileError, check_header, describe_line, parse_header
from prudent.transfer.lines import (
    DEFERRED,
    AmendmentLine,
    ArmLine,
    CategoryLine,
    DecisionLine,
    Header,
    ObservationLine,
    Trailer,
)

SLICE_ROWS = 500
DETAIL_MAX = 500
"""Characters, but of a snapshot's."""
SLICE_BYTES = 2**20
"""Bytes of lines after which a slice is full, whatever its number of rows."""
LINE_FIELDS_MAX = 20_000
"""Each unknown one would cost half a kilobyte of errors; a header with a thousand arms has fewer."""
_LINE_FACTOR, _LINE_EXTRA = 4, 2**16
"""A header contains a creation request twice, with its defaults filled in and its integers written as floats."""


class ImportReader:
    """Feed it the file, execute the steps that it yields, and set `key` to the one that the first of them returned."""

    def __init__(self, body_bytes_max: int) -> None:
        """body_bytes_max: the limit of a request to create a campaign."""
        self.key = 0
        """Key of the staged campaign; 0 before it is staged."""
        self._line_bytes_max = _LINE_FACTOR * body_bytes_max + _LINE_EXTRA
        self._rest = bytearray()
        self._digest = blake2b(digest_size=lines.DIGEST_BYTES)
        self._line = 0
        self._campaign: CampaignFile | None = None
        self._last: FinishImport | None = None
        self._log: list[LogRow] = []
        self._decisions: list[DecisionRow] = []
        self._slice_bytes = 0

    def feed(self, chunk: bytes) -> Iterator[Import]:
        """The steps that this piece of the file completes. Raises DamagedFileError."""
        start, unread = 0, len(self._rest)
        self._rest += chunk
        while (end := self._rest.find(b"\n", max(start, unread))) >= 0:
            yield from self._read(bytes(self._rest[start : end + 1]))
            start = end + 1
        del self._rest[:start]
        if len(self._rest) > self._line_bytes_max:
            raise DamagedFileError(self._line + 1, f"is longer than {self._line_bytes_max} bytes")

    def close(self) -> Iterator[Import]:
        """The last step, at the end of the file. Raises DamagedFileError if the file is incomplete."""
        if self._rest:
            yield from self._read(bytes(self._rest))
        if self._last is None:
            raise DamagedFileError(self._line + 1, "is missing: the file ends before its trailer")
        yield self._last

    def _read(self, text: bytes) -> Iterator[Import]:
        self._line += 1
        if self._last is not None:
            raise DamagedFileError(self._line, "follows the trailer, which must be the last line")
        if text.count(b":") > LINE_FIELDS_MAX:
            raise DamagedFileError(self._line, f"has more than {LINE_FIELDS_MAX} fields")
        if self._campaign is None:
            self._campaign = CampaignFile(parse_header(text))
        else:
            yield from self._take(text, self._campaign)
        self._digest.update(text)

    def _take(self, text: bytes, campaign: "CampaignFile") -> Iterator[Import]:
        try:
            found = lines.read_line(text, campaign.version)
            refuse_repeated_names(text, found)
        except ValidationError as error:
            raise DamagedFileError(self._line, describe_line(error)) from None
        except RepeatedNameError:
            raise DamagedFileError(self._line, "has a field twice in one object") from None
        if isinstance(found, ArmLine):
            campaign.add_arm(found, self._line)
            return
        if isinstance(found, CategoryLine):
            campaign.add_category(found, self._line)
            return
        if not campaign.is_begun:
            yield campaign.begin(self._line)
        if isinstance(found, Trailer):
            yield from self._flush(self._line)
            self._last = campaign.finish(found, self._digest.hexdigest(), self.key, self._line)
        elif isinstance(found, ObservationLine):
            self._log.append(campaign.add_observation(found, self.key, self._line))
        elif isinstance(found, AmendmentLine):
            self._log.append(campaign.add_amendment(found, self.key, self._line))
        else:
            features, candidates = campaign.add_decision(found, self._line)
            if self._log:
                yield from self._flush(self._line)
            self._decisions.append(lines.decision_row(found, self.key, features, candidates))
        self._slice_bytes += len(text)
        if len(self._log) + len(self._decisions) >= SLICE_ROWS or self._slice_bytes >= SLICE_BYTES:
            yield from self._flush(self._line + 1)

    def _flush(self, next_line: int) -> Iterator[Import]:
        """The rows that are held, as a step: each was a line, and the last of them precedes next_line."""
        log, decisions = self._log, self._decisions
        self._log, self._decisions, self._slice_bytes = [], [], 0
        if log:
            yield ImportObservations(self.key, next_line - len(log), log)
        if decisions:
            yield ImportDecisions(self.key, next_line - len(decisions), decisions)


class CampaignFile:
    """The campaign of a file, as far as it has been read. Each line is checked before it is added."""

    def __init__(self, header: Header) -> None:
        check_header(header)
        self._header = header
        self._model = header.creation.model
        self._reader = RowReader(self._model)
        self._vocabulary = self._reader.vocabulary()
        self._arms: dict[str, ArmRow] = {}
        self._plays: dict[str, int] = {}
        self._head = self._decisions = 0
        self._before: bytes | None = None
        """The digest of the last row as the file has it."""
        self._digest: bytes | None = None
        """The same as it will be stored: of every row, also where the file has rows without one."""
        self.version = header.version
        self.is_begun = False
        """Whether all arms have been read, so that the campaign can be staged."""

    def begin(self, line: int) -> BeginImport:
        """The first step, when all arms have been read. Raises DamagedFileError."""
        header = self._header
        created = header.creation.arms
        if len(self._arms) != header.arms or len(created) > header.arms:
            raise DamagedFileError(line, f"follows {len(self._arms)} arms, but the header says {header.arms}")
        try:
            check_size(header.creation, header.arms, "arms")
        except InvalidConfigurationError as error:
            raise DamagedFileError(1, error.message) from None
        self.is_begun = True
        return BeginImport(
            campaign_id=header.campaign_id,
            configuration=header.configuration,
            creation=header.creation,
            status=header.status,
            revision=header.revision,
            learn_limit=header.learn_limit,
            arms=list(self._arms.values()),
            categories=[CategoryRow(0, *one) for one in self._vocabulary.learned],
            subject_key=None if header.subject_key is None else bytes.fromhex(header.subject_key),
        )

    def add_category(self, found: CategoryLine, line: int) -> None:
        """Raises DamagedFileError for a category that the campaign cannot have learned, or that is out of place."""
        if self._arms or self.is_begun:
            raise DamagedFileError(line, "is a category, but categories must precede the arms")
        one = Learned(found.feature, found.position, found.value)
        faults = self._reader.faults_of([*self._vocabulary.learned, one])
        if faults:
            raise DamagedFileError(line, faults[-1])
        self._vocabulary.extend([one])

    def add_arm(self, found: ArmLine, line: int) -> None:
        """Raises DamagedFileError for an arm that is out of place, or differs from the campaign's creation."""
        if self.is_begun:
            raise DamagedFileError(line, "is an arm, but arms must precede the log and the decisions")
        position = len(self._arms)
        if found.arm_id in self._arms:
            raise DamagedFileError(line, "duplicate arm_id")
        if position >= self._header.arms:
            raise DamagedFileError(line, f"is arm {position + 1}, but the header says {self._header.arms}")
        created = self._header.creation.arms
        features = self._arm_features(found, line)
        try:
            check_value(found.value, (arm.parsed_value for arm in list(self._arms.values())[:1]), "value")
        except InvalidConfigurationError as error:
            raise DamagedFileError(line, f"{error.field}: {error.message}") from None
        if position < len(created):
            draft, arm = Draft(self._vocabulary), created[position]
            row = arm_row(self._header.creation, arm.features, "features", self._reader, draft)
            same = None if row is None else features_to_bytes(row)
            if (arm.arm_id, same) != (found.arm_id, features):
                raise DamagedFileError(line, f"is not arm {position + 1} of the campaign's creation")
        self._arms[found.arm_id] = lines.arm_row(found, position, features)

    def _arm_features(self, found: ArmLine, line: int) -> bytes | None:
        if found.features is None:
            return None
        if not isinstance(self._model, SharedModel):
            raise DamagedFileError(line, "features: only the arms of a shared model can have features")
        return self._row(found.features, line, arm_only=True)

    def _row(self, features: list[float] | dict[str, Any], line: int, *, arm_only: bool = False) -> bytes:
        draft = Draft(self._vocabulary)
        try:
            row = self._reader.read_export(features, draft, arm_only=arm_only)
        except InvalidCommandError as error:
            raise DamagedFileError(line, f"{error.field}: {error.message}") from None
        if draft.added:
            raise DamagedFileError(
                line, f"features.{draft.added[0].feature}: is a category that the file does not list"
            )
        return features_to_bytes(row)

    def add_observation(self, found: ObservationLine, key: int, line: int) -> LogRow:
        """The row. Raises DamagedFileError if it does not continue the log, or cannot be learned."""
        self._check_sequence(found.sequence, line)
        if (found.decision_id is None) != (found.source == "warm-start"):
            raise DamagedFileError(line, "decision_id: required for a reward, and not allowed for a warm start")
        is_of_event = (found.observation_id or "").startswith(EVENT_PREFIX)
        if found.decision_id is not None and found.observation_id is not None and not is_of_event:
            raise DamagedFileError(line, "observation_id: only allowed for a warm start and an event")
        self._check_bounds(found.reward, line)
        features = self._features_of(found, line)
        row = self._continue(lines.log_row(found, key, features), line)
        if found.source == "warm-start":
            self._count_play(found.arm_id)
        return row

    def add_amendment(self, found: AmendmentLine, key: int, line: int) -> LogRow:
        """The row. Raises DamagedFileError if it does not continue the log, or says nothing that can be folded."""
        row = lines.amendment_row(found, key)
        if is_beginning(row):
            return self._begin_with(row, line)
        self._check_sequence(found.sequence, line)
        is_of_subject = found.kind == "erasure" and found.decision_id is None
        if (found.decision_id is None) != (found.kind == "configuration") and not is_of_subject:
            raise DamagedFileError(line, "decision_id: required for a correction, and not allowed for a configuration")
        self._check_bounds(found.reward if found.kind == "correction" else None, line)
        if is_erased(row):
            return self._keep_erased(row, line)
        if found.detail is None:
            raise DamagedFileError(line, "detail: required, except for what is left of an erased row")
        if len(found.detail) > DETAIL_MAX:
            raise DamagedFileError(line, f"detail: has more than {DETAIL_MAX} characters")
        if found.kind == "configuration" and not is_setting(fold_row(row)):
            raise DamagedFileError(line, "detail: is not a setting that a campaign can have")
        return self._continue(row, line)

    def _keep_erased(self, row: LogRow, line: int) -> LogRow:
        """The row, whose digest follows from nothing that is left; the next row's follows from it."""
        if row != erased(row):
            raise DamagedFileError(line, "is of an erased row, of which only its sequence and digest may be left")
        return self._keep(row)

    def _begin_with(self, row: LogRow, line: int) -> LogRow:
        """The row, which has replaced those before it."""
        if self._head or not 1 <= row.sequence <= self._header.head:
            raise DamagedFileError(line, "detail: only the first row of a log can be a snapshot")
        if not is_snapshot(fold_row(row)) or (row.decision_id, row.arm_id, row.reward) != (None, "", 0.0):
            raise DamagedFileError(line, "detail: is not a snapshot that this version can read")
        return self._keep(row)

    def _keep(self, row: LogRow) -> LogRow:
        self._before = self._digest = row.digest
        self._head = row.sequence
        return row

    def _check_sequence(self, sequence: int, line: int) -> None:
        if sequence != self._head + 1 or sequence > self._header.head:
            raise DamagedFileError(
                line, f"sequence: expected {self._head + 1} of {self._header.head}, received {sequence}"
            )

    def _check_bounds(self, reward: float | None, line: int) -> None:
        rules = self._header.creation.reward
        low = -inf if rules.minimum is None else rules.minimum
        if reward is not None and not low <= reward <= (inf if rules.maximum is None else rules.maximum):
            raise DamagedFileError(line, "reward: is outside the campaign's bounds")

    def _continue(self, row: LogRow, line: int) -> LogRow:
        """The row with the digest that it will be stored with. Raises DamagedFileError if its own is another one."""
        digest = digest_of(self._digest, row)
        if row.digest is not None:
            expected = digest if self._before == self._digest else digest_of(self._before, row)
            if row.digest != expected:
                raise DamagedFileError(
                    line, "digest: does not follow from the row and the digest before it, so the log was changed"
                )
        self._before, self._digest = row.digest, digest
        self._head += 1
        return row._replace(digest=digest)

    def add_decision(self, found: DecisionLine, line: int) -> tuple[bytes, bytes | None]:
        """Its features and candidates as they are stored. Raises DamagedFileError for one that cannot have been."""
        if self._head != self._header.head:
            raise DamagedFileError(
                line, f"follows {self._head} rows of the log, but the header says {self._header.head}"
            )
        if found.seen > self._head:
            raise DamagedFileError(line, f"seen: must be at most {self._head}, the last sequence of the log")
        if found.due_at is not None and self._header.creation.reward.timeout_seconds is None:
            raise DamagedFileError(line, "due_at: the campaign has no timeout")
        if found.activation == DEFERRED and found.due_at is not None:
            raise DamagedFileError(line, "due_at: a decision has none before it is activated")
        if found.held_out is not None and self._header.creation.holdout is None:
            raise DamagedFileError(line, "held_out: the campaign has no holdout")
        features, candidates = self._features_of(found, line), self._candidates_of(found, line)
        self._decisions += 1
        if found.activation != DEFERRED:
            self._count_play(found.arm_id)
        return features, candidates

    def _candidates_of(self, found: DecisionLine, line: int) -> bytes | None:
        if found.candidates is None:
            return None
        if not self._header.creation.log_candidates:
            raise DamagedFileError(line, "candidates: the campaign does not log them")
        registered = {arm.arm_id: arm.features for arm in self._arms.values()}
        try:
            return stored_candidates(
                found.candidates,
                registered,
                lambda features: self._row(features, line, arm_only=True),
                is_shared=isinstance(self._model, SharedModel),
            )
        except ValueError as error:
            raise DamagedFileError(line, f"candidates: {error}") from None

    def finish(self, trailer: Trailer, digest: str, key: int, line: int) -> FinishImport:
        """The last step. Raises DamagedFileError if the trailer does not match the lines that were read."""
        header = self._header
        if (trailer.arms, trailer.head, trailer.decisions) != (len(self._arms), self._head, self._decisions):
            raise DamagedFileError(
                line,
                f"says {trailer.arms} arms, {trailer.head} rows of the log and {trailer.decisions} decisions, "
                f"but the file has {len(self._arms)}, {self._head} and {self._decisions}",
            )
        if self._head != header.head:
            raise DamagedFileError(line, f"follows {self._head} rows of the log, but the header says {header.head}")
        if trailer.digest != digest:
            raise DamagedFileError(line, "digest: does not match the lines before it, so the file was changed")
        return FinishImport(
            key, header.campaign_id, header.created_at, self._head, self._decisions, self._missed_plays()
        )

    def _features_of(self, found: ObservationLine | DecisionLine, line: int) -> bytes:
        features = self._row(found.features, line)
        if not isinstance(self._model, SharedModel) and found.arm_id not in self._arms:
            raise DamagedFileError(line, "arm_id: unknown arm")
        return features

    def _count_play(self, arm_id: str) -> None:
        if arm_id in self._arms:
            self._plays[arm_id] = self._plays.get(arm_id, 0) + 1

    def _missed_plays(self) -> dict[int, int]:
        """Plays, by position, that arms gained between the header and the pages: they count during the warm-up."""
        warmup = self._header.configuration.algorithm.warmup
        counted = {arm_id: min(plays, warmup) for arm_id, plays in self._plays.items()}
        return {self._arms[one].position: plays for one, plays in counted.items() if plays > self._arms[one].plays}
