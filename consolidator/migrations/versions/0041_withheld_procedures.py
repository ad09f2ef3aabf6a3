"""What a project has in common with the others is kept, ready to be published there when they share it no more."""

from __future__ import annotations

from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None

TABLE = """
create table withheld_procedure (
    id text not null,
    agent text not null,
    project text not null,
    audience text not null,
    title text not null,
    support bigint default 0 not null,
    rank double precision default 0 not null,
    worth double precision default 0 not null,
    body jsonb default '{}'::jsonb not null,
    primary key (id)
);
create index withheld_procedure_scope on withheld_procedure (agent, project);
comment on table withheld_procedure is
    'Procedures of projects that are not published there, as all projects of the agent share them.';
"""


def upgrade() -> None:
    op.execute(TABLE)


def downgrade() -> None:
    op.execute("drop table withheld_procedure")
    op.execute("delete from merged_agent")  # so that the version before publishes all again
