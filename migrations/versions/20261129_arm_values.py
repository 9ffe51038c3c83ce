"""Arms: their values. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | Sequence[str] | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("arms", sa.Column("value", sa.Text()))


def downgrade() -> None:
    """Take the change back."""
    op.drop_column("arms", "value")
