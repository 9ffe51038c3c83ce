"""Replays logs, and compares heads, decisions, snapshots and a live server's state with the result."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

import numpy as np
from sqlalchemy import Connection, Engine

from prudent.campaigns import build_policy
from prudent.core.snapshot import FORMAT_VERSION, CorruptSnapshotError, unpack
from prudent.ledger.candidates import KnownCandidates
from prudent.ledger.loading import open_state
from prudent.ledger.quarantine import BAD_ROWS, BadRowError
from prudent.ledger.state import CampaignState
from prudent.store import campaigns, categories, decisions, log
from prudent.store.failures import find_damage
from prudent.store.log import FoldRow
from prudent.store.schema import check_revision
from prudent.store.statements import features_from_bytes
from prudent.store.tables import OBSERVATION, SnapshotRow

TOLERANCE = 1e-9
"""Relative. The exact minimiser's parameters depend on its starting point, and all of them on the processor."""

PAGE_ROWS = 500
"""Decisions read at once."""
TRIES = 10
"""So often is a campaign replayed whose rows were erased or replaced by a snapshot each time that they were read."""
LiveModel = Callable[[str], dict[str, Any] | None]
"""A live server's ``/model`` of a campaign; None if the server does not have the campaign."""


@dataclass(slots=True)
class Verdict:
    """What was found of one campaign. observations: how many it has learned, all of them replayed.

    digest: whether the log's running digest follows from its rows, and from which row on there is one. replaced: how
    many rows were, by the snapshot with which the log begins.
    """

    campaign_id: str
    observations: int
    digest: str = "not asked"
    snapshot: str = "none"
    live: str = "not asked"
    replaced: int = 0
    faults: list[str] = field(default_factory=list)


def verify(engine: Engine, live_model: LiveModel | None = None, *, deep: bool = False) -> Iterator[Verdict]:
    """Replay every campaign's log, one after the other. Raises UnknownRevisionError for another schema.

    deep: compute the running digests of the logs as well.
    """
    with engine.connect() as connection:
        check_revision(connection)
        damage = find_damage(connection)
    if damage:
        yield Verdict("(the file)", 0, faults=damage)
    after = ""
    while True:
        with engine.connect() as connection:
            rows = campaigns.list_campaigns(connection, after=after, limit=100)
        if not rows:
            return
        for row in rows:
            assert row.campaign_id is not None  # noqa: S101  # deleted ones are not listed
            verdict = verify_campaign(engine, row.key, row.campaign_id, live_model, deep=deep)
            if verdict is not None:
                yield verdict
            after = row.campaign_id


def verify_campaign(
    engine: Engine, key: int, campaign_id: str, live_model: LiveModel | None, *, deep: bool = False
) -> Verdict | None:
    """Replay one campaign's log; once more if what looks like a fault may be rows that have gone meanwhile.

    None for a campaign that has been deleted.
    """
    for _ in range(TRIES):
        before = _read_marks(engine, key)
        verdict = _verify_once(engine, key, campaign_id, live_model, deep=deep)
        if verdict is None or not verdict.faults or _read_marks(engine, key) == before:
            return verdict
    assert verdict is not None  # noqa: S101  # of the last try
    verdict.faults.append(f"it changed each of {TRIES} times that it was verified: verify it again")
    return verdict


def _read_marks(engine: Engine, key: int) -> tuple[Any, ...] | None:
    """What is another after rows of a campaign's log were erased, or replaced by a snapshot; None without a campaign.

    No transaction can hold still what is read: it would be idle for as long as the replay takes.
    """
    with engine.connect() as connection:
        standing = campaigns.read_standings(connection, [key]).get(key)
        beginning = log.find_beginning(connection, key)
    return standing and (standing.epoch, standing.revision, beginning and beginning.sequence)


def _verify_once(
    engine: Engine, key: int, campaign_id: str, live_model: LiveModel | None, *, deep: bool = False
) -> Verdict | None:
    # the live state first: it can only be at or behind what is read from the database afterwards
    live = None if live_model is None else live_model(campaign_id)
    with engine.connect() as connection:
        try:
            standing = campaigns.read_standings(connection, [key]).get(key)
            state = None if standing is None else open_state(connection, standing)
        except BAD_ROWS as error:
            fault = str(error) if isinstance(error, BadRowError) else type(error).__name__
            return Verdict(campaign_id, 0, faults=[f"its configuration or its arms cannot be read: {fault}"])
        if state is None:
            return None
        verdict = Verdict(campaign_id, state.target)
        verdict.faults += log.find_faults(connection, key, state.head)
        beginning = log.find_beginning(connection, key)
        verdict.replaced = 0 if beginning is None else beginning.sequence
        stored = categories.read_categories(connection, [key])[key]
        verdict.faults += state.reader.faults_of(stored)
        snapshot = log.find_snapshot(connection, key)
        if state.creation.log_candidates:
            _check_candidates(connection, state, verdict)
        # up to here, all of one instant; no transaction is open for as long as what follows takes
        if deep:
            _check_digests(connection, key, state.head, verdict)
        _replay(connection, state, snapshot, live, verdict)
    if live_model is not None and live is None:
        verdict.live = "absent"
        verdict.faults.append("the live server does not have this campaign")
    return verdict


