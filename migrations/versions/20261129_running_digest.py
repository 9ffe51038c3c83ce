"""The log: a running digest, and bounds that the database itself checks. Adds only.

Rows that are there keep a null digest and are not read: the digest begins with the first row that comes. Neither are
they held against the bounds, so that one bad row of one campaign cannot stop the migration.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | Sequence[str] | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

LEARNABLE = (
    "sequence >= 1 AND abs(reward) <= 1e9 AND (propensity IS NULL OR (propensity > 0 AND propensity <= 1)) "
    "AND length(features) / 8 * 8 = length(features) AND (digest IS NULL OR length(digest) = 16)"
)


def upgrade() -> None:
    """Change the schema."""
    if op.get_context().dialect.name == "sqlite":
        # A new column may bring a constraint, which spares copying the table. Set off only for the rows that are there.
        op.execute("PRAGMA ignore_check_constraints = ON")
        op.execute(
            f"ALTER TABLE observations ADD COLUMN digest BLOB CONSTRAINT ck_observations_learnable CHECK ({LEARNABLE})"
        )
        op.execute("PRAGMA ignore_check_constraints = OFF")
        return
    op.add_column("observations", sa.Column("digest", sa.LargeBinary()))
    op.create_check_constraint(op.f("ck_observations_learnable"), "observations", LEARNABLE, postgresql_not_valid=True)


def downgrade() -> None:
    """Take the change back."""
    if op.get_context().dialect.name != "sqlite":  # there it goes with its column
        op.drop_constraint(op.f("ck_observations_learnable"), "observations")
    op.drop_column("observations", "digest")
