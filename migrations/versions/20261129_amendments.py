"""What a row of the log says beside an observation: corrections, their reasons, and changed settings. Adds only."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | Sequence[str] | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    """Change the schema."""
    op.add_column("observations", sa.Column("detail", sa.Text(), nullable=True))
    op.create_index(
        op.f("ix_observations_key_decision_id_sequence"),
        "observations",
        ["key", "decision_id", "sequence"],
        sqlite_where=sa.text("kind <> 'observation'"),
        postgresql_where=sa.text("kind <> 'observation'"),
    )


def downgrade() -> None:
    """Take the change back."""
    op.drop_index(op.f("ix_observations_key_decision_id_sequence"), "observations")
    op.drop_column("observations", "detail")
