"""Decisions: what they leave of a baseline's allowance. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | Sequence[str] | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("decisions", sa.Column("allowance", sa.Double()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("decisions", "allowance")
