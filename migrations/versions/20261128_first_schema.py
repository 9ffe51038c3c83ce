"""First schema: campaigns, heads, arms, decisions, the log, snapshots, API keys."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | Sequence[str] | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "api_keys",
        sa.Column("digest", sa.LargeBinary(), nullable=False),
        sa.Column("name", NAME, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("revoked_at", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("role IN ('reader', 'writer', 'admin')", name=op.f("ck_api_keys_role")),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_api_keys")),
    )
    op.create_table(
        "campaigns",
        sa.Column("key", KEY, sa.Identity(always=False), nullable=False),
        sa.Column("campaign_id", NAME, nullable=True),
        sa.Column("configuration", sa.Text(), nullable=False),
        sa.Column("creation", sa.Text(), nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("learn_limit", sa.BigInteger(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("status IN ('active', 'paused', 'archived', 'deleted')", name=op.f("ck_campaigns_status")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_campaigns")),
        sqlite_autoincrement=True,
    )
    op.create_index("uq_campaigns_campaign_id", "campaigns", ["campaign_id"], unique=True)

    op.create_table(
        "arms",
        sa.Column("key", KEY, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("arm_id", NAME, nullable=False),
        sa.Column("status", sa.Text(), nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=True),
        sa.Column("plays", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("status IN ('active', 'paused', 'retired')", name=op.f("ck_arms_status")),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_arms_key")),
        sa.PrimaryKeyConstraint("key", "position", name=op.f("pk_arms")),
        sqlite_with_rowid=False,
    )
    op.create_index("uq_arms_key_arm_id", "arms", ["key", "arm_id"], unique=True)

    op.create_table(
        "decisions",
        sa.Column("decision_id", NAME, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("arm_id", NAME, nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("estimate", sa.Double(), nullable=False),
        sa.Column("bonus", sa.Double(), nullable=False),
        sa.Column("index_value", sa.Double(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("greedy_arm_id", NAME, nullable=False),
        sa.Column("recommended_arm_id", NAME, nullable=True),
        sa.Column("propensity", sa.Double(), nullable=True),
        sa.Column("seen", sa.BigInteger(), nullable=False),
        sa.Column("request_digest", sa.LargeBinary(), nullable=True),
        sa.Column("explanation", sa.Text(), nullable=True),
        sa.Column("created_at", sa.BigInteger(), nullable=False),
        sa.Column("due_at", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_decisions_key")),
        sa.PrimaryKeyConstraint("decision_id", name=op.f("pk_decisions")),
    )
    op.create_index(
        "ix_decisions_due_at",
        "decisions",
        ["due_at"],
        unique=False,
        sqlite_where=sa.text("due_at IS NOT NULL"),
        postgresql_where=sa.text("due_at IS NOT NULL"),
    )
    op.create_index(
        "ix_decisions_key_created_at_decision_id",
        "decisions",
        ["key", "created_at", "decision_id"],
        unique=False,
    )

    op.create_table(
        "heads",
        sa.Column("key", KEY, nullable=False),
        sa.Column("head", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_heads_key")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_heads")),
    )
    op.create_table(
        "observations",
        sa.Column("key", KEY, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("decision_id", NAME, nullable=True),
        sa.Column("observation_id", NAME, nullable=True),
        sa.Column("arm_id", NAME, nullable=False),
        sa.Column("features", sa.LargeBinary(), nullable=False),
        sa.Column("reward", sa.Double(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("propensity", sa.Double(), nullable=True),
        sa.Column("observed_at", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('observation', 'correction', 'erasure', 'configuration')",
            name=op.f("ck_observations_kind"),
        ),
        sa.CheckConstraint("source IN ('reward', 'default', 'warm-start')", name=op.f("ck_observations_source")),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_observations_key")),
        sa.PrimaryKeyConstraint("key", "sequence", name=op.f("pk_observations")),
    )
    op.create_index(
        "uq_observations_decision_id",
        "observations",
        ["decision_id"],
        unique=True,
        sqlite_where=sa.text("kind = 'observation' AND decision_id IS NOT NULL"),
        postgresql_where=sa.text("kind = 'observation' AND decision_id IS NOT NULL"),
    )
    op.create_index(
        "uq_observations_key_observation_id",
        "observations",
        ["key", "observation_id"],
        unique=True,
        sqlite_where=sa.text("observation_id IS NOT NULL"),
        postgresql_where=sa.text("observation_id IS NOT NULL"),
    )

    op.create_table(
        "snapshots",
        sa.Column("key", KEY, nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("format_version", sa.Integer(), nullable=False),
        sa.Column("configuration_digest", sa.LargeBinary(), nullable=False),
        sa.Column("state", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_snapshots_key")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_snapshots")),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("snapshots")

    op.drop_table("observations")
    op.drop_table("heads")

    op.drop_table("decisions")

    op.drop_table("arms")

    op.drop_table("campaigns")
    op.drop_table("api_keys")
