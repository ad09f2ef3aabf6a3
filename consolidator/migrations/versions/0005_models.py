"""What models were asked, what they answered, and what that took."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TABLES = """
create table model_answer (
    key text not null,
    purpose text not null,
    model text not null,
    text text not null,
    run_id text not null,
    created_at timestamptz not null,
    primary key (key)
);

create table model_call (
    id text not null,
    run_id text not null,
    session_id text,
    purpose text not null,
    model text not null,
    key text not null,
    reserved_tokens bigint default 0 not null,
    reserved_cost numeric,
    input_tokens bigint default 0 not null,
    cached_tokens bigint default 0 not null,
    output_tokens bigint default 0 not null,
    cost numeric,
    outcome text,
    created_at timestamptz not null,
    settled_at timestamptz,
    primary key (id)
);
create index model_call_run on model_call (run_id);
create index model_call_session on model_call (session_id) where session_id is not null;

create table model_batch (
    id text not null,
    status text not null,
    submitted_at timestamptz not null,
    due_at timestamptz not null,
    collected_at timestamptz,
    primary key (id)
);
create index model_batch_open on model_batch (id) where collected_at is null;

create table model_question (
    key text not null,
    purpose text not null,
    model text not null,
    body jsonb default '{}'::jsonb not null,
    run_id text not null,
    session_id text,
    call_id text not null,
    batch_id text,
    status text default 'queued' not null,
    created_at timestamptz not null,
    primary key (key)
);
create index model_question_queued on model_question (key) where status = 'queued';
create index model_question_batch on model_question (batch_id) where batch_id is not null;
create index model_question_session on model_question (session_id) where session_id is not null;
"""

GUARDS = """
alter table model_question
    add constraint question_status check (status in ('queued', 'submitted', 'answered', 'failed'));
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(GUARDS)


def downgrade() -> None:
    op.execute("drop table model_question")
    op.execute("drop table model_batch")
    op.execute("drop table model_call")
    op.execute("drop table model_answer")
