"""Retention: for how many days a campaign keeps its decisions. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | Sequence[str] | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("campaigns", sa.Column("retention_days", sa.Integer(), server_default="0", nullable=False))
    op.add_column("campaigns", sa.Column("pruned", sa.BigInteger(), server_default="0", nullable=False))
    op.create_index(
        "ix_campaigns_retention_days",
        "campaigns",
        ["key"],
        sqlite_where=sa.text("retention_days > 0"),
        postgresql_where=sa.text("retention_days > 0"),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("ix_campaigns_retention_days", "campaigns")
    op.drop_column("campaigns", "pruned")
    op.drop_column("campaigns", "retention_days")
