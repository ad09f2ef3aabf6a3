"""What hooks put into agents' contexts is counted; the standing facts of a project are found by an index."""

from __future__ import annotations

from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None

TABLES = """
create table injection (
    id text not null,
    session_id text not null,
    agent text not null,
    project text,
    moment text not null,
    cited text[] default '{}'::text[] not null,
    tokens integer default 0 not null,
    call_id text,
    fix jsonb default '{}'::jsonb not null,
    outcome text,
    created_at timestamptz not null,
    primary key (id)
);
create index injection_session on injection (session_id);
create index injection_created on injection (created_at);
comment on table injection is 'What hooks put into agents'' contexts, and whether a fix among it was of use.';
create index fact_standing on fact (agent, coalesce(project, ''), sessions desc)
    where superseded_at is null and trust in ('person', 'user');
"""


def upgrade() -> None:
    op.execute(TABLES)


def downgrade() -> None:
    op.execute("drop index fact_standing")
    op.execute("drop table injection")
