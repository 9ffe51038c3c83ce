"""Campaigns: the key with which their subjects are digested. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | Sequence[str] | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("campaigns", sa.Column("subject_key", sa.LargeBinary()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("campaigns", "subject_key")
