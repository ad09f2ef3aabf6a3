"""What a context needs of a session's past without reading it again: its summary, latest compaction and scratchpad."""

from __future__ import annotations

from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

TABLES = """
create table session_view (
    session_id text not null,
    upto bigint default 0 not null,
    summary jsonb default '{}'::jsonb not null,
    compaction_seq bigint default 0 not null,
    compaction jsonb default '{}'::jsonb not null,
    scratchpad_seq bigint default 0 not null,
    scratchpad text,
    primary key (session_id),
    foreign key(session_id) references session (id) on delete cascade
);
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop table session_view")
