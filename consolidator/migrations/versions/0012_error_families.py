"""Error records know the family of their error: its fingerprint without the names that decide the fix.

Stored records get theirs in the next merge of their agent, when they are derived again for their new fingerprints.
"""

from __future__ import annotations

from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("alter table error_record add column family text")
    op.execute("create index error_record_family on error_record (agent, family) where family is not null")


def downgrade() -> None:
    op.execute("drop index error_record_family")
    op.execute("alter table error_record drop column family")
