"""Every primary and unique key begins with the campaign's: an id of a decision is unique within its campaign.

PostgreSQL builds the new keys while the tables are locked. SQLite copies the decisions, as it cannot change a key.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0018"
down_revision: str | Sequence[str] | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

IS_REWARD = sa.text("kind = 'observation' AND decision_id IS NOT NULL")


def upgrade() -> None:
    """Change the schema."""
    # before the key: of indexes that seem to cost the same, as all do on an empty table, PostgreSQL takes the newest
    op.create_index("ix_decisions_decision_id", "decisions", ["decision_id"])
    _set_primary_key(["key", "decision_id"])
    _replace_unique_index("uq_observations_decision_id", "uq_observations_key_decision_id", ["key", "decision_id"])


def downgrade() -> None:
    """Take the change back, unless two campaigns use the same id or the tables are partitioned."""
    op.drop_index("ix_decisions_decision_id", "decisions")
    _set_primary_key(["decision_id"])
    _replace_unique_index("uq_observations_key_decision_id", "uq_observations_decision_id", ["decision_id"])


def _set_primary_key(columns: list[str]) -> None:
    with op.batch_alter_table("decisions") as decisions:
        decisions.drop_constraint("pk_decisions", type_="primary")
        decisions.create_primary_key("pk_decisions", columns)


def _replace_unique_index(old: str, new: str, columns: list[str]) -> None:
    op.drop_index(old, "observations")
    op.create_index(new, "observations", columns, unique=True, sqlite_where=IS_REWARD, postgresql_where=IS_REWARD)
