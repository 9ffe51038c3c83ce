"""Decisions: when those with deferred activation were activated. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | Sequence[str] | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("decisions", sa.Column("activated_at", sa.BigInteger()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("decisions", "activated_at")
