"""The trail: who changed what of campaigns and keys, and when. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | Sequence[str] | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "trail",
        sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), nullable=False),
        sa.Column("at", sa.BigInteger(), nullable=False),
        sa.Column("key", sa.BigInteger().with_variant(sa.Integer(), "sqlite")),
        sa.Column("campaign_id", _name()),
        sa.Column("author", sa.Text()),
        sa.Column("via", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", _name()),
        sa.Column("detail", sa.Text()),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_trail")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_trail_key_number", "trail", ["key", "number"])


def _name() -> sa.types.TypeEngine[str]:
    return sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("trail")
