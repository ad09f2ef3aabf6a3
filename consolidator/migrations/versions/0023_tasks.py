"""Tasks of native sessions: the open one is a cache of the log's fold; task events are found by an index."""

from __future__ import annotations

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table session add column open_task text")
    op.execute("create index event_task on event (session_id, seq) where event_type in ('TaskStart', 'TaskEnd')")


def downgrade() -> None:
    op.execute("drop index event_task")
    op.execute("alter table session drop column open_task")
