"""Values that programs keep under a namespace and a key."""

from __future__ import annotations

from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None

TABLES = """
create table store_item (
    namespace text[] collate "C" not null,
    key text collate "C" not null,
    value jsonb not null,
    vectors bytea[] default '{}'::bytea[] not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    ttl_minutes double precision,
    expires_at timestamptz,
    primary key (namespace, key)
);
create index store_item_expires on store_item (expires_at) where expires_at is not null;
comment on table store_item is 'What programs keep under a namespace and a key; nothing is learned from it.';
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop table store_item")
