"""Decisions: the candidates that a campaign logs, if it does. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | Sequence[str] | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("decisions", sa.Column("candidates", sa.LargeBinary()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("decisions", "candidates")
