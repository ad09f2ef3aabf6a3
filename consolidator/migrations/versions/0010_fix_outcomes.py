"""Solutions count what was tried in vain: every record is read again by the next merge of its agent."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

READ_AGAIN = "update error_record set fix_shape = null, merged = false"


def upgrade() -> None:
    op.execute(READ_AGAIN)


def downgrade() -> None:
    op.execute(READ_AGAIN)
