"""Decisions: whether they are held out. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | Sequence[str] | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("decisions", sa.Column("held_out", sa.Integer()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("decisions", "held_out")
