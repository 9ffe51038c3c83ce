"""The schema, and the rows of its tables. Times are integers, microseconds since 1970 in UTC: on both databases.

The columns of most tables are the fields of their row's class, which is the only place that lists them: statements,
replies and exports take them from there. What a new column needs besides is a migration in migrations/versions.

Everything refers to a campaign by its internal key, which is never reused, so that a campaign recreated under
the same public id cannot meet the old one's state. Every primary and unique key, and every join, begins with it, so
that tables may be partitioned or distributed by it. The log (``observations``) is the truth: a fold reads it alone.
"""

from types import NoneType
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import orjson
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

KEY = BigInteger().with_variant(Integer, "sqlite")
INSTANT = BigInteger()
INSTANT_MAX = 2**63 - 1
"""Larger ones do not fit the column."""
NAME = Text().with_variant(Text(collation="C"), "postgresql")
"""Ids compare by code point on both databases, so pages and lock orders agree."""

NOT_ACTIVATED = 0
"""In place of the time at which a decision was activated: it is no play, and has no deadline."""

OBSERVATION = "observation"
"""The kind of a log row that is learned as it is."""
EVENT_PREFIX = "e-"
"""Of the observation ids of rewards that came as events."""
CORRECTION, ERASURE, CONFIGURATION = "correction", "erasure", "configuration"
"""The other kinds: a decision's reward is another one than was learned, or none; a setting of the fold changes."""
LEARNABLE = (
    "sequence >= 1 AND abs(reward) <= 1e9 AND (propensity IS NULL OR (propensity > 0 AND propensity <= 1)) "
    "AND length(features) / 8 * 8 = length(features) AND (digest IS NULL OR length(digest) = 16)"
)
"""What the database itself requires of a log row, whoever writes it. NaN fails both bounds of a range."""

Key = Annotated[int, KEY]
"""A campaign's internal key."""
DecisionKey = tuple[int, str]
"""What identifies a decision: its campaign's key, and its id, which another campaign may use as well."""
Instant = Annotated[int, INSTANT]
Name = Annotated[str, NAME]
Small = Annotated[int, Integer()]


class ArmRow(NamedTuple):
    """A registered arm. position: order of registration, from 0: the block of a disjoint model."""

    key: Key
    position: Small
    arm_id: Name
    status: str
    features: bytes | None
    plays: int  # exact until the warm-up is over, then a lower bound
    since: int = 0  # the log's head when it was registered: what came before does not count for the floor
    value: str | None = None  # JSON; null for the arm's id

    @property
    def parsed_value(self) -> Any:
        """The value of its own; None for the arm's id."""
        return None if self.value is None else orjson.loads(self.value)


def value_to_text(value: Any) -> str | None:
    """An arm's value as it is stored; None for none of its own."""
    return None if value is None else orjson.dumps(value).decode()


class DecisionRow(NamedTuple):
    """A decision. features: of the chosen arm, or the context. bonus, index_value: inf where there is none finite."""

    decision_id: Name
    key: Key
    arm_id: Name
    features: bytes
    estimate: float
    bonus: float
    index_value: float
    reason: str
    greedy_arm_id: Name
    recommended_arm_id: Name | None  # only of an external choice
    propensity: float | None
    seen: int  # sequence of the state used
    request_digest: bytes | None  # null where the server made the id
    explanation: str | None  # JSON, if asked
    created_at: Instant
    due_at: Instant | None  # cleared by a reward
    candidates: bytes | None = None  # see `prudent.store.candidates`; null unless the campaign logs them
    activated_at: Instant | None = None  # of one with deferred activation; NOT_ACTIVATED before; else null
    held_out: Small | None = None  # 1 or 0, where the campaign's holdout could have had it; else null
    allowance: float | None = None  # that it leaves, in reward units, where the campaign has a baseline; else null

    @property
    def identity(self) -> DecisionKey:
        """What identifies it."""
        return self.key, self.decision_id


