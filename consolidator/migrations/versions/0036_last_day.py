"""The day on which something last happened in a session, for lists of the latest: an append changes it once a day."""

from __future__ import annotations

from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Room on each page for the next version of a session's row, so that most appends change no index at all.
    op.execute("alter table session set (fillfactor = 60)")
    op.execute(
        "alter table session add column last_day date not null "
        "generated always as ((last_occurred_at at time zone 'UTC')::date) stored"
    )
    op.execute("create index session_last_day on session (last_day desc)")


def downgrade() -> None:
    op.execute("alter table session drop column last_day")
    op.execute("alter table session reset (fillfactor)")
