"""The error records of a fingerprint or family in the order in which the latest ones are read."""

from __future__ import annotations

from alembic import op

revision = "0039"
down_revision = "0038"
branch_labels = None
depends_on = None

LATEST_FIRST = """(record ->> 'occurred_at') desc, session_id desc, seq desc"""


def upgrade() -> None:
    op.execute("drop index error_record_group; drop index error_record_family")
    op.execute(f"create index error_record_group on error_record (agent, fingerprint, {LATEST_FIRST})")
    op.execute(
        f"create index error_record_family on error_record (agent, family, {LATEST_FIRST}) where family is not null"
    )


def downgrade() -> None:
    op.execute("drop index error_record_group; drop index error_record_family")
    op.execute("create index error_record_group on error_record (agent, fingerprint)")
    op.execute("create index error_record_family on error_record (agent, family) where family is not null")