class LogRow(NamedTuple):
    """A row of a campaign's log. features: as sent; of an observation only, as are propensity and observation_id.

    The reward of an erasure or a configuration is 0 and means nothing.
    """

    key: Key
    sequence: int
    kind: str
    decision_id: Name | None  # null for a warm start
    observation_id: Name | None  # the client's id of a warm start, or the digest of an event's
    arm_id: Name
    features: bytes
    reward: float
    source: str
    propensity: float | None
    observed_at: Instant
    digest: bytes | None = None  # the log's running digest up to here; null where an older version appended
    detail: str | None = None  # the reason of a correction or an erasure; what a configuration sets, as JSON


class CategoryRow(NamedTuple):
    """A category that a campaign has learned. feature: its name in a row; position: its value in a row."""

    key: Key
    feature: Name
    position: Small
    value: Name


class SnapshotRow(NamedTuple):
    """A snapshot of what a campaign has learned up to a sequence number."""

    key: Key
    sequence: int
    format_version: Small
    configuration_digest: bytes
    state: bytes


_TYPES: dict[type, TypeEngine[Any]] = {int: BigInteger(), float: Double(), str: Text(), bytes: LargeBinary()}


def _columns(row: type) -> list[Column[Any]]:
    """A column per field of a row's class: of the annotation's type, nullable if the annotation allows None."""
    columns = []
    for name, hint in get_type_hints(row, include_extras=True).items():
        is_nullable = NoneType in get_args(hint)
        kind = _type_of(get_args(hint)[0] if is_nullable else hint)
        foreign = [ForeignKey("campaigns.key")] if name == "key" else []
        columns.append(Column(name, kind, *foreign, nullable=is_nullable))
    return columns


def _type_of(hint: Any) -> TypeEngine[Any]:
    """The SQL type that an annotation names or, where it names none, the one of its Python type."""
    named: TypeEngine[Any] = hint.__metadata__[0] if get_origin(hint) is Annotated else _TYPES[hint]
    return named


campaigns = Table(
    "campaigns",
    metadata,
    Column("key", KEY, Identity(), primary_key=True),
    Column("campaign_id", NAME),  # null once deleted, and until an import is complete
    Column("configuration", Text, nullable=False),  # as resolved, JSON
    Column("creation", Text, nullable=False),  # as resolved at creation, JSON: what the fold depends on
    Column("status", Text, nullable=False),
    Column("revision", BigInteger, nullable=False),  # raised by every change of configuration or arms
    Column("learn_limit", BigInteger),  # the head at the pause; null while learning
    Column("created_at", INSTANT, nullable=False),
    Column("subject_key", LargeBinary),  # what subjects are digested with; null before the first
    Column("client_side", Integer, nullable=False, server_default="0"),  # 1 or 0, as its configuration says
    Column("retention_days", Integer, nullable=False, server_default="0"),  # likewise
    Column("log_retention_days", Integer, nullable=False, server_default="0"),  # likewise
    Column("pruned", BigInteger, nullable=False, server_default="0"),  # rewards whose decision retention has deleted
    CheckConstraint("status IN ('active', 'paused', 'archived', 'deleted')", name="status"),
    Index("uq_campaigns_campaign_id", "campaign_id", unique=True),
    Index(
        "ix_campaigns_client_side",
        "campaign_id",
        sqlite_where=text("client_side = 1"),
        postgresql_where=text("client_side = 1"),
    ),
    Index(
        "ix_campaigns_retention_days",
        "key",
        sqlite_where=text("retention_days > 0"),
        postgresql_where=text("retention_days > 0"),
    ),
    sqlite_autoincrement=True,
)

heads = Table(
    "heads",
    metadata,
    Column("key", KEY, ForeignKey("campaigns.key"), nullable=False),
    Column("head", BigInteger, nullable=False),  # last sequence number given
    PrimaryKeyConstraint("key"),
)

arms = Table(
    "arms",
    metadata,
    *_columns(ArmRow),
    PrimaryKeyConstraint("key", "position"),
    CheckConstraint("status IN ('active', 'paused', 'retired')", name="status"),
    Index("uq_arms_key_arm_id", "key", "arm_id", unique=True),
    sqlite_with_rowid=False,
)

