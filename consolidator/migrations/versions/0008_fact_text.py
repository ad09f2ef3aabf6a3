"""What the index has of a fact is its sentence with its predicate and kind; the next night writes it anew."""

from __future__ import annotations

from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table indexed_fact rename column sentence to text")


def downgrade() -> None:
    op.execute("alter table indexed_fact rename column text to sentence")
