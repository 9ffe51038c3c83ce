"""Feature flags: the campaigns that web pages and apps evaluate, and the role of their keys."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | Sequence[str] | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("campaigns", sa.Column("client_side", sa.Integer(), server_default="0", nullable=False))
    op.create_index(
        "ix_campaigns_client_side",
        "campaigns",
        ["campaign_id"],
        sqlite_where=sa.text("client_side = 1"),
        postgresql_where=sa.text("client_side = 1"),
    )
    _allow_roles("'evaluator', 'reader', 'writer', 'admin'")


def downgrade() -> None:
    """Take the change back."""
    op.execute("DELETE FROM api_keys WHERE role = 'evaluator'")
    _allow_roles("'reader', 'writer', 'admin'")
    op.drop_index("ix_campaigns_client_side", "campaigns")
    op.drop_column("campaigns", "client_side")


def _allow_roles(roles: str) -> None:
    """SQLite cannot change a table's constraint: there the table is copied, with its index."""
    with op.batch_alter_table("api_keys") as table:
        table.drop_constraint(op.f("ck_api_keys_role"), type_="check")
        table.create_check_constraint(op.f("ck_api_keys_role"), f"role IN ({roles})")
