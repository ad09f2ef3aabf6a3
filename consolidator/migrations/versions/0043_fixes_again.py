"""Solutions are made again from all errors by the next night, which tells what is hostile in their fixes."""

from __future__ import annotations

from alembic import op

revision = "0043"
down_revision = "0042"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("update error_record set merged = false, fix_shape = null")


def downgrade() -> None:
    pass
