"""Facts in the order in which they are listed, by when memory came to believe them, and those that wait for a word."""

from __future__ import annotations

from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "create index fact_list on fact (sessions desc, (steers_succeeded - steers_failed) desc, valid_from desc, id)"
    )
    op.execute("create index fact_recorded on fact (recorded_at)")
    op.execute("create index fact_flagged on fact (id) where flagged is not null and superseded_at is null")
    op.execute(
        "create index candidate_waiting on candidate (occurred_at desc, id) "
        "where quarantined is not null and rejected is null"
    )


def downgrade() -> None:
    op.execute("drop index candidate_waiting; drop index fact_flagged; drop index fact_recorded; drop index fact_list")
