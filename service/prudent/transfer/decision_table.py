"""A campaign's decisions as a table, page by page: one row per decision, with its features by name and its reward.

It describes the moment at which it started, as `prudent.transfer.exporting` does. Columns of features are called
`context.NAME`, and `arm.NAME` for the chosen arm's own in a shared model; what has no name is called by its place.
"""

from typing import Any, get_args

import numpy as np
import orjson
from sqlalchemy import Connection

from prudent.campaigns import RowReader, Vocabulary, stored
from prudent.campaigns.configuration import Model
from prudent.campaigns.features import ARM, CONTEXT
from prudent.campaigns.rows import OTHER, Floats
from prudent.clock import Clock
from prudent.errors import InvalidCommandError
from prudent.store import log
from prudent.store.statements import features_from_bytes
from prudent.store.tables import ArmRow, DecisionRow, LogRow
from prudent.transfer.exporting import DecisionPages, Start, check_presence, read_start
from prudent.transfer.table_formats import (
    CsvWriter,
    JsonWriter,
    Kind,
    ParquetWriter,
    Row,
    TableFormat,
    Writer,
    dsjson_line,
)

FORMATS: tuple[TableFormat, ...] = get_args(TableFormat)
MEDIA_TYPES: dict[TableFormat, str] = {
    "csv": "text/csv; charset=utf-8",
    "dsjson": "application/x-ndjson",
    "ndjson": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
_COLUMNS: dict[str, Kind] = {
    "decision_id": "text",
    "decided_at": "instant",
    "arm": "text",
    "propensity": "number",
    "reason": "text",
    "reward": "number",
    "greedy_arm": "text",
    "recommended_arm": "text",
    "observations": "count",
    "rewarded_arm": "text",
    "reward_source": "text",
    "rewarded_at": "instant",
    "propensities": "json",
    "candidates": "json",
}
"""Before the features."""
_KINDS: dict[str, Kind] = {"boolean": "boolean", "category": "text"}


def begin_table(connection: Connection, campaign_id: str, clock: Clock, form: TableFormat) -> "DecisionTable | None":
    """The decisions of a campaign as they are now; None if there is no such campaign.

    Raises InvalidCommandError for a format that this installation or this campaign cannot have.
    """
    start = read_start(connection, campaign_id, clock)
    return None if start is None else DecisionTable(start, form)


class DecisionTable:
    """The bytes of a file of decisions, page by page, until ``next_page`` returns None; a page may be empty."""

    def __init__(self, start: Start, form: TableFormat) -> None:
        self.rows, self.rows_written = start.made, 0
        self._row, self._arms = start.row, start.arms
        creation = stored(start.row.creation)
        self._model: Model = creation.model
        self._pages = DecisionPages(start)
        self._features = _Features(self._model, self._pages.reader, self._pages.vocabulary)
        self._writer: Writer | None = None
        self._begun = self._ended = False
        columns = _COLUMNS | self._features.columns
        if form == "csv":
            self._writer = CsvWriter(columns)
        elif form == "ndjson":
            self._writer = JsonWriter(columns)
        elif form == "parquet":
            self._writer = ParquetWriter(columns)
        elif self._model.type == "shared" and not (self._pages.reader.is_named or creation.log_candidates):
            raise InvalidCommandError(
                "dsjson lists the features of all candidates, which a shared model's decisions keep only with "
                "log_candidates, or where they have names (model.features) and the select asks to explain: ask for "
                "csv, ndjson or parquet",
                field="format",
            )

    def next_page(self, connection: Connection) -> bytes | None:
        """The next bytes; None after the last. Raises IncompleteExportError."""
        if self._ended:
            return None
        if not self._begun:
            self._begun = True
            return b"" if self._writer is None else self._writer.begin()
        if not self._pages.is_over:
            return self._page(connection)
        self._ended = True
        check_presence(connection, self._row.key)
        return b"" if self._writer is None else self._writer.end()

    def _page(self, connection: Connection) -> bytes:
        decisions = self._pages.next_page(connection)
        found = log.find_observations(connection, [row.identity for row in decisions])
        # what was learned after the start does not count
        rewards = {name: row for (_, name), row in found.items() if row.sequence <= self._row.head}
        for name, corrections in log.find_corrections(connection, self._row.key, rewards).items():
            values = [log.value_of(one) for one in corrections if one.sequence <= self._row.head]
            if not values:
                continue
            value = values[-1]
            if value is None:
                del rewards[name]
            else:
                rewards[name] = rewards[name]._replace(reward=value)
        self.rows_written += len(decisions)
        features = self._features.of(decisions)
        if self._writer is None:
            pairs = zip(decisions, features, strict=True)
            return b"".join(self._trained_on(one, rewards.get(one.decision_id), values) for one, values in pairs)
        return self._writer.write(
            [
                _row_of(one, rewards.get(one.decision_id), *self._asked(one)) | values
                for one, values in zip(decisions, features, strict=True)
            ]
        )

    def _trained_on(self, decision: DecisionRow, reward: LogRow | None, values: Row) -> bytes:
        """A line of dsjson; nothing where the decision says too little to be trained on.

        That is, without a reward of its own arm, a probability or, in a shared model, the features of all candidates.
        """
        if reward is None or decision.propensity is None or reward.arm_id != decision.arm_id:
            return b""
        explained = None if decision.explanation is None else orjson.loads(decision.explanation)
        chances, logged = self._asked(decision)
        context = {name.removeprefix(CONTEXT): value for name, value in values.items() if name.startswith(CONTEXT)}
        if self._model.type == "shared":
            actions = logged
            if logged is None and explained is not None:
                actions = _explained_features(explained, self._features.own)
            if actions is None or decision.arm_id not in actions:
                return b""
        else:
            arms = _candidates(decision, explained, self._arms) if logged is None else list(logged)
            actions = {arm_id: {"arm": arm_id} for arm_id in arms}
        return dsjson_line(decision, reward.reward, context, actions, chances)

    def _asked(self, decision: DecisionRow) -> tuple[dict[str, float] | None, dict[str, Row] | None]:
        """With what probability each candidate was chosen, and its own features by name; as far as that is kept."""
        kept = self._pages.candidates.read(decision)
        if kept is None:
            return _explained_propensities(decision), None
        rows = self._pages.candidates.features_of(kept)
        own = {arm_id: {} if row is None else self._features.of_arm(row) for arm_id, row in rows.items()}
        return dict(zip(kept.arms, kept.propensities, strict=True)), own


class _Features:
    """Reads the features of many rows at once. own: names of an arm's own features in a shared model."""

    def __init__(self, model: Model, reader: RowReader, vocabulary: Vocabulary) -> None:
        is_shared = model.type == "shared"
        names = [column.key for column in reader.columns]
        if not reader.is_named:
            names = [str(place) for place in range(reader.arm_length)]
        self.own = names[: reader.arm_length] if is_shared else []
        prefixed = [(ARM if place < reader.arm_length else "") + name for place, name in enumerate(names)]
        self._names = prefixed if is_shared else [CONTEXT + name for name in names]
        kinds = [column.feature.kind for column in reader.columns] if reader.is_named else ["number"] * len(names)
        self.columns: dict[str, Kind] = {
            name: _KINDS.get(kind, "number") for name, kind in zip(self._names, kinds, strict=True)
        }
        self._texts = [vocabulary.values(column.key) if column.is_category else None for column in reader.columns] or [
            None
        ] * len(names)

    def of(self, decisions: list[DecisionRow]) -> list[Row]:
        """Of each decision, the values by the columns' names, as they were sent; None where nothing was."""
        if not self._names or not decisions:
            return [{} for _ in decisions]
        return self._named(np.array([features_from_bytes(one.features) for one in decisions]), self._names)

    def of_arm(self, row: Floats) -> Row:
        """The values of an arm's own features by their names."""
        return self._named(row[None, :], self.own)[0] if self.own else {}

    def _named(self, matrix: Floats, names: list[str]) -> list[Row]:
        columns: list[list[Any]] = []
        for place, kind in zip(range(len(names)), self.columns.values(), strict=False):
            given, texts = matrix[:, place].tolist(), self._texts[place]
            if texts is not None:
                columns.append([None if one != one else texts.get(int(one), OTHER) for one in given])
            elif kind == "boolean":
                columns.append([None if one != one else bool(one) for one in given])
            else:
                columns.append([None if one != one else one for one in given])
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _row_of(
    decision: DecisionRow, reward: LogRow | None, chances: dict[str, float] | None, candidates: dict[str, Row] | None
) -> Row:
    return {
        "decision_id": decision.decision_id,
        "decided_at": decision.created_at,
        "arm": decision.arm_id,
        "propensity": decision.propensity,
        "reason": decision.reason,
        "reward": None if reward is None else reward.reward,
        "greedy_arm": decision.greedy_arm_id,
        "recommended_arm": decision.recommended_arm_id,
        "observations": decision.seen,
        "rewarded_arm": None if reward is None else reward.arm_id,
        "reward_source": None if reward is None else reward.source,
        "rewarded_at": None if reward is None else reward.observed_at,
        "propensities": chances,
        "candidates": candidates,
    }


def _explained_propensities(decision: DecisionRow) -> dict[str, float] | None:
    """Of every candidate, if the decision was explained."""
    explained = None if decision.explanation is None else orjson.loads(decision.explanation)
    if explained is None or any(arm.get("propensity") is None for arm in explained):
        return None
    return {arm["arm_id"]: arm["propensity"] for arm in explained}


def _candidates(decision: DecisionRow, explained: list[dict[str, Any]] | None, arms: list[ArmRow]) -> list[str]:
    """The arms of a decision in the order of registration: those explained, else those registered by then."""
    if explained is None:
        known = [arm.arm_id for arm in arms if arm.since <= decision.seen or arm.arm_id == decision.arm_id]
    else:
        names = {arm["arm_id"] for arm in explained}
        known = [arm.arm_id for arm in arms if arm.arm_id in names]
    return known if decision.arm_id in known else [*known, decision.arm_id]


def _explained_features(explained: list[dict[str, Any]], own: list[str]) -> dict[str, Row] | None:
    """Every candidate's features by name; None where the explanation leaves some out, as one of many arms does."""
    found: dict[str, Row] = {}
    for arm in sorted(explained, key=lambda one: str(one["arm_id"])):
        given = {one["feature"]: one["value"] for one in arm.get("contributions") or () if "value" in one}
        if not given.keys() >= set(own):
            return None
        found[arm["arm_id"]] = {name: given[name] for name in own}
    return found
