"""What a session was asked to do, in its digest; and what each procedure is worth telling."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table digest add column goal bytea default ''::bytea not null")
    op.execute("alter table procedure add column worth float default 0 not null")
    # Until the next merge says what they are worth, all are told as before.
    op.execute("update procedure set worth = rank")


def downgrade() -> None:
    op.execute("alter table procedure drop column worth")
    op.execute("alter table digest drop column goal")
