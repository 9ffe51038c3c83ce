"""The categories that campaigns learn. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | Sequence[str] | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

KEY = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Change the schema."""
    op.create_table(
        "categories",
        sa.Column("key", KEY, nullable=False),
        sa.Column("feature", NAME, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("value", NAME, nullable=False),
        sa.ForeignKeyConstraint(["key"], ["campaigns.key"], name=op.f("fk_categories_key")),
        sa.PrimaryKeyConstraint("key", "feature", "position", name=op.f("pk_categories")),
        sqlite_with_rowid=False,
    )
    op.create_index("uq_categories_key_feature_value", "categories", ["key", "feature", "value"], unique=True)


def downgrade() -> None:
    """Take the change back."""
    op.drop_table("categories")
