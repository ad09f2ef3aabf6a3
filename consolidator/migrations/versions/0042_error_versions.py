"""Errors whose fingerprints have another version are found without reading the others."""

from __future__ import annotations

from alembic import op

revision = "0042"
down_revision = "0041"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("""create index error_record_version on error_record (split_part(fingerprint, ':', 1), agent)""")


def downgrade() -> None:
    op.execute("drop index error_record_version")