def _check_candidates(connection: Connection, state: CampaignState, verdict: Verdict) -> None:
    """Report the first decision whose candidates are none that the campaign can have had."""
    arms = campaigns.read_arms(connection, [state.key])[state.key]
    known = KnownCandidates(state.reader, arms, is_shared=state.shared)
    after, until = (-1, ""), decisions.newest_place(connection, state.key)
    while until is not None and (rows := decisions.read_between(connection, state.key, after, until, PAGE_ROWS)):
        for row in rows:
            fault = known.fault(row, state.vocabulary)
            if fault is not None:
                verdict.faults.append(f"the decision {row.decision_id}: {fault}")
                return
        after = (rows[-1].created_at, rows[-1].decision_id)


def _check_digests(connection: Connection, key: int, head: int, verdict: Verdict) -> None:
    changed: list[int] = []
    sequence, missing, before = 0, 0, None
    while rows := log.read_rows(connection, key, sequence, head, log.PAGE_ROWS):
        connection.rollback()
        changed += log.find_changed(rows, before)
        missing += sum(row.digest is None for row in rows)
        sequence, before = rows[-1].sequence, rows[-1].digest
    verdict.digest = "unbroken" if not missing else f"unbroken, but {missing} rows of an older version have none"
    if changed:
        verdict.digest = "broken"
        verdict.faults.append(log.describe_changed(changed))


def _replay(
    connection: Connection,
    state: CampaignState,
    snapshot: SnapshotRow | None,
    live: dict[str, Any] | None,
    verdict: Verdict,
) -> None:
    for row in _rows(connection, state):
        try:
            features = features_from_bytes(row.features)
        except ValueError:
            verdict.faults.append(f"row {row.sequence} of the log is damaged: its features are cut off")
            return
        fault = None if row.kind != OBSERVATION else state.reader.fault(features, state.vocabulary)
        if fault is not None:
            verdict.faults.append(f"row {row.sequence} of the log is not one of this campaign: {fault}")
            return
        try:
            state.fold(row)
        except BAD_ROWS as error:
            verdict.faults.append(f"row {row.sequence} of the log cannot be folded: {error!r}")
            return
        amended = 0 if state.amendments is None else state.amendments.last
        if row.sequence < amended:
            continue  # no state of this sequence has learned what was amended later
        if snapshot is not None and row.sequence == snapshot.sequence:
            _compare_snapshot(state, snapshot, verdict)
        if live is not None and row.sequence == live["observations"]:
            _compare_live(state, live, verdict)
    if live is not None and live["observations"] == 0:
        verdict.live = "equal"
    if live is not None and live["observations"] > state.target:
        verdict.faults.append(f"the live state is at {live['observations']}, beyond the log's {state.target}")
    if snapshot is not None and snapshot.sequence > state.target:
        verdict.faults.append(f"the snapshot is at {snapshot.sequence}, beyond the log's {state.target}")
    if not state.policy.estimator.is_sane():
        verdict.faults.append("the state is not finite and positive semi-definite")


def _rows(connection: Connection, state: CampaignState) -> Iterator[FoldRow]:
    """The log up to the state's target. No transaction is open while rows are folded: it would be idle for too long."""
    after = 0
    while page := log.read_page(connection, state.key, after, state.target):
        connection.rollback()
        yield from page
        after = page[-1].sequence


def _compare_snapshot(state: CampaignState, snapshot: SnapshotRow, verdict: Verdict) -> None:
    if snapshot.format_version != FORMAT_VERSION:
        verdict.snapshot = "not of this version: ignored"
        return
    if snapshot.configuration_digest != state.fold_digest(state.last):
        verdict.snapshot = "of another log: ignored"
        return
    loaded, replayed = _loaded(state, snapshot.state), state.policy.dump()
    if loaded == replayed:
        verdict.snapshot = f"equal at {snapshot.sequence}"
    elif loaded is not None and replayed is not None and _agree(loaded, replayed):
        # products are rounded differently on another kind of processor: a backup may be restored there
        verdict.snapshot = f"agrees to {TOLERANCE:g} at {snapshot.sequence}"
    else:
        verdict.snapshot = "differs"
        verdict.faults.append(f"the snapshot at {snapshot.sequence} differs from the replay")


def _loaded(state: CampaignState, data: bytes) -> bytes | None:
    """A snapshot as it is used: loaded, with the arms that came since. None if it cannot be."""
    policy = build_policy(state.creation, state.configuration, arms=len(state.arms))
    try:
        policy.load(data)
    except CorruptSnapshotError:
        return None
    return policy.dump()


def _agree(one: bytes, other: bytes) -> bool:
    """Whether two dumps hold the same arrays, up to rounding."""
    mine, theirs = unpack(one), unpack(other)
    return mine.keys() == theirs.keys() and all(
        mine[name].shape == theirs[name].shape
        and bool(
            np.allclose(mine[name], theirs[name], rtol=TOLERANCE, atol=TOLERANCE * np.abs(mine[name]).max(initial=0))
        )
        for name in mine
    )


def _compare_live(state: CampaignState, live: dict[str, Any], verdict: Verdict) -> None:
    dumped = state.policy.dump()
    if dumped is not None:
        equal = live["state_digest"] == blake2b(dumped, digest_size=16).hexdigest()
    else:
        state.policy.refresh()
        theta = state.policy.parameters()
        shown = [live["theta"]] if state.shared else [arm["theta"] for arm in live["arms"]]
        difference = np.abs(np.array(shown, dtype=np.float64)[: len(theta)] - theta[: len(shown)])
        equal = bool((difference <= TOLERANCE * max(float(np.abs(theta).max(initial=0.0)), 1e-300)).all())
    verdict.live = "equal" if equal else "differs"
    if not equal:
        verdict.faults.append(f"the live state at {live['observations']} differs from the replay")
