"""What models were asked, what they answered, and what it cost."""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"
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

create table spend (
    call_id text not null,
    session_id text,
    message_id text,
    purpose text not null,
    model text not null,
    day date not null,
    reserved numeric default 0 not null,
    cost numeric,
    input_tokens bigint default 0 not null,
    output_tokens bigint default 0 not null,
    cached_tokens bigint default 0 not null,
    tier text,
    strategy text,
    turn integer default 0 not null,
    reserved_at timestamptz not null,
    settled_at timestamptz,
    primary key (call_id)
);
create index spend_day on spend (day);
create index spend_session on spend (session_id);
create index spend_open on spend (session_id) where settled_at is null;
"""

CONSTRAINTS = """
alter table model_question
    add constraint question_status check (status in ('queued', 'submitted', 'answered', 'failed'));
alter table spend add constraint spend_purpose check (purpose in ('step', 'compaction', 'tool'));
alter table spend add constraint spend_settled check (cost is null or settled_at is not null);
"""

COMMENTS = """
comment on table model_answer is 'Answers of models by the hash of their question, so that no retry pays twice.';
comment on table model_call is 'Calls of models by the nights: reserved before, settled after.';
comment on table model_batch is 'Batches of questions that were submitted to a provider.';
comment on table model_question is 'Questions that go through a batch.';
comment on table spend is 'Calls of models by sessions: reserved before, settled after.';
"""


def upgrade() -> None:
    op.execute(TABLES)
    op.execute(CONSTRAINTS)
    op.execute(COMMENTS)


def downgrade() -> None:
    for table in ("spend", "model_question", "model_batch", "model_call", "model_answer"):
        op.execute(f"drop table {table}")
