"""A sample of the postings, one in 31, by which the documents with a frequent word are counted."""

from __future__ import annotations

from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("create index posting_sample on posting (word, scope) where ref % 31 = 0")


def downgrade() -> None:
    op.execute("drop index posting_sample")
