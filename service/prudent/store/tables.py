"""The schema. Times are integers, microseconds since 1970 in UTC: the same on both databases.

Everything refers to a campaign by its internal key, which is never reused, so that a campaign recreated under
the same public id cannot meet the old one's state. The log (``observations``) is the truth: a fold reads it alone.
"""

import numpy as np
from numpy.typing import NDArray
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

OBSERVATION = "observation"
"""The kind of a log row that is learned; the others are reserved."""

_FLOAT64 = np.dtype("<f8")


def features_to_bytes(features: NDArray[np.float64]) -> bytes:
    """(d,) features as the tables hold them: little-endian float64."""
    return features.astype(_FLOAT64, copy=False).tobytes()


def features_from_bytes(data: bytes) -> NDArray[np.float64]:
    """(d,) what ``features_to_bytes`` was given, read-only."""
    return np.frombuffer(data, _FLOAT64)


def _campaign_key() -> Column[int]:
    return Column("key", KEY, ForeignKey("campaigns.key"), nullable=False)


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
    CheckConstraint("status IN ('active', 'paused', 'archived', 'deleted')", name="status"),
    Index("uq_campaigns_campaign_id", "campaign_id", unique=True),
    sqlite_autoincrement=True,
)

heads = Table(
    "heads",
    metadata,
    _campaign_key(),
    Column("head", BigInteger, nullable=False),  # last sequence number given
    PrimaryKeyConstraint("key"),
)

arms = Table(
    "arms",
    metadata,
    _campaign_key(),
    Column("position", Integer, nullable=False),  # order of registration, from 0: the block of a disjoint model
    Column("arm_id", NAME, nullable=False),
    Column("status", Text, nullable=False),
    Column("features", LargeBinary),  # float64, little-endian
    Column("plays", BigInteger, nullable=False),  # exact until the warm-up is over, then a lower bound
    PrimaryKeyConstraint("key", "position"),
    CheckConstraint("status IN ('active', 'paused', 'retired')", name="status"),
    Index("uq_arms_key_arm_id", "key", "arm_id", unique=True),
    sqlite_with_rowid=False,
)

decisions = Table(
    "decisions",
    metadata,
    Column("decision_id", NAME, nullable=False),
    _campaign_key(),
    Column("arm_id", NAME, nullable=False),
    Column("features", LargeBinary, nullable=False),  # of the chosen arm, or the context; float64, little-endian
    Column("estimate", Double, nullable=False),
    Column("bonus", Double, nullable=False),
    Column("index_value", Double, nullable=False),
    Column("reason", Text, nullable=False),
    Column("greedy_arm_id", NAME, nullable=False),
    Column("recommended_arm_id", NAME),  # of an external choice
    Column("propensity", Double),
    Column("seen", BigInteger, nullable=False),  # sequence of the state used
    Column("request_digest", LargeBinary),  # null where the server made the id
    Column("explanation", Text),  # JSON, if asked
    Column("created_at", INSTANT, nullable=False),
    Column("due_at", INSTANT),  # cleared by a reward
    PrimaryKeyConstraint("decision_id"),
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
    _campaign_key(),
    Column("sequence", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("decision_id", NAME),  # null for a warm start
    Column("observation_id", NAME),  # the client's id of a warm start
    Column("arm_id", NAME, nullable=False),
    Column("features", LargeBinary, nullable=False),  # as sent; float64, little-endian
    Column("reward", Double, nullable=False),
    Column("source", Text, nullable=False),
    Column("propensity", Double),
    Column("observed_at", INSTANT, nullable=False),
    PrimaryKeyConstraint("key", "sequence"),
    CheckConstraint("kind IN ('observation', 'correction', 'erasure', 'configuration')", name="kind"),
    CheckConstraint("source IN ('reward', 'default', 'warm-start')", name="source"),
    Index(
        "uq_observations_decision_id",
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
)

snapshots = Table(
    "snapshots",
    metadata,
    _campaign_key(),
    Column("sequence", BigInteger, nullable=False),
    Column("format_version", Integer, nullable=False),
    Column("configuration_digest", LargeBinary, nullable=False),
    Column("state", LargeBinary, nullable=False),
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
    CheckConstraint("role IN ('reader', 'writer', 'admin')", name="role"),
    Index(
        "uq_api_keys_name",
        "name",
        unique=True,
        sqlite_where=text("revoked_at IS NULL"),
        postgresql_where=text("revoked_at IS NULL"),
    ),
)
