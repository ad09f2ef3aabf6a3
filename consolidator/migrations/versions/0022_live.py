"""Sessions know until when they are followed, and when one whose waking failed is due again."""

from __future__ import annotations

from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table session add column followed_until timestamptz")
    op.execute("alter table session add column wake_failures integer default 0 not null")
    op.execute("alter table session add column wake_after timestamptz")


def downgrade() -> None:
    for column in ("wake_after", "wake_failures", "followed_until"):
        op.execute(f"alter table session drop column {column}")
