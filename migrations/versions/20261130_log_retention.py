"""Retention of the log: for how many days a campaign keeps its rows before a snapshot replaces them. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0019"
down_revision: str | Sequence[str] | None = "0018"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("campaigns", sa.Column("log_retention_days", sa.Integer(), server_default="0", nullable=False))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("campaigns", "log_retention_days")
