"""Reading a campaign's export: from bytes, in pieces of any size, to the steps of an import.

It holds a line and a slice of rows, never the file. What is wrong is told with its line, and never repeated.
"""

from collections.abc import Iterator
from hashlib import blake2b

from pydantic import ValidationError

from prudent.ledger.importing import FinishImport, Import, ImportDecisions, ImportObservations
from prudent.store.tables import DecisionRow, LogRow
from prudent.transfer import lines
from prudent.transfer.checks import CampaignFile, DamagedFileError
from prudent.transfer.lines import ArmLine, Header, ObservationLine, Opening, Trailer

SLICE_ROWS = 500
SLICE_BYTES = 2**20
"""Of lines, after which a slice is full with fewer rows."""
LINE_FIELDS_MAX = 20_000
"""Each unknown one would cost half a kilobyte of error; a thousand arms with all that is told of them have fewer."""
_LINE_FACTOR, _LINE_EXTRA = 4, 2**16
"""A header repeats a creation request twice, its defaults filled in and its integers written as floats."""


class ImportReader:
    """Feed it the file, execute the steps that it yields, and tell it the key that the first of them gave."""

    def __init__(self, body_bytes_max: int) -> None:
        """body_bytes_max: of a request to create a campaign."""
        self.key = 0
        """Of the staged campaign; 0 before it is staged."""
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
        """The steps that a further piece of the file completes. Raises DamagedFileError."""
        start, unread = 0, len(self._rest)
        self._rest += chunk
        while (end := self._rest.find(b"\n", max(start, unread))) >= 0:
            yield from self._read(bytes(self._rest[start : end + 1]))
            start = end + 1
        del self._rest[:start]
        if len(self._rest) > self._line_bytes_max:
            raise DamagedFileError(self._line + 1, f"is longer than {self._line_bytes_max} bytes")

    def close(self) -> Iterator[Import]:
        """The last step, at the end of the file. Raises DamagedFileError if the file is not complete."""
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
            self._campaign = CampaignFile(_parse_header(text))
        else:
            yield from self._take(text, self._campaign)
        self._digest.update(text)

    def _take(self, text: bytes, campaign: CampaignFile) -> Iterator[Import]:
        try:
            found = lines.read_line(text, campaign.version)
        except ValidationError as error:
            raise DamagedFileError(self._line, _describe(error)) from None
        if isinstance(found, ArmLine):
            campaign.add_arm(found, self._line)
            return
        if not campaign.is_begun:
            yield campaign.begin(self._line)
        if isinstance(found, Trailer):
            yield from self._flush(self._line)
            self._last = campaign.finish(found, self._digest.hexdigest(), self.key, self._line)
        elif isinstance(found, ObservationLine):
            campaign.add_observation(found, self._line)
            self._log.append(lines.log_row(found, self.key))
        else:
            campaign.add_decision(found, self._line)
            if self._log:
                yield from self._flush(self._line)
            self._decisions.append(lines.decision_row(found, self.key))
        self._slice_bytes += len(text)
        if len(self._log) + len(self._decisions) >= SLICE_ROWS or self._slice_bytes >= SLICE_BYTES:
            yield from self._flush(self._line + 1)

    def _flush(self, next_line: int) -> Iterator[Import]:
        """The rows that are held, as a step: each was a line, and the last one is before next_line."""
        log, decisions = self._log, self._decisions
        self._log, self._decisions, self._slice_bytes = [], [], 0
        if log:
            yield ImportObservations(self.key, next_line - len(log), log)
        if decisions:
            yield ImportDecisions(self.key, next_line - len(decisions), decisions)


def _parse_header(text: bytes) -> Header:
    try:
        opening = Opening.model_validate_json(text)
    except ValidationError:
        raise DamagedFileError(1, "is not the header of an exported campaign") from None
    if opening.format != lines.FORMAT:
        raise DamagedFileError(1, "is not the header of an exported campaign")
    if not 1 <= opening.version <= lines.VERSION:
        raise DamagedFileError(
            1,
            f"version: this service reads 1 to {lines.VERSION}, received {opening.version}",
        )
    try:
        return Header.model_validate_json(text)
    except ValidationError as error:
        raise DamagedFileError(1, _describe(error)) from None


def _describe(error: ValidationError) -> str:
    """The first thing that is wrong, without what was received."""
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    if first["type"] == "json_invalid":
        return "is not valid JSON, or not complete"
    if first["type"] in {"extra_forbidden", "unexpected_keyword_argument"}:
        return "has a field that this version does not know"
    if first["type"] == "union_tag_invalid":
        return "kind: must be arm, observation, decision or trailer"
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    return f"{place}: {message}" if place else message
