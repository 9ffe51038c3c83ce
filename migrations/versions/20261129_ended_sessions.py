"""Sessions of the dashboard that were signed out before they expired. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | Sequence[str] | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "ended_sessions",
        sa.Column("session", sa.LargeBinary(), nullable=False),
        sa.Column("expires_at", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("session", name=op.f("pk_ended_sessions")),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("ended_sessions")
