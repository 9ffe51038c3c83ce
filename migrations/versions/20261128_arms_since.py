"""Arms: the log's head when each was registered. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | Sequence[str] | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("arms", sa.Column("since", sa.BigInteger(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("arms", "since")
