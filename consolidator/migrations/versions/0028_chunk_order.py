"""Chunks say after which event they were committed: followers receive both in one order."""

from __future__ import annotations

from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table generation_chunk add column after_seq bigint")


def downgrade() -> None:
    op.execute("alter table generation_chunk drop column after_seq")
