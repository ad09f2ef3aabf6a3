"""What import remembers, and the record of erasures."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

TABLES = """
create table imported_file (
    format text not null,
    path text not null,
    size bigint default 0 not null,
    mtime_ns bigint default 0 not null,
    imported_at timestamptz not null,
    primary key (format, path)
);

create table imported_key (
    key uuid not null,
    primary key (key)
);

create table erasure (
    id text not null,
    session_id text not null,
    events bigint default 0 not null,
    derived bigint default 0 not null,
    reason text not null,
    erased_at timestamptz not null,
    primary key (id)
);
create index erasure_session on erasure (session_id);
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop table erasure")
    op.execute("drop table imported_key")
    op.execute("drop table imported_file")
