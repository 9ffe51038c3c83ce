"""API keys: what a list shows of them, and names that are unique among those in use. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | Sequence[str] | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("api_keys", sa.Column("ending", sa.Text(), nullable=False, server_default=""))
    op.add_column("api_keys", sa.Column("note", sa.Text(), nullable=False, server_default=""))
    op.create_index(
        "uq_api_keys_name",
        "api_keys",
        ["name"],
        unique=True,
        sqlite_where=sa.text("revoked_at IS NULL"),
        postgresql_where=sa.text("revoked_at IS NULL"),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_index("uq_api_keys_name", "api_keys")
    op.drop_column("api_keys", "note")
    op.drop_column("api_keys", "ending")
