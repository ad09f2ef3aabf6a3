"""Instructions by whom they belong to and what they say: those that several sessions gave are proposed as rules."""

from __future__ import annotations

from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute(
        "create index candidate_instruction on candidate (agent, level, owner, subject, value) "
        "where predicate = 'instruction' and rejected is null"
    )


def downgrade() -> None:
    op.execute("drop index candidate_instruction")
