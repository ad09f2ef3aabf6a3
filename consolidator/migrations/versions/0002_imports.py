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

COMMENTS = """
comment on table imported_file is 'Files that were imported to their end.';
comment on table imported_key is 'Hashed identities of imported items; they outlive the events.';
comment on table erasure is 'The record of erased sessions: what went, when and why, never what it said.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in ("erasure", "imported_key", "imported_file"):
        op.execute(f"drop table {table}")