decisions = Table(
    "decisions",
    metadata,
    *_columns(DecisionRow),
    PrimaryKeyConstraint("key", "decision_id"),
    Index("ix_decisions_decision_id", "decision_id"),
    Index("ix_decisions_key_created_at_decision_id", "key", "created_at", "decision_id"),
    Index(
        "ix_decisions_due_at",
        "due_at",
        sqlite_where=text("due_at IS NOT NULL"),
        postgresql_where=text("due_at IS NOT NULL"),
    ),
)

observations = Table(
    "observations",
    metadata,
    *_columns(LogRow),
    PrimaryKeyConstraint("key", "sequence"),
    CheckConstraint("kind IN ('observation', 'correction', 'erasure', 'configuration')", name="kind"),
    CheckConstraint("source IN ('reward', 'default', 'warm-start')", name="source"),
    CheckConstraint(LEARNABLE, name="learnable"),
    Index(
        "uq_observations_key_decision_id",
        "key",
        "decision_id",
        unique=True,
        sqlite_where=text("kind = 'observation' AND decision_id IS NOT NULL"),
        postgresql_where=text("kind = 'observation' AND decision_id IS NOT NULL"),
    ),
    Index(
        "uq_observations_key_observation_id",
        "key",
        "observation_id",
        unique=True,
        sqlite_where=text("observation_id IS NOT NULL"),
        postgresql_where=text("observation_id IS NOT NULL"),
    ),
    Index(
        "ix_observations_key_decision_id_sequence",
        "key",
        "decision_id",
        "sequence",
        sqlite_where=text("kind <> 'observation'"),
        postgresql_where=text("kind <> 'observation'"),
    ),
)

categories = Table(
    "categories",
    metadata,
    *_columns(CategoryRow),
    PrimaryKeyConstraint("key", "feature", "position"),
    Index("uq_categories_key_feature_value", "key", "feature", "value", unique=True),
    sqlite_with_rowid=False,
)

event_names = Table(
    "event_names",
    metadata,
    Column("name", NAME, nullable=False),
    Column("key", KEY, ForeignKey("campaigns.key"), nullable=False),
    PrimaryKeyConstraint("name", "key"),
    sqlite_with_rowid=False,
)
"""The events that campaigns learn from, so that an event finds its campaigns."""

snapshots = Table(
    "snapshots",
    metadata,
    *_columns(SnapshotRow),
    PrimaryKeyConstraint("key"),
)

api_keys = Table(
    "api_keys",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("name", NAME, nullable=False),
    Column("role", Text, nullable=False),
    Column("created_at", INSTANT, nullable=False),
    Column("revoked_at", INSTANT),
    Column("ending", Text, nullable=False, server_default=""),  # the key's last four characters, to tell keys apart
    Column("note", Text, nullable=False, server_default=""),
    CheckConstraint("role IN ('evaluator', 'reader', 'writer', 'admin')", name="role"),
    Index(
        "uq_api_keys_name",
        "name",
        unique=True,
        sqlite_where=text("revoked_at IS NULL"),
        postgresql_where=text("revoked_at IS NULL"),
    ),
)

ended_sessions = Table(
    "ended_sessions",
    metadata,
    Column("session", LargeBinary, primary_key=True),  # its id in the cookie
    Column("expires_at", INSTANT, nullable=False),  # the row is of no use afterwards
)
"""Sessions of the dashboard that were signed out before they expired."""

trail = Table(
    "trail",
    metadata,
    Column("number", KEY, Identity(), primary_key=True),
    Column("at", INSTANT, nullable=False),
    Column("key", KEY),  # of a campaign, also of one that was purged since; null for API keys
    Column("campaign_id", NAME),  # which it had then
    Column("author", Text),  # the name of the API key; null where none was in use
    Column("via", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("subject", NAME),  # the arm, decision or API key that it was done to; null for the campaign itself
    Column("detail", Text),  # JSON, by action
    Index("ix_trail_key_number", "key", "number"),
    sqlite_autoincrement=True,
)
"""Who changed what of campaigns and API keys. It belongs to this database: exports do not have it."""
