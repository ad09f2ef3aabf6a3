"""Sub-agents at work are found by an index."""

from __future__ import annotations

from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create index session_unfinished on session (parent_id) where config ? 'unfinished'")


def downgrade() -> None:
    op.execute("drop index session_unfinished")
